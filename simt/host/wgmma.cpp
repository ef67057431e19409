// SPDX-License-Identifier: Apache-2.0
// The arithmetic of wgmma.h, compiled once and with optimisation.
#include "simt/wgmma.h"

#include <cstring>

#include "simt/host/half.h"

namespace duet::simt::host {
namespace {
constexpr int kDepth = 16, kRowsOfWarp = 16, kMaxColumns = 256, kPiece = 16;  // a piece: bytes

// The address of a piece: of depths 8 group to 8 group + 7 of a row; of a transposed operand, of its rows 8 group to 8
// group + 7 at a depth.
const char* piece(const SwizzledLines& m, bool transposed, int line, int group) {
  constexpr int kLine = 128, kGroups = kLine / kPiece;
  const auto first = reinterpret_cast<uintptr_t>(m.start);
  const uintptr_t at = first + static_cast<uintptr_t>(line * kLine + (transposed ? group / kGroups * m.next : 0) +
                                                      (transposed ? group % kGroups : group) * kPiece);
  return reinterpret_cast<const char*>(at ^ (at / kLine % kGroups * kPiece));
}
int warp_in_group() { return static_cast<int>(current_thread) / 32 % 4; }

// Calls f(address, line, group) for each piece of `rows` rows from `first` on.
template <class F>
void for_pieces(const SwizzledLines& m, bool transposed, int first, int rows, F&& f) {
  const int lines = transposed ? kDepth : rows, groups = (transposed ? rows : kDepth) / 8;
  for (int i = 0; i < lines * groups; ++i) {
    const int line = i % lines + (transposed ? 0 : first), group = i / lines + (transposed ? first / 8 : 0);
    f(i, piece(m, transposed, line, group), line, group);
  }
}

template <auto element>
void load(const SwizzledLines& m, bool transposed, int first, int rows, float (*to)[kDepth]) {
  for_pieces(m, transposed, first, rows, [&](int, const char* from, int line, int group) {
    uint32_t words[kPiece / 4];
    std::memcpy(words, from, sizeof words);
    for (int e = 0; e < 8; ++e) {
      const float v = element(words[e / 2], e % 2);
      (transposed ? to[group * 8 + e - first][line] : to[line - first][group * 8 + e]) = v;
    }
  });
}

template <auto element>
void finish(const Lanes& l) {
  const auto* any = static_cast<const WarpgroupProduct*>(l.in[0]);
  static float a[kRowsOfWarp][kDepth], b[kMaxColumns][kDepth];
  if (any->a_registers == nullptr) {
    load<element>(any->a, any->trans_a, warp_in_group() * kRowsOfWarp, kRowsOfWarp, a);
  } else {
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 4; ++r)
        for (int e = 0; e < 2; ++e)
          a[lane / 4 + 8 * (r % 2)][lane % 4 * 2 + e + 8 * (r / 2)] =
              element(static_cast<const WarpgroupProduct*>(l.in[lane])->a_registers[r], e);
  }
  load<element>(any->b, any->trans_b, 0, any->columns, b);
  for (int row = 0; row < kRowsOfWarp; ++row) {
    float sum[kMaxColumns] = {};  // each in order of depth
    for (int column = 0; column < any->columns; ++column)
      for (int k = 0; k < kDepth; ++k) sum[column] += a[row][k] * b[column][k];
    for (int column = 0; column < any->columns; ++column) {
      const int lane = row % 8 * 4 + column % 8 / 2, n = column / 8 * 4 + row / 8 * 2 + column % 2;
      static_cast<float*>(l.out[lane])[n] = static_cast<const WarpgroupProduct*>(l.in[lane])->d[n] + sum[column];
    }
  }
}
}  // namespace

void read_operands(const WarpgroupProduct& p, const void* pc) {
  if (settings.capability < 90) stop(fmt::format("wgmma on an sm_{}, which has none", settings.capability));
  const int lane = static_cast<int>(current_thread) % 32;
  const auto read = [&](const SwizzledLines& m, bool transposed, int first, int rows) {
    for_pieces(m, transposed, first, rows, [&](int i, const char* from, int, int) {
      if (i % 32 == lane) read_operand_piece(from, pc);
    });
  };
  if (p.a_registers == nullptr) read(p.a, p.trans_a, warp_in_group() * kRowsOfWarp, kRowsOfWarp);
  read(p.b, p.trans_b, 0, p.columns);
}
void finish_wgmma_bf16(const Lanes& l) { finish<bf16_of>(l); }
void finish_wgmma_f16(const Lanes& l) { finish<f16_of>(l); }

}  // namespace duet::simt::host
