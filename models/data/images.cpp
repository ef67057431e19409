// SPDX-License-Identifier: Apache-2.0
#include "models/data/images.h"

#include <algorithm>
#include <array>

#include "models/data/dice.h"

namespace duet {
namespace {

enum Class { disc, ring, square, triangle, cross, stripes, rays, checks, dots, ramp, kClasses };

// How much of the foreground is at (x, y), 0 to 1. x and y are in units of the shape's size from its centre, rotated
// with the shape; the edge is blurred over `soft`.
double ink(Class c, double x, double y, double soft) {
  const auto inside = [&](double d) { return std::clamp(.5 - d / soft, 0., 1.); };  // d: signed distance from the edge
  const auto wave = [](double t) { return t - std::floor(t); };
  const double r = std::hypot(x, y);
  switch (c) {
    case disc:
      return inside(r - 1);
    case ring:
      return inside(std::abs(r - .8) - .2);
    case square:
      return inside(std::max(std::abs(x), std::abs(y)) - .85);
    case triangle:
      return inside(std::max(y - .6, std::max(.866 * x - .5 * y, -.866 * x - .5 * y) - .6));
    case cross:
      return inside(std::min(std::max(std::abs(x), 3.5 * std::abs(y)), std::max(3.5 * std::abs(x), std::abs(y))) - 1);
    case stripes:
      return inside(std::abs(wave(x * 1.2) - .5) - .25);
    case rays:
      return inside((std::abs(wave(std::atan2(y, x) * 4 / std::numbers::pi) - .5) - .25) * std::max(r, .1));
    case checks:
      return inside((wave(x * .8) < .5) == (wave(y * .8) < .5) ? -1 : 1);
    case dots:
      return inside(std::hypot(wave(x) - .5, wave(y) - .5) - .28);
    default:
      return std::clamp(.5 + x / 3, 0., 1.);
  }
}

void draw_image(Class c, Dice& dice, int64_t side, float* image) {
  std::array<double, kColours> front, back;
  double contrast = 0;
  do {
    contrast = 0;
    for (size_t i = 0; i < kColours; ++i) {
      front[i] = dice.uniform(0, 1);
      back[i] = dice.uniform(0, 1);
      contrast += std::abs(front[i] - back[i]);
    }
  } while (contrast < .9);
  const double scale = static_cast<double>(side) / kImageSide;  // of lengths, which are drawn for 32 pixels
  const double size = scale * dice.uniform(7, 13), turn = dice.uniform(0, 2 * std::numbers::pi),
               noise = dice.uniform(.02, .12);
  const double cx = scale * dice.uniform(12, 20), cy = scale * dice.uniform(12, 20), a = std::cos(turn) / size,
               b = std::sin(turn) / size;
  for (int64_t i = 0; i < side * side; ++i) {
    const double x = static_cast<double>(i % side) + .5 - cx, y = static_cast<double>(i / side) + .5 - cy;
    const double share = ink(c, a * x + b * y, a * y - b * x, 1.2 / size), shade = dice.uniform(-noise, noise);
    for (size_t k = 0; k < kColours; ++k)
      image[static_cast<int64_t>(k) * side * side + i] =
          static_cast<float>(std::clamp(back[k] + share * (front[k] - back[k]) + shade, 0., 1.));
  }
}

}  // namespace

Dataset draw_images(int64_t count, uint64_t seed) { return draw_images_of(count, kImageSide, false, seed); }

Dataset draw_images_of(int64_t count, int64_t side, bool binary, uint64_t seed) {
  Dataset data{.features = kColours * side * side, .classes = kClasses, .x = {}, .token = {}, .label = {}};
  data.class_names = {"disc", "ring", "square", "triangle", "cross", "stripes", "rays", "checks", "dots", "ramp"};
  data.x.resize(static_cast<size_t>(count * data.features));
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, i);
    data.label.push_back(static_cast<int32_t>(dice.below(kClasses)));
    draw_image(static_cast<Class>(data.label.back()), dice, side, data.x.data() + i * data.features);
  }
  if (!binary) return data;
  for (int32_t& label : data.label) label = label >= kClasses / 2;
  data.classes = 2;
  data.class_names = {"disc to cross", "stripes to ramp"};
  return data;
}

}  // namespace duet
