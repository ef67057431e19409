// SPDX-License-Identifier: Apache-2.0
#include "reports/svg.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "reports/format.h"

namespace duet::reports {
namespace {

bool overlap(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

}  // namespace

// Large reports have many thousands of marks: they are appended in place.
void Svg::x(const char* name, double value) {
  fmt::format_to(std::back_inserter(marks_), FMT_COMPILE(R"( {}="{:.2f}{}")"), name, value, unit_);
}
void Svg::y(const char* name, double value) {
  fmt::format_to(std::back_inserter(marks_), FMT_COMPILE(R"( {}="{:.1f}")"), name, value);
}

void Svg::line(Point from, Point to, const std::string& cls) {
  marks_ += "<line";
  x("x1", from.first);
  y("y1", from.second);
  x("x2", to.first);
  y("y2", to.second);
  marks_ += " class=\"" + cls + "\"/>";
}

void Svg::text(Point at, const std::string& text, Anchor anchor, const std::string& cls, double shift) {
  static constexpr const char* kAnchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  marks_ += "<text";
  x("x", at.first);
  y("y", at.second);
  if (shift != 0) y("dx", shift);
  marks_ += kAnchors[static_cast<int>(anchor)];
  if (!cls.empty()) marks_ += " class=\"" + cls + "\"";
  marks_ += ">" + html_escaped(text) + "</text>";
}

void Svg::rect_with(double left, double top, double width, double height, const std::string& paint,
                    const std::string& tip) {
  marks_ += "<rect";
  x("x", left);
  y("y", top);
  x("width", std::max(width, 0.0));
  y("height", std::max(height, 0.0));
  marks_ += " " + paint;
  marks_ += tip.empty() ? "/>" : "><title>" + html_escaped(tip) + "</title></rect>";
}

void Svg::rect(double x, double y, double width, double height, const std::string& cls, const std::string& tip) {
  rect_with(x, y, width, height, "class=\"" + cls + "\"", tip);
}

void Svg::hatched(double x, double y, double width, double height, const std::string& pattern, const std::string& cls,
                  const std::string& tip) {
  rect_with(x, y, width, height, "fill=\"url(#" + pattern + ")\" class=\"" + cls + "\"", tip);
}

// Lines one by one: the points of a <path> cannot be percent.
void Svg::path(const std::vector<Point>& points, const std::string& cls) {
  for (size_t i = 1; i < points.size(); ++i) line(points[i - 1], points[i], cls);
}

void Svg::marker(Point at, Shape shape, const std::string& cls, const std::string& tip) {
  static constexpr const char* kShapes[] = {R"(<circle r="4.5")", R"(<path d="M0,-6l6,6l-6,6l-6,-6z")",
                                            R"(<path d="M-4,-4h8v8h-8z")", R"(<path d="M0,-6l5.5,9.5l-11,0z")"};
  static constexpr const char* kEnds[] = {"</circle>", "</path>", "</path>", "</path>"};
  marks_ += "<svg overflow=\"visible\"";
  x("x", at.first);
  y("y", at.second);
  marks_ += std::string(">") + kShapes[static_cast<int>(shape)] + " class=\"mark " + cls + "\"";
  marks_ += tip.empty() ? "/>" : "><title>" + html_escaped(tip) + "</title>" + kEnds[static_cast<int>(shape)];
  marks_ += "</svg>";
}

void Svg::dot(Point at, const std::string& cls) {
  marks_ += "<circle";
  x("cx", at.first);
  y("cy", at.second);
  marks_ += " r=\"2.5\" class=\"" + cls + "\"/>";
}

void Svg::pattern(const std::string& name, const std::string& cls) {
  marks_ += "<defs><pattern id=\"" + name +
            "\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
            "<rect width=\"5\" height=\"5\" class=\"back\"/><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"5\" class=\"" +
            cls + " thick\"/></pattern></defs>";
}

Chart Svg::chart(std::string stem, std::string title, std::string description, int width, int height) && {
  return {std::move(stem), std::move(title), std::move(description), width, height, std::move(marks_)};
}

namespace {
// A file may hold any number. Beyond these bounds a logarithm or a power of ten would not be finite.
double drawable(double value) { return value > 1e-300 ? std::min(value, 1e300) : 1e-300; }
}  // namespace

LogAxis::LogAxis(double low, double high, double place_low, double place_high)
    : low_(drawable(low)),
      high_(std::max(low_, drawable(high))),
      log_low_(std::log10(low_)),
      span_(std::log10(high_) - log_low_),
      place_low_(place_low),
      place_high_(place_high) {
  if (!(span_ > 0)) span_ = 1;  // a single value: it is drawn at the low end
}

LogAxis LogAxis::round(double low, double high, double place_low, double place_high) {
  const double first = std::floor(std::log10(drawable(low)) + 1e-9);
  const double last = std::max(first + 1, std::ceil(std::log10(drawable(high)) - 1e-9));
  return {std::pow(10, first), std::pow(10, last), place_low, place_high};
}

double LogAxis::operator()(double value) const {
  const double t = (std::log10(std::clamp(value, low_, high_)) - log_low_) / span_;
  return place_low_ + t * (place_high_ - place_low_);
}

std::vector<double> LogAxis::decades(size_t at_most) const {
  const int first = static_cast<int>(std::ceil(log_low_ - 1e-9));
  const int last = static_cast<int>(std::floor(log_low_ + span_ + 1e-9));
  int step = 1;
  while (static_cast<size_t>(std::max(0, last - first)) / static_cast<size_t>(step) + 1 > at_most) ++step;
  std::vector<double> values;
  // Multiples of the step, so that 1 is among them wherever it is on the axis.
  const int start = static_cast<int>(std::ceil(static_cast<double>(first) / step)) * step;
  for (int exponent = start; exponent <= last; exponent += step) values.push_back(std::pow(10, exponent));
  return values;
}

void Labels::put(Point at, const std::string& text, const std::string& cls) {
  // Offsets of the baseline, and the part of the width that lies to the left of it.
  static constexpr std::array<std::array<double, 3>, 9> kPlaces = {{{9, 4, 0},
                                                                    {-9, 4, 1},
                                                                    {0, -9, 0.5},
                                                                    {0, 18, 0.5},
                                                                    {8, -8, 0},
                                                                    {8, 16, 0},
                                                                    {-8, -8, 1},
                                                                    {-8, 16, 1},
                                                                    {12, 26, 0}}};
  const double width = kCharacter * static_cast<double>(width_of(text)), x = at.first * kNarrow / 100;
  for (const auto& [dx, dy, anchor] : kPlaces) {
    const double left = x + dx - anchor * width, base = at.second + dy;
    const Box box{left, base - 10, left + width, base + 2};
    const bool inside =
        bounds_.left < box.left && box.right < bounds_.right && bounds_.top < box.top && box.bottom < bounds_.bottom;
    if (!inside || std::any_of(taken_.begin(), taken_.end(), [&](const Box& b) { return overlap(b, box); })) continue;
    taken_.push_back(box);
    svg_.text({at.first, base}, text, Anchor::start, "halo " + cls, dx - anchor * width);
    return;
  }
}

double legend(Svg& svg, double left, double y, const std::vector<LegendEntry>& entries) {
  Svg in_pixels(Svg::Across::pixels);
  double x = left;
  for (const LegendEntry& entry : entries) {
    const double width = 38 + kCharacter * static_cast<double>(width_of(entry.label));
    if (x > left && x + width > kNarrow) {
      x = left;
      y += 18;
    }
    if (entry.kind == LegendEntry::bar) {
      in_pixels.rect(x, y - 9, 12, 10, entry.cls);
    } else if (entry.kind == LegendEntry::hatch) {
      in_pixels.hatched(x, y - 9, 12, 10, entry.pattern, entry.cls);
    } else if (entry.kind == LegendEntry::marker) {
      in_pixels.marker({x + 6, y - 4}, entry.shape, entry.cls);
    } else {
      const char* dash = entry.kind == LegendEntry::dashed ? " dash" : entry.kind == LegendEntry::dotted ? " dots" : "";
      in_pixels.line({x, y - 4}, {x + 16, y - 4}, entry.cls + dash);
    }
    in_pixels.text({x + 20, y}, entry.label, Anchor::start, "m");
    x += width;
  }
  svg.raw(in_pixels.marks());
  return y;
}

}  // namespace duet::reports
