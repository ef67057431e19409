// SPDX-License-Identifier: Apache-2.0
// Marks of a chart. A chart takes the width of its page without being scaled, so that its text has one size at any
// width: horizontal positions are percent of the width, vertical ones pixels. Colours are CSS classes only (style.h),
// so that one chart serves light and dark.
#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "reports/document.h"

namespace duet::reports {

inline constexpr double kNarrow = 330;     // pixels: the narrowest place, where labels must fit
inline constexpr double kCharacter = 6.6;  // pixels, upper estimate at the charts' font size

enum class Anchor { start, middle, end };
enum class Shape { circle, diamond, square, triangle };

using Point = std::pair<double, double>;  // percent of the width, pixels

class Svg {
 public:
  enum class Across { percent, pixels };
  Svg(Across unit = Across::percent) : unit_(unit == Across::percent ? "%" : "") {}

  // cls: space-separated classes; tip: a tooltip, which is also the accessible text of the mark.
  void line(Point from, Point to, const std::string& cls);
  // shift: pixels to the right, beside a mark.
  void text(Point at, const std::string& text, Anchor anchor = Anchor::start, const std::string& cls = "",
            double shift = 0);
  void rect(double x, double y, double width, double height, const std::string& cls, const std::string& tip = "");
  void hatched(double x, double y, double width, double height, const std::string& pattern, const std::string& cls,
               const std::string& tip = "");
  void path(const std::vector<Point>& points, const std::string& cls);
  void marker(Point at, Shape shape, const std::string& cls, const std::string& tip = "");
  void dot(Point at, const std::string& cls);
  // Lines of a class, for hatched(). `name`: unique in a page, since a browser looks for it there.
  void pattern(const std::string& name, const std::string& cls);
  void raw(const std::string& markup) { marks_ += markup; }

  // width: pixels where the chart is a file of its own.
  Chart chart(std::string stem, std::string title, std::string description, int width, int height) &&;
  const std::string& marks() const { return marks_; }

 private:
  void rect_with(double x, double y, double width, double height, const std::string& paint, const std::string& tip);
  void x(const char* name, double value);
  void y(const char* name, double value);

  const char* unit_;
  std::string marks_;
};

// Maps a positive value to a position on a logarithmic axis; values outside go to its ends.
class LogAxis {
 public:
  LogAxis(double low, double high, double place_low, double place_high);
  // Ends at the whole decades that enclose the values; at least one decade.
  static LogAxis round(double low, double high, double place_low, double place_high);

  double operator()(double value) const;
  std::vector<double> decades(size_t at_most = 9) const;  // every second or third where there are more
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double low_, high_, log_low_, span_, place_low_, place_high_;
};

struct Box {
  double left, top, right, bottom;  // pixels at kNarrow
};

// Places a label beside a point, at the first place that covers no point, line or other label; drops it if there is
// none. Where there is room at kNarrow, there is room at any larger width.
class Labels {
 public:
  Labels(Svg& svg, Box bounds) : svg_(svg), bounds_(bounds) {}
  void keep_free(Box box) { taken_.push_back(box); }
  void put(Point at, const std::string& text, const std::string& cls = "");

 private:
  Svg& svg_;
  Box bounds_;
  std::vector<Box> taken_;
};

struct LegendEntry {
  enum Kind { bar, hatch, line, dashed, dotted, marker } kind;
  std::string cls, label;
  Shape shape = Shape::circle;
  std::string pattern = "";  // of a hatch
};

// Entries from `left` pixels to the right, in further rows where they would pass kNarrow. Returns the last row's
// baseline.
double legend(Svg& svg, double left, double y, const std::vector<LegendEntry>& entries);

}  // namespace duet::reports
