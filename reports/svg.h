// SPDX-License-Identifier: Apache-2.0
// Marks of a chart. Colours are CSS classes only (style.h), so that one chart serves light and dark.
#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "reports/document.h"

namespace duet::reports {

enum class Anchor { start, middle, end };
enum class Shape { circle, diamond, square, triangle };

using Point = std::pair<double, double>;  // pixels

class Svg {
 public:
  // cls: space-separated classes; tip: a tooltip, which is also the accessible text of the mark.
  void line(Point from, Point to, const std::string& cls);
  void text(Point at, const std::string& text, Anchor anchor = Anchor::start, const std::string& cls = "");
  void rect(double x, double y, double width, double height, const std::string& cls, const std::string& tip = "");
  void path(const std::vector<Point>& points, const std::string& cls);
  void marker(Point at, Shape shape, const std::string& cls, const std::string& tip = "");
  void raw(const std::string& markup) { marks_ += markup; }

  Chart chart(std::string stem, std::string title, std::string description, int width, int height) &&;

 private:
  std::string marks_;
};

// Maps a positive value to pixels on a logarithmic axis; values outside go to its ends.
class LogAxis {
 public:
  LogAxis(double low, double high, double pixel_low, double pixel_high);
  // Ends at the whole decades that enclose the values; at least one decade.
  static LogAxis round(double low, double high, double pixel_low, double pixel_high);

  double operator()(double value) const;
  std::vector<double> decades(size_t at_most = 9) const;  // every second or third where there are more
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double low_, high_, log_low_, span_, pixel_low_, pixel_high_;
};

struct Box {
  double left, top, right, bottom;
};

// Places a label beside a point, at the first place that covers no point, line or other label; drops it if there is
// none.
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
  enum Kind { bar, line, dashed, dotted, marker } kind;
  std::string cls, label;
  Shape shape = Shape::circle;
};

// Entries from `at` to the right, in further rows where they would pass `right`. Returns the last row's baseline.
double legend(Svg& svg, Point at, const std::vector<LegendEntry>& entries, double right = 1e9);

}  // namespace duet::reports
