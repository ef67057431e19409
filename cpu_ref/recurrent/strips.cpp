// SPDX-License-Identifier: Apache-2.0
// The products of strips.h: no vector code here, only calls of the register tiles.
#include "cpu_ref/recurrent/strips.h"

namespace duet::recurrent {
namespace {
constexpr int64_t kBlockK = 512;  // k values of a strip that stay in L1 or L2 while all rows are multiplied by them
}

void multiply(const engine::KernelShape& kernel, const StripProduct& p, int64_t rows, int64_t k) {
  const int64_t tiles = ceil_div(rows, kernel.rows), blocks = std::max<int64_t>(1, ceil_div(k, kBlockK));
  const auto run_tile = p.pairs ? engine::run_tile_of_pairs : engine::run_tile;
  const engine::Result result{.c = nullptr, .dtype = DType::f32, .step = 0, .bias = p.bias};
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = k * block / blocks;
    engine::Tile tile{};
    tile.columns = p.width;
    tile.kc = k * (block + 1) / blocks - first;
    tile.a_line = p.a_row;
    tile.a_k = p.a_k;
    tile.b = p.b + first * p.b_k;
    tile.b_k = p.b_k;
    tile.b_ahead = 8 * p.b_k;
    tile.sums_step = p.to_pitch;
    tile.add = p.add || block > 0;
    tile.last = block + 1 == blocks;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = rows * t / tiles;
      tile.rows = rows * (t + 1) / tiles - row;
      tile.a = p.a + row * p.a_row + first * p.a_k;
      tile.sums = p.to + row * p.to_pitch;
      run_tile(tile, result);
    }
  }
}

void Spliced::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  const int64_t middle = std::clamp(split_, k0, k1);
  if (k0 < middle) first_.pack(line0, lines, height, k0, middle, to);
  if (middle < k1) second_.pack(line0, lines, height, middle - split_, k1 - split_, to + (middle - k0) * height);
}

void GatheredRows::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  for (int64_t k = k0; k < k1; ++k, to += height) {
    if (const void* row = row_(k))
      engine::Matrix(row, type_, 1, 0).pack(line0, lines, height, 0, 1, to);
    else
      std::fill_n(to, height, 0.0f);
  }
}

void GatheredLines::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  const void* line[engine::kMaxHeight];
  while (k0 < k1) {
    const int64_t part = k0 / split_, first = k0 % split_, count = std::min(k1 - k0, split_ - first);
    for (int64_t i = 0; i < lines; ++i) line[i] = line_(line0 + i, part) + first;
    engine::pack_lines(line, DType::f32, lines, height, count, to);
    k0 += count;
    to += count * height;
  }
}

}  // namespace duet::recurrent
