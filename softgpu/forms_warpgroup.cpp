// SPDX-License-Identifier: Apache-2.0
// wgmma.mma_async of four warps, as far as core/cuda/gpu_pass.cu uses it: a in registers, b in shared memory, 256
// columns. PTX ISA, "Asynchronous Warpgroup Level Matrix Operations": warp w of the four has rows 16 w to 16 w + 15 of
// a and of the sums, so that each warp computes its part by itself. Sums land when a wait asks for their group: until
// then their registers hold 0xFFFFFFFF, which is NaN, and what a kernel writes into them is lost. b is read at once,
// and held until the wait: a store into it is reported.
//
// b is described by a word of 64 bits: its address, and two strides between core matrices of 8 columns by 16 bytes of
// depth, all in units of 16 bytes. "Leading" is the stride along the depth, the other one that along the columns.
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
constexpr int kRows = 16, kColumns = 256, kDepthBytes = 32, kSums = kRows * kColumns / kLanes;
constexpr int kCoreColumns = 8, kCoreBytes = 16;

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

struct Matrix {  // b, in shared memory
  uint64_t start, along_depth, along_columns;
  explicit Matrix(uint64_t description)
      : start((description & 0x3fff) << 4),
        along_depth((description >> 16 & 0x3fff) << 4),
        along_columns((description >> 32 & 0x3fff) << 4) {}
  // byte: along the depth.
  uint64_t at(int column, uint64_t byte) const {
    return start + byte / kCoreBytes * along_depth + byte % kCoreBytes +
           static_cast<uint64_t>(column / kCoreColumns) * along_columns +
           static_cast<uint64_t>(column % kCoreColumns) * kCoreBytes;
  }
};

// Each piece of 16 bytes counts the products that read it. The first one takes kUsable away, the last one gives it
// back.
void hold(Block& block, const Matrix& b, bool begins) {
  const MemoryView& shared = block.shared;
  block.holders.resize(shared.bytes / kCoreBytes + 1);
  for (int column = 0; column < kColumns; ++column)
    for (uint64_t byte = 0; byte < kDepthBytes; byte += kCoreBytes) {
      const uint64_t at = b.at(column, byte);
      uint16_t& holders = block.holders[at / kCoreBytes];
      if (begins ? holders++ > 0 : --holders > 0) continue;
      for (uint64_t i = at; i < at + kCoreBytes; ++i)
        shared.states[i] = static_cast<uint8_t>(begins ? (shared.states[i] & ~kUsable) | kHeld
                                                       : (shared.states[i] & ~kHeld) | kUsable);
    }
}

// The sums on their way to these registers. A product that follows adds to them; only a wait brings them there.
std::vector<uint32_t>& sums_under_way(Warp& w, const int* places) {
  for (AsyncSums& s : w.sums)
    if (*s.places == *places) {
      s.group = w.sum_groups;
      return s.values;
    }
  AsyncSums& s = w.sums.emplace_back(AsyncSums{places, w.sum_groups, {}});
  for (int n = 0; n < kSums; ++n) {
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
    hold(*w.block, Matrix(m.description), false);
    return true;
  });
  size_t kept = 0;
  for (AsyncSums& s : w.sums) {
    if (static_cast<int64_t>(s.group) + i.offset >= static_cast<int64_t>(w.sum_groups)) {
      if (&w.sums[kept] != &s) w.sums[kept] = std::move(s);
      ++kept;
      continue;
    }
    for (int n = 0; n < kSums; ++n) std::copy_n(s.values.begin() + n * kLanes, kLanes, w.at<uint32_t>(s.places[n]));
  }
  w.sums.resize(kept);
}

// Operands: kSums registers of the sums, then 4 of a. Instruction::b: the word that describes the matrix b.
template <class T>
void multiply(Warp& w, const Instruction& i, uint32_t) {
  using Bits = typename T::Bits;
  using Sum = typename T::Sum;
  constexpr int kEach = 4 / sizeof(Bits), kDepth = kDepthBytes / sizeof(Bits), kQuad = 4 * kEach;
  const int *sums = w.kernel->operands.data() + i.more, *a = sums + kSums;
  const uint64_t description = *w.at<uint64_t>(i.b);
  const Matrix b(description);
  if (description >> 46 != 0) fault("wgmma: b in a swizzled order is not supported");

  Sum left[kRows][kDepth];
  for (int l = 0; l < kLanes; ++l)
    for (int r = 0; r < 4; ++r)
      for (int e = 0; e < kEach; ++e) {
        const auto bits = static_cast<Bits>(w.at<uint32_t>(a[r])[l] >> (8 * sizeof(Bits) * static_cast<size_t>(e)));
        left[l / 4 + 8 * (r % 2)][l % 4 * kEach + e + kQuad * (r / 2)] = T::value(bits);
      }
  const MemoryView& shared = w.block->shared;
  static thread_local Sum right[kDepth][kColumns];
  for (int column = 0; column < kColumns; ++column)
    for (int k = 0; k < kDepth; ++k) {
      const uint64_t at = b.at(column, static_cast<uint64_t>(k) * sizeof(Bits));
      bool allowed = at + sizeof(Bits) <= shared.bytes;
      for (size_t e = 0; allowed && e < sizeof(Bits); ++e) allowed = may_load(shared.states[at + e]);
      if (!allowed) refuse_address(w, shared, true, 0, at, sizeof(Bits), Access::load);
      Bits bits;
      std::memcpy(&bits, shared.data + at, sizeof bits);
      right[k][column] = T::value(bits);
    }
  hold(*w.block, b, true);
  w.held.push_back({description, w.sum_groups});
  std::vector<uint32_t>& to = sums_under_way(w, sums);
  for (int row = 0; row < kRows; ++row) {
    Sum sum[kColumns] = {};
    for (int k = 0; k < kDepth; ++k)
      for (int column = 0; column < kColumns; ++column) sum[column] += left[row][k] * right[k][column];
    for (int column = 0; column < kColumns; ++column) {
      const int n = column / 8 * 4 + row / 8 * 2 + column % 2, lane = row % 8 * 4 + column % 8 / 2;
      uint32_t& bits = to[static_cast<size_t>(n * kLanes + lane)];
      bits = std::bit_cast<uint32_t>(static_cast<Sum>(std::bit_cast<Sum>(bits) + sum[column]));
    }
  }
}

void nothing(Warp&, const Instruction&, uint32_t) {}
}  // namespace

void add_warpgroup(Forms& table) {
  const auto put = [&](const std::string& types, Handler handler) {
    table["wgmma.mma_async.sync.aligned." + types] = {
        .shape = Shape::warpgroup, .handler = handler, .flow = Flow::aligned};
  };
  put("m64n256k16.f32.bf16.bf16", multiply<Bf16>);
  put("m64n256k16.f32.f16.f16", multiply<F16>);
  put("m64n256k8.f32.tf32.tf32", multiply<Tf32>);
  put("m64n256k32.f32.e4m3.e4m3", multiply<E4m3>);
  put("m64n256k32.s32.s8.s8", multiply<S8>);
  table["wgmma.fence.sync.aligned"] = {.shape = Shape::bare, .handler = nothing, .flow = Flow::aligned};
  table["wgmma.commit_group.sync.aligned"] = {.shape = Shape::bare, .handler = commit_sums, .flow = Flow::aligned};
  table["wgmma.wait_group.sync.aligned"] = {.shape = Shape::constant, .handler = wait_for_sums, .flow = Flow::aligned};
}

}  // namespace duet::softgpu
