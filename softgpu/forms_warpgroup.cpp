// SPDX-License-Identifier: Apache-2.0
// wgmma.mma_async of four warps: a in registers (core/cuda/gpu_pass.cu) or in shared memory (simt/wgmma.h), b in shared
// memory, 64, 128 or 256 columns. PTX ISA, "Asynchronous Warpgroup Level Matrix Operations": warp w of the four has
// rows 16 w to 16 w + 15 of a and of the sums, so that each warp computes its part by itself. Sums land when a wait
// asks for their group: until then their registers hold 0xFFFFFFFF, which is NaN, and what a kernel writes into them is
// lost. Operands in shared memory are read at once, and held until the wait: a store into one is reported.
//
// Such an operand is described by a word of 64 bits: its address, two strides in units of 16 bytes, and the order of
// its pieces of 16 bytes.
//   No order: core matrices of 8 rows by 16 bytes of depth; "leading" is the stride along the depth, the other one that
//   along the rows (of b: columns). Of a transposed one a core matrix is 8 depths by 8 rows, rows contiguous.
//   Swizzled by 128 bytes: lines of 128 bytes of a row, or, of a transposed one, of a depth; the other stride is that
//   of 8 lines, "leading" that of 64 rows of a transposed one. Bits 4 to 6 of an address are changed by bits 7 to 9.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "softgpu/access.h"
#include "softgpu/forms.h"
#include "softgpu/half.h"

namespace duet::softgpu {
namespace {
constexpr int kRows = 16, kMaxColumns = 256, kDepthBytes = 32;
constexpr int kCoreRows = 8, kCoreBytes = 16, kCorePieces = 8;

HeldMatrix described(uint64_t description, bool transposed, int first, int rows, uint32_t group) {
  const uint64_t order = description >> 62;
  if (order > 1 || (description >> 46 & 0xffff) != 0)
    fault("wgmma: an operand in another order than by 128 bytes is not supported");
  return {.start = (description & 0x3fff) << 4,
          .along_depth = (description >> 16 & 0x3fff) << 4,
          .along_rows = (description >> 32 & 0x3fff) << 4,
          .transposed = transposed,
          .swizzled = order == 1,
          .first = first,
          .rows = rows,
          .group = group};
}
// byte: along the depth; of an element of `size` bytes.
uint64_t address_of(const HeldMatrix& m, int row, uint64_t byte, uint64_t size) {
  if (m.swizzled) {
    const auto r = static_cast<uint64_t>(row);
    const uint64_t depth = byte / size, line = m.transposed ? depth : r;
    const uint64_t along = m.transposed ? r / 64 * m.along_depth + r % 64 * size : byte;
    const uint64_t at = m.start + line / kCoreRows * m.along_rows + line % kCoreRows * 128 + along;
    return at ^ (at >> 7 & 7) << 4;
  }
  const auto part = static_cast<uint64_t>(row / kCoreRows), rest = static_cast<uint64_t>(row % kCoreRows);
  if (!m.transposed)
    return m.start + byte / kCoreBytes * m.along_depth + byte % kCoreBytes + part * m.along_rows + rest * kCoreBytes;
  const uint64_t depth = byte / size;
  return m.start + depth / kCorePieces * m.along_depth + depth % kCorePieces * kCoreBytes + part * m.along_rows +
         rest * size;
}
// Calls f(address) for each piece of 16 bytes of the rows.
template <class F>
void for_pieces(const HeldMatrix& m, F&& f) {
  constexpr uint64_t kHalf = 2;  // only 16-bit operands are transposed
  for (int row = m.first; row < m.first + m.rows; row += m.transposed ? kCoreRows : 1)
    for (uint64_t byte = 0; byte < kDepthBytes; byte += m.transposed ? kHalf : uint64_t{kCoreBytes})
      f(address_of(m, row, byte, kHalf));
}

struct Bf16 {
  using Bits = uint16_t;
  using Sum = float;
  static float value(Bits bits) { return f32_of_bf16(bits); }
};
struct F16 {
  using Bits = uint16_t;
  using Sum = float;
  static float value(Bits bits) { return f32_of_f16(bits); }
};
struct Tf32 {
  using Bits = uint32_t;
  using Sum = float;
  static float value(Bits bits) { return std::bit_cast<float>(bits & ~uint32_t{0x1fff}); }
};
struct E4m3 {
  using Bits = uint8_t;
  using Sum = float;
  static float value(Bits bits) { return f32_of_e4m3(bits); }
};
struct S8 {
  using Bits = uint8_t;
  using Sum = int32_t;
  static int32_t value(Bits bits) { return static_cast<int8_t>(bits); }
};

// Each piece of 16 bytes counts the products that read it. The first one takes kUsable away, the last one gives it
// back.
void hold(Block& block, const HeldMatrix& m, bool begins) {
  const MemoryView& shared = block.shared;
  block.holders.resize(shared.bytes / kCoreBytes + 1);
  for_pieces(m, [&](uint64_t at) {
    uint16_t& holders = block.holders[at / kCoreBytes];
    if (begins ? holders++ > 0 : --holders > 0) return;
    for (uint64_t i = at; i < at + kCoreBytes; ++i)
      shared.states[i] =
          static_cast<uint8_t>(begins ? (shared.states[i] & ~kUsable) | kHeld : (shared.states[i] & ~kHeld) | kUsable);
  });
}

// The sums on their way to these registers. A product that follows adds to them; only a wait brings them there.
std::vector<uint32_t>& sums_under_way(Warp& w, const int* places, int count) {
  for (AsyncSums& s : w.sums)
    if (*s.places == *places) {
      s.group = w.sum_groups;
      return s.values;
    }
  AsyncSums& s = w.sums.emplace_back(AsyncSums{places, w.sum_groups, {}});
  for (int n = 0; n < count; ++n) {
    uint32_t* lanes = w.at<uint32_t>(places[n]);
    s.values.insert(s.values.end(), lanes, lanes + kLanes);
    std::fill_n(lanes, kLanes, UINT32_MAX);
  }
  return s.values;
}

void commit_sums(Warp& w, const Instruction&, uint32_t) { ++w.sum_groups; }

// offset: how many of the latest groups may stay in flight.
void wait_for_sums(Warp& w, const Instruction& i, uint32_t) {
  std::erase_if(w.held, [&](const HeldMatrix& m) {
    if (static_cast<int64_t>(m.group) + i.offset >= static_cast<int64_t>(w.sum_groups)) return false;
    hold(*w.block, m, false);
    return true;
  });
  size_t kept = 0;
  for (AsyncSums& s : w.sums) {
    if (static_cast<int64_t>(s.group) + i.offset >= static_cast<int64_t>(w.sum_groups)) {
      if (&w.sums[kept] != &s) w.sums[kept] = std::move(s);
      ++kept;
      continue;
    }
    for (size_t n = 0; n < s.values.size() / kLanes; ++n)
      std::copy_n(s.values.data() + n * kLanes, kLanes, w.at<uint32_t>(s.places[n]));
  }
  w.sums.resize(kept);
}

// right[row][k] of an operand in shared memory, which is held from here on.
template <class T, int kDepth>
void load(Warp& w, const HeldMatrix& m, typename T::Sum (*to)[kDepth]) {
  using Bits = typename T::Bits;
  const MemoryView& shared = w.block->shared;
  for (int row = m.first; row < m.first + m.rows; ++row)
    for (int k = 0; k < kDepth; ++k) {
      const uint64_t at = address_of(m, row, static_cast<uint64_t>(k) * sizeof(Bits), sizeof(Bits));
      bool allowed = at + sizeof(Bits) <= shared.bytes;
      for (size_t e = 0; allowed && e < sizeof(Bits); ++e) allowed = may_load(shared.states[at + e]);
      if (!allowed) refuse_address(w, shared, true, 0, at, sizeof(Bits), Access::load);
      Bits bits;
      std::memcpy(&bits, shared.data + at, sizeof bits);
      to[row - m.first][k] = T::value(bits);
    }
  hold(*w.block, m, true);
  w.held.push_back(m);
}

// Operands: the registers of the sums, Instruction::count of them, then 4 of a. Instruction::a, b: the words that
// describe the matrices in shared memory; no a: it is in registers. list: whether a and b are transposed.
template <class T>
void multiply(Warp& w, const Instruction& i, uint32_t) {
  using Bits = typename T::Bits;
  using Sum = typename T::Sum;
  constexpr int kEach = 4 / sizeof(Bits), kDepth = kDepthBytes / sizeof(Bits), kQuad = 4 * kEach;
  const int sum_count = i.count, columns = sum_count * kLanes / kRows;
  const int *sums = w.kernel->operands.data() + i.more, *a = sums + sum_count;

  Sum left[kRows][kDepth];
  if (i.a == kNone) {
    for (int l = 0; l < kLanes; ++l)
      for (int r = 0; r < 4; ++r)
        for (int e = 0; e < kEach; ++e) {
          const auto bits = static_cast<Bits>(w.at<uint32_t>(a[r])[l] >> (8 * sizeof(Bits) * static_cast<size_t>(e)));
          left[l / 4 + 8 * (r % 2)][l % 4 * kEach + e + kQuad * (r / 2)] = T::value(bits);
        }
  } else {
    const int first = static_cast<int>(w.index % 4) * kRows;
    load<T, kDepth>(w, described(*w.at<uint64_t>(i.a), i.list[0], first, kRows, w.sum_groups), left);
  }
  static thread_local Sum right[kMaxColumns][kDepth];
  load<T, kDepth>(w, described(*w.at<uint64_t>(i.b), i.list[1], 0, columns, w.sum_groups), right);
  std::vector<uint32_t>& to = sums_under_way(w, sums, sum_count);
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < columns; ++column) {
      Sum sum = 0;
      for (int k = 0; k < kDepth; ++k) sum += left[row][k] * right[column][k];
      const int n = column / 8 * 4 + row / 8 * 2 + column % 2, lane = row % 8 * 4 + column % 8 / 2;
      uint32_t& bits = to[static_cast<size_t>(n * kLanes + lane)];
      bits = std::bit_cast<uint32_t>(static_cast<Sum>(std::bit_cast<Sum>(bits) + sum));
    }
}

void nothing(Warp&, const Instruction&, uint32_t) {}
}  // namespace

void add_warpgroup(Forms& table) {
  const auto put = [&](const std::string& types, Handler handler) {
    table["wgmma.mma_async.sync.aligned." + types] = {
        .shape = Shape::warpgroup, .handler = handler, .flow = Flow::aligned};
  };
  for (const char* shape : {"m64n64k16", "m64n128k16", "m64n256k16"}) {
    put(shape + std::string(".f32.bf16.bf16"), multiply<Bf16>);
    put(shape + std::string(".f32.f16.f16"), multiply<F16>);
  }
  put("m64n256k8.f32.tf32.tf32", multiply<Tf32>);
  put("m64n256k32.f32.e4m3.e4m3", multiply<E4m3>);
  put("m64n256k32.s32.s8.s8", multiply<S8>);
  table["wgmma.fence.sync.aligned"] = {.shape = Shape::bare, .handler = nothing, .flow = Flow::aligned};
  table["wgmma.commit_group.sync.aligned"] = {.shape = Shape::bare, .handler = commit_sums, .flow = Flow::aligned};
  table["wgmma.wait_group.sync.aligned"] = {.shape = Shape::constant, .handler = wait_for_sums, .flow = Flow::aligned};
}

}  // namespace duet::softgpu
