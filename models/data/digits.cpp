// SPDX-License-Identifier: Apache-2.0
#include "models/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "models/data/dice.h"

namespace duet {
namespace {

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;  // joined by straight pen strokes
using Glyph = std::vector<Stroke>;  // in the unit square, y downwards

// An arc of an ellipse. Angles in degrees, clockwise from the right, since y points down.
Stroke arc(double cx, double cy, double rx, double ry, double from, double to) {
  constexpr int kPieces = 12;
  Stroke s;
  for (int i = 0; i <= kPieces; ++i) {
    const double a = (from + (to - from) * i / kPieces) * std::numbers::pi / 180;
    s.push_back({cx + rx * std::cos(a), cy + ry * std::sin(a)});
  }
  return s;
}
Stroke then(Stroke a, const Stroke& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::array<std::vector<Glyph>, 10>& glyphs() {  // the ways to write each digit
  static const std::array<std::vector<Glyph>, 10> all{{
      {{arc(.5, .5, .25, .38, 0, 360)}, {arc(.5, .5, .19, .38, 0, 360)}},
      {{{{.5, .1}, {.5, .9}}},
       {{{.34, .28}, {.52, .1}, {.52, .9}}},
       {{{.34, .28}, {.5, .1}, {.5, .9}}, {{.32, .9}, {.68, .9}}}},
      {{then(arc(.5, .34, .24, .23, 190, 380), {{.26, .88}, {.77, .88}})},
       {then(arc(.48, .33, .25, .22, 200, 400), {{.3, .78}}), arc(.36, .8, .1, .08, 90, 360), {{.36, .88}, {.8, .86}}}},
      {{arc(.46, .3, .24, .19, 200, 450), arc(.46, .69, .28, .2, 270, 520)},
       {{{.24, .13}, {.74, .13}, {.47, .42}}, arc(.47, .65, .28, .23, 270, 520)}},
      {{{{.6, .1}, {.22, .62}, {.82, .62}}, {{.62, .4}, {.62, .92}}},
       {{{.28, .12}, {.26, .54}, {.78, .54}}, {{.7, .12}, {.68, .92}}}},
      {{{{.74, .12}, {.32, .12}, {.29, .48}}, arc(.46, .65, .28, .24, 235, 510)}},
      {{then({{.66, .1}, {.42, .3}}, arc(.5, .67, .24, .22, 180, 540))},
       {then({{.4, .1}, {.28, .45}}, arc(.5, .68, .22, .2, 180, 540))}},
      {{{{.22, .14}, {.78, .14}, {.42, .9}}}, {{{.22, .14}, {.76, .14}, {.46, .9}}, {{.36, .5}, {.7, .5}}}},
      {{arc(.5, .3, .2, .19, 90, 450), arc(.5, .7, .25, .2, 270, 630)}},
      {{arc(.48, .33, .23, .21, 0, 360), {{.71, .33}, {.68, .6}, {.58, .9}}},
       {arc(.48, .33, .22, .22, 0, 360), then({{.7, .33}, {.7, .7}}, arc(.5, .72, .2, .17, 0, 140))}},
  }};
  return all;
}

// Maps the unit square to pixels: the glyph's centre comes near the image's centre.
struct Affine {
  double a, b, c, d, dx, dy;
  explicit Affine(Dice& dice) {
    const double turn = dice.uniform(-.3, .3), slant = dice.uniform(-.3, .3);  // radians; share of the height
    const double wide = dice.uniform(15, 24), high = dice.uniform(18, 25);     // pixels
    a = wide * std::cos(turn);
    b = high * (slant * std::cos(turn) - std::sin(turn));
    c = wide * std::sin(turn);
    d = high * (slant * std::sin(turn) + std::cos(turn));
    dx = kDigitSide / 2. + dice.uniform(-2.5, 2.5);
    dy = kDigitSide / 2. + dice.uniform(-2.5, 2.5);
  }
  Point operator()(Point p) const {
    const double x = p.x - .5, y = p.y - .5;
    return {dx + a * x + b * y, dy + c * x + d * y};
  }
};

double distance(Point p, Point a, Point b) {  // to the segment ab
  const double ux = b.x - a.x, uy = b.y - a.y, length2 = ux * ux + uy * uy;
  const double t = length2 > 0 ? std::clamp(((p.x - a.x) * ux + (p.y - a.y) * uy) / length2, 0., 1.) : 0;
  return std::hypot(p.x - a.x - t * ux, p.y - a.y - t * uy);
}

// The ink at a pixel: it falls from 1 to 0 over one pixel at the pen's edge.
void draw_segment(Point a, Point b, double pen, float* image) {
  const auto clip = [](double v) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(v)), 0, kDigitSide - 1);
  };
  const double reach = pen + 1;
  for (int64_t y = clip(std::min(a.y, b.y) - reach); y <= clip(std::max(a.y, b.y) + reach); ++y)
    for (int64_t x = clip(std::min(a.x, b.x) - reach); x <= clip(std::max(a.x, b.x) + reach); ++x) {
      const double ink = pen + .5 - distance({static_cast<double>(x) + .5, static_cast<double>(y) + .5}, a, b);
      float& pixel = image[y * kDigitSide + x];
      pixel = std::max(pixel, static_cast<float>(std::clamp(ink, 0., 1.)));
    }
}

void draw_digit(int digit, Dice& dice, float* image) {
  const auto& ways = glyphs()[static_cast<size_t>(digit)];
  const Glyph& glyph = ways[dice.below(ways.size())];
  const Affine place(dice);
  const double pen = dice.uniform(.6, 1.6), shake = dice.uniform(0, .5), dark = dice.uniform(.6, 1);  // pixels; share
  for (const Stroke& stroke : glyph) {
    Point last{};
    for (size_t i = 0; i < stroke.size(); ++i) {
      Point p = place(stroke[i]);
      p.x += dice.uniform(-shake, shake);
      p.y += dice.uniform(-shake, shake);
      if (i) draw_segment(last, p, pen, image);
      last = p;
    }
  }
  for (int64_t i = 0; i < kDigitPixels; ++i)
    image[i] = static_cast<float>(std::clamp(image[i] * dark + dice.uniform(-.15, .15), 0., 1.));
}

}  // namespace

Dataset draw_digits(int64_t count, uint64_t seed) {
  Dataset data{.features = kDigitPixels, .classes = 10, .x = {}, .token = {}, .label = {}};
  data.x.resize(static_cast<size_t>(count * kDigitPixels));
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, i);
    data.label.push_back(static_cast<int32_t>(dice.below(10)));
    draw_digit(data.label.back(), dice, data.x.data() + i * kDigitPixels);
  }
  return data;
}

}  // namespace duet
