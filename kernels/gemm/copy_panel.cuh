// SPDX-License-Identifier: Apache-2.0
// Copies of an operand's panels to shared memory, by 16 bytes, for product_half.cuh and product_warpgroup.cuh.
#pragma once
#include "kernels/gemm/half_operand.h"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {

// Starts the copies of this thread's chunks (Tile::Share) of one panel after the other, from row (along m or n) `first`
// on. What does not exist becomes 0. The operand is aligned.
template <class T, class Tile, class Panel, bool kDepthContiguous>
struct CopyPanel {
  using Share = typename Tile::template Share<Panel>;
  static constexpr int kLines = Panel::kLines / Share::kLineStep, kChunks = Panel::kChunks / Share::kChunkStep;
  static constexpr int kDepth = Tile::kDepth * Tile::kStepsApart;  // from one panel to the next
  static_assert(kLines * Share::kLineStep == Panel::kLines && kChunks * Share::kChunkStep == Panel::kChunks);
  static_assert(kLines % Share::kPeriod == 0);
  Share share;
  const T* from;      // this thread's first chunk
  int64_t line_step;  // elements
  int left;           // depths from its first line or chunk on
  bool whole;         // all of the panel exists along m or n
  int rows;           // that exist along m or n, from its first line or chunk on
  __device__ __forceinline__ CopyPanel(const HalfOperand<T>& o, int64_t batch, int64_t first, int64_t k) {
    const int64_t mine = first + (kDepthContiguous ? share.line : share.chunk * 8);
    const int depth = Tile::first_step() * Tile::kDepth + (kDepthContiguous ? share.chunk * 8 : share.line);
    from = o.data + batch * o.matrix + (kDepthContiguous ? mine * o.stride + depth : depth * o.stride + mine);
    line_step = Share::kLineStep * o.stride;
    left = static_cast<int>(k) - depth;
    whole = first + (kDepthContiguous ? Panel::kLines : Panel::kChunks * 8) <= o.along;
    rows = static_cast<int>(max(int64_t{0}, min(int64_t{Panel::kLines + Panel::kChunks * 8}, o.along - mine)));
  }
  __device__ __forceinline__ void operator()(T* panel, int64_t) {
    T* to = panel;
    constexpr int kPeriod = Share::kPeriod;  // lines whose chunks lie differently
    constexpr int kPeriodElements = Panel::offset(kPeriod * Share::kLineStep, 0);
    constexpr int kChunkElements = Panel::offset(0, Share::kChunkStep);
    int place[kPeriod];
#pragma unroll
    for (int q = 0; q < kPeriod; ++q) place[q] = Panel::offset(share.line + q * Share::kLineStep, share.chunk);
    const T* line = from;
    // Rows of depth are whole chunks.
    constexpr int kLast = kDepthContiguous ? (kChunks - 1) * Share::kChunkStep * 8 : (kLines - 1) * Share::kLineStep;
    // More addresses than those of a few lines do not fit into registers.
    if (whole && left > kLast) {
#pragma unroll 4
      for (int i = 0; i < kLines / kPeriod; ++i, to += kPeriodElements)
#pragma unroll
        for (int q = 0; q < kPeriod; ++q, line += line_step)
#pragma unroll
          for (int j = 0; j < kChunks; ++j)
            cp_async16(to + place[q] + j * kChunkElements, line + j * Share::kChunkStep * 8);
    } else {
#pragma unroll 4
      for (int i = 0; i < kLines / kPeriod; ++i, to += kPeriodElements)
#pragma unroll
        for (int q = 0; q < kPeriod; ++q, line += line_step)
#pragma unroll
          for (int j = 0; j < kChunks; ++j) {
            const int number = i * kPeriod + q;
            const int deep = kDepthContiguous ? j * Share::kChunkStep * 8 : number * Share::kLineStep;
            if (exists(kDepthContiguous ? number : j) && left > deep)
              cp_async16(to + place[q] + j * kChunkElements, line + j * Share::kChunkStep * 8);
            else
              store_pack(to + place[q] + j * kChunkElements, Pack<T>{});
          }
    }
    from += kDepthContiguous ? int64_t{kDepth} : kDepth / Share::kLineStep * line_step;
    left -= kDepth;
  }
  // Whether its line, or chunk, of this number exists along m or n.
  __device__ __forceinline__ bool exists(int number) const {
    return number * (kDepthContiguous ? Share::kLineStep : Share::kChunkStep * 8) < rows;
  }
};

}  // namespace duet::DUET_DEVICE
