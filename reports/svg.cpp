// SPDX-License-Identifier: Apache-2.0
#include "reports/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/format.h"

namespace duet::reports {
namespace {

constexpr double kCharacter = 6.6;  // pixels, upper estimate at the charts' font size

std::string titled(const std::string& tag, const std::string& attributes, const std::string& tip) {
  if (tip.empty()) return fmt::format("<{} {}/>", tag, attributes);
  return fmt::format("<{} {}><title>{}</title></{}>", tag, attributes, html_escaped(tip), tag);
}

bool overlap(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

}  // namespace

void Svg::line(Point from, Point to, const std::string& cls) {
  marks_ += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)", from.first,
                        from.second, to.first, to.second, cls);
}

void Svg::text(Point at, const std::string& text, Anchor anchor, const std::string& cls) {
  static constexpr const char* kAnchors[] = {"start", "middle", "end"};
  marks_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>)", at.first, at.second,
                        kAnchors[static_cast<int>(anchor)], cls, html_escaped(text));
}

void Svg::rect(double x, double y, double width, double height, const std::string& cls, const std::string& tip) {
  marks_ += titled("rect",
                   fmt::format(R"(x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}")", x, y,
                               std::max(width, 0.0), std::max(height, 0.0), cls),
                   tip);
}

void Svg::path(const std::vector<Point>& points, const std::string& cls) {
  if (points.empty()) return;
  std::string d;
  for (const auto& [x, y] : points) d += fmt::format("{}{:.1f},{:.1f}", d.empty() ? "M" : "L", x, y);
  marks_ += fmt::format(R"(<path d="{}" class="curve {}"/>)", d, cls);
}

void Svg::marker(Point at, Shape shape, const std::string& cls, const std::string& tip) {
  const auto [x, y] = at;
  const std::string paint = fmt::format(R"(class="mark {}")", cls);
  switch (shape) {
    case Shape::circle:
      marks_ += titled("circle", fmt::format(R"(cx="{:.1f}" cy="{:.1f}" r="4.5" {})", x, y, paint), tip);
      break;
    case Shape::square:
      marks_ +=
          titled("rect", fmt::format(R"(x="{:.1f}" y="{:.1f}" width="8" height="8" {})", x - 4, y - 4, paint), tip);
      break;
    case Shape::diamond:
      marks_ += titled("path", fmt::format(R"(d="M{:.1f},{:.1f}l6,6l-6,6l-6,-6z" {})", x, y - 6, paint), tip);
      break;
    case Shape::triangle:
      marks_ += titled("path", fmt::format(R"(d="M{:.1f},{:.1f}l5.5,9.5l-11,0z" {})", x, y - 6, paint), tip);
      break;
  }
}

Chart Svg::chart(std::string stem, std::string title, std::string description, int width, int height) && {
  return {std::move(stem), std::move(title), std::move(description), width, height, std::move(marks_)};
}

namespace {
// A file may hold any number. Beyond these bounds a logarithm or a power of ten would not be finite.
double drawable(double value) { return value > 1e-300 ? std::min(value, 1e300) : 1e-300; }
}  // namespace

LogAxis::LogAxis(double low, double high, double pixel_low, double pixel_high)
    : low_(drawable(low)),
      high_(std::max(low_, drawable(high))),
      log_low_(std::log10(low_)),
      span_(std::log10(high_) - log_low_),
      pixel_low_(pixel_low),
      pixel_high_(pixel_high) {
  if (!(span_ > 0)) span_ = 1;  // a single value: it is drawn at the low end
}

LogAxis LogAxis::round(double low, double high, double pixel_low, double pixel_high) {
  const double first = std::floor(std::log10(drawable(low)) + 1e-9);
  const double last = std::max(first + 1, std::ceil(std::log10(drawable(high)) - 1e-9));
  return {std::pow(10, first), std::pow(10, last), pixel_low, pixel_high};
}

double LogAxis::operator()(double value) const {
  const double t = (std::log10(std::clamp(value, low_, high_)) - log_low_) / span_;
  return pixel_low_ + t * (pixel_high_ - pixel_low_);
}

std::vector<double> LogAxis::decades(size_t at_most) const {
  const int first = static_cast<int>(std::ceil(log_low_ - 1e-9));
  const int last = static_cast<int>(std::floor(log_low_ + span_ + 1e-9));
  int step = 1;
  while (static_cast<size_t>(std::max(0, last - first)) / static_cast<size_t>(step) + 1 > at_most) ++step;
  std::vector<double> values;
  for (int exponent = first; exponent <= last; exponent += step) values.push_back(std::pow(10, exponent));
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
  const double width = kCharacter * static_cast<double>(width_of(text));
  for (const auto& [dx, dy, anchor] : kPlaces) {
    const double left = at.first + dx - anchor * width, base = at.second + dy;
    const Box box{left, base - 10, left + width, base + 2};
    const bool inside =
        bounds_.left < box.left && box.right < bounds_.right && bounds_.top < box.top && box.bottom < bounds_.bottom;
    if (!inside || std::any_of(taken_.begin(), taken_.end(), [&](const Box& b) { return overlap(b, box); })) continue;
    taken_.push_back(box);
    svg_.text({left, base}, text, Anchor::start, "halo " + cls);
    return;
  }
}

double legend(Svg& svg, Point at, const std::vector<LegendEntry>& entries, double right) {
  auto [x, y] = at;
  for (const LegendEntry& entry : entries) {
    const double width = 36 + kCharacter * static_cast<double>(width_of(entry.label));
    if (x > at.first && x + width > right) {
      x = at.first;
      y += 18;
    }
    if (entry.kind == LegendEntry::bar) {
      svg.rect(x, y - 9, 12, 10, entry.cls);
    } else if (entry.kind == LegendEntry::marker) {
      svg.marker({x + 6, y - 4}, entry.shape, entry.cls);
    } else {
      const char* dash = entry.kind == LegendEntry::dashed ? " dash" : entry.kind == LegendEntry::dotted ? " dots" : "";
      svg.line({x, y - 4}, {x + 16, y - 4}, entry.cls + dash);
    }
    svg.text({x + 20, y}, entry.label, Anchor::start, "m");
    x += width;
  }
  return y;
}

}  // namespace duet::reports
