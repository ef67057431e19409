// SPDX-License-Identifier: Apache-2.0
// The sum of a function of all elements of some tensors, as one f32: each block writes a partial sum, and a second
// launch of one block adds these. Which thread adds what depends on the size only. Used by norm2 and the losses.
#pragma once
#include <algorithm>

#include "core/plan.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

constexpr int kTotalBlock = 256;
constexpr int kTotalRun = 256;  // packs that a thread adds in f32 before it adds their sum to a double
constexpr int kTotalBatch = 4;  // packs of a tensor that a thread loads at once
static_assert(kTotalRun % kTotalBatch == 0);

template <class T, int kSize>
struct TotalBatch {
  Pack<T, kSize> packs[kTotalBatch];
  __device__ __forceinline__ TotalBatch(const T* first, int64_t step) {
#pragma unroll
    for (int b = 0; b < kTotalBatch; ++b) packs[b] = load_pack<kSize>(first + b * step);
  }
};

// The sum of v over the block, for thread 0; 0 for the others. part: kTotalBlock doubles of shared memory.
__device__ __forceinline__ double total_of_block(double v, double* part) {
  const int thread = static_cast<int>(threadIdx.x);
  part[thread] = v;
  for (int half = kTotalBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  return thread == 0 ? part[0] : 0;
}

// partial[block] = the sum of term(x[i]...) over every gridDim.x-th pack of a thread, and, in block 0, over the
// elements after the last pack. Any number of blocks of kTotalBlock, 2 KiB of shared memory.
template <int kSize, class Term, class... X>
__global__ void __launch_bounds__(kTotalBlock, 4) total_kernel(Term term, int64_t n, double* partial, const X*... x) {
  DUET_SHARED(double, part, [kTotalBlock]);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t packs = n / kSize, stride = int64_t{gridDim.x} * kTotalBlock;

  // Sum of this thread's packs, in their order. kTotalBatch of them are loaded at once.
  double sum = 0;
  for (int64_t i = int64_t{blockIdx.x} * kTotalBlock + thread; i < packs;) {
    float run = 0;
    const auto add = [&](const auto&... pack) {
#pragma unroll
      for (int e = 0; e < kSize; ++e) run += term(float(pack.at[e])...);
    };
    int k = 0;
    for (; k < kTotalRun && i + (kTotalBatch - 1) * stride < packs; k += kTotalBatch, i += kTotalBatch * stride)
      [&](const auto&... batch) {
#pragma unroll
        for (int b = 0; b < kTotalBatch; ++b) add(batch.packs[b]...);
      }(TotalBatch<X, kSize>(x + i * kSize, stride * kSize)...);
    for (; k < kTotalRun && i < packs; ++k, i += stride) add(load_pack<kSize>(x + i * kSize)...);
    sum += run;
  }
  if (const int64_t i = packs * kSize + thread; blockIdx.x == 0 && i < n) sum += term(float(x[i])...);

  // Sum of the block.
  const double total = total_of_block(sum, part);
  if (thread == 0) partial[blockIdx.x] = total;
}

// One block of kTotalBlock: *y = finish(the sum of partial).
template <class Finish>
__global__ void __launch_bounds__(kTotalBlock)
    total_finish_kernel(Finish finish, const double* partial, int64_t parts, float* y) {
  DUET_SHARED(double, part, [kTotalBlock]);
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t i = thread; i < parts; i += kTotalBlock) sum += partial[i];
  const double total = total_of_block(sum, part);
  if (thread == 0) *y = finish(total);
}

// A prepared sum over n elements. The blocks' sums lie in the workspace of the plan that it is a part of.
class Total {
 public:
  Total(int64_t n, GpuContext& gpu, WorkspaceLayout& workspace)
      : n_(n),
        blocks_(std::clamp<int64_t>(ceil_div(n, kTotalBlock * 16), 1, 8 * gpu.multiprocessors())),
        stream_(gpu.stream()),
        partial_(workspace.add<double>(blocks_)) {}

  // *y = finish(sum of term(x[i]...)). args: of the plan's run.
  template <class Term, class Finish, class T, class... X>
  void enqueue(const Args& args, const Term& term, const Finish& finish, float* y, const T* x, const X*... more) const {
    double* partial = args.workspace(partial_);
    const Grid grid{.blocks = blocks_, .threads = kTotalBlock, .stream = stream_};
    if (aligned16(x, more...))
      launch(total_kernel<kPack<T>, Term, T, X...>, grid, term, n_, partial, x, more...);
    else
      launch(total_kernel<1, Term, T, X...>, grid, term, n_, partial, x, more...);
    launch(total_finish_kernel<Finish>, Grid{.blocks = 1, .threads = kTotalBlock, .stream = stream_}, finish, partial,
           blocks_, y);
  }

 private:
  int64_t n_, blocks_;
  cudaStream_t stream_;
  WorkspacePiece<double> partial_;
};

struct MeanOf {  // 0 where n is 0
  double n;
  __device__ float operator()(double sum) const { return static_cast<float>(n > 0 ? sum / n : 0); }
};

}  // namespace duet::DUET_DEVICE
