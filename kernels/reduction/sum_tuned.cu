// SPDX-License-Identifier: Apache-2.0
// Long sums are divided into parts, so that there are enough blocks for the whole GPU; a second launch adds the parts.
// Rows are added here, by a warp or by blocks; columns by columns.cuh. Which thread adds what depends on the shape
// only, so that the result is the same in every run. No thread adds more than about 1000 terms in one f32 sum.
#include "kernels/reduction/columns.cuh"
#include "ops/reduction/sum.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kWarp = 32, kBlock = 512;  // threads for one part of a row
constexpr int64_t kMaxWarpCols = 1024;   // up to this length a row is added by a warp
constexpr int64_t kMaxAdditions = 1024;  // of one thread

template <class T, int kSize>
__device__ __forceinline__ float sum_of(const Pack<T, kSize>& pack) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < kSize; ++e) sum += float(pack.at[e]);
  return sum;
}

// out[row, part] = the sum of at most `length` elements of x[row] from part * length on. kThreads = 32: blocks of (32,
// 8), a warp for each of 8 rows, parts = 1. kThreads = 512: one block for each row and part. 64 bytes of shared memory.
// x: (rows, cols), out: (rows, parts).
template <class T, class Out, int kThreads>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kBlock)
    rows_kernel(const T* x, Out* out, int64_t rows, int64_t cols, int64_t parts, int64_t length) {
  DUET_SHARED(float, shared, [kBlock / 32]);
  const int64_t index = int64_t{blockIdx.x} * blockDim.y + threadIdx.y, row = index / parts, part = index % parts;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with kThreads = 512
  float sum = 0;
  for_row<kThreads, kPack<T>>(x + row * cols + part * length, max(int64_t{0}, min(length, cols - part * length)),
                              [&](const auto& pack, int64_t) { sum += sum_of(pack); });
  sum = block_reduce<SumOp, kThreads>(sum, shared);
  if (threadIdx.x == 0) out[index] = Out(sum);
}

template <class T, class Out>
void add_rows(cudaStream_t stream, const T* x, Out* out, int64_t rows, int64_t cols, int64_t parts, int64_t length) {
  if (parts == 1 && cols <= kMaxWarpCols)
    launch(rows_kernel<T, Out, kWarp>, Grid{.blocks = ceil_div(rows, 8), .threads = {kWarp, 8}, .stream = stream}, x,
           out, rows, cols, parts, length);
  else
    launch(rows_kernel<T, Out, kBlock>, Grid{.blocks = rows * parts, .threads = kBlock, .stream = stream}, x, out, rows,
           cols, parts, length);
}
// `rows` sums of `cols` terms each, whose terms are adjacent in memory.
template <class T>
Plan sum_rows(int64_t rows, int64_t cols, GpuContext& gpu) {
  const int64_t wanted = 4 * gpu.multiprocessors();  // blocks
  const int64_t for_speed =
      rows == 0 || cols <= 4 * kMaxWarpCols ? 1 : std::min(ceil_div(wanted, rows), ceil_div(cols, 4096));
  const int64_t parts = std::max({int64_t{1}, for_speed, ceil_div(cols, kBlock * kPack<T> * kMaxAdditions)});
  const int64_t length = ceil_div(ceil_div(cols, parts), 4096) * 4096;
  WorkspaceLayout workspace;
  const auto partial = workspace.add<float>(parts > 1 ? rows * parts : 0);
  return Plan([rows, cols, parts, length, partial, stream = gpu.stream()](Args t) {
           const T* x = t[Sum::x].as<const T>();
           T* y = t[Sum::y].as<T>();
           if (parts == 1) return add_rows(stream, x, y, rows, cols, 1, cols);
           add_rows(stream, x, t.workspace(partial), rows, cols, parts, length);
           add_rows(stream, t.workspace(partial), y, rows, parts, 1, parts);
         })
      .with(std::move(workspace));
}

// `cols` sums of `rows` terms each, whose terms are `cols` elements apart in memory.
template <class T>
Plan sum_columns(int64_t rows, int64_t cols, GpuContext& gpu) {
  if (!ColumnSums<T>::supports(rows)) return Unsupported{"columns of more than 2^26 elements"};
  WorkspaceLayout workspace;
  const ColumnSums<T> sum(rows, cols, gpu, workspace);
  return Plan([sum, cols](Args t) {
           sum.enqueue(t, LoadColumns<T>{t[Sum::x].as<const T>(), cols}, StoreSum<T>{t[Sum::y].as<T>()});
         })
      .with(std::move(workspace));
}

Plan sum_tuned(const Sum& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    if (p.axis == 1) return sum_rows<T>(p.rows, p.cols, gpu);
    if (p.cols == 1) return sum_rows<T>(1, p.rows, gpu);  // a single column is a row
    return sum_columns<T>(p.rows, p.cols, gpu);
  });
}
DUET_REGISTER(sum_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
