// SPDX-License-Identifier: Apache-2.0
// Long sums are cut into parts so that the whole GPU has work; a second launch adds the parts. Which thread adds what
// depends on the shape alone: the result is the same in every run. No thread adds more than some 1000 terms in a row.
#include "kernels/reduction/columns.cuh"
#include "ops/reduction/sum.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kWarp = 32, kBlock = 512;  // threads for one part of a row
constexpr int64_t kShortRow = 1024;      // up to here a warp takes a row
constexpr int64_t kAddsInARow = 1024;    // of one thread

template <class T, int kSize>
__device__ __forceinline__ float sum_of(const Pack<T, kSize>& pack) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < kSize; ++e) sum += float(pack.at[e]);
  return sum;
}

// out[row * parts + part] = the sum of x[row, part * length ... ) of at most `length` terms.
// kThreads = 32: blocks of (32, 8), a warp for each of 8 rows, parts = 1. kThreads = 512: one block for each row and part.
// 64 bytes of shared memory. x: (rows, cols), out: (rows, parts).
template <class T, class Out, int kThreads>
__global__ void __launch_bounds__(kThreads == kWarp ? 256 : kBlock)
    rows_kernel(const T* x, Out* out, int64_t rows, int64_t cols, int64_t parts, int64_t length) {
  DUET_SHARED(float, shared, [kBlock / 32]);
  const int64_t index = int64_t{blockIdx.x} * blockDim.y + threadIdx.y, row = index / parts, part = index % parts;
  if (row >= rows) return;  // a whole warp, and no barrier follows; with kThreads = 512 it does not happen
  float sum = 0;
  for_row<kThreads, kPack<T>>(x + row * cols + part * length, max(int64_t{0}, min(length, cols - part * length)),
                              [&](const auto& pack, int64_t) { sum += sum_of(pack); });
  sum = block_reduce<SumOp, kThreads>(sum, shared);
  if (threadIdx.x == 0) out[index] = Out(sum);
}

template <class T, class Out>
void add_rows(cudaStream_t stream, const T* x, Out* out, int64_t rows, int64_t cols, int64_t parts, int64_t length) {
  if (parts == 1 && cols <= kShortRow)
    launch(rows_kernel<T, Out, kWarp>, Grid{.blocks = ceil_div(rows, 8), .threads = {kWarp, 8}, .stream = stream}, x,
           out, rows, cols, parts, length);
  else
    launch(rows_kernel<T, Out, kBlock>, Grid{.blocks = rows * parts, .threads = kBlock, .stream = stream}, x, out, rows,
           cols, parts, length);
}
// rows sums of cols terms each, next to one another in memory.
template <class T>
Plan sum_rows(int64_t rows, int64_t cols, GpuContext& gpu) {
  const int64_t wanted = 4 * gpu.multiprocessors();  // blocks
  const int64_t for_speed =
      rows == 0 || cols <= 4 * kShortRow ? 1 : std::min(ceil_div(wanted, rows), ceil_div(cols, 4096));
  const int64_t parts = std::max({int64_t{1}, for_speed, ceil_div(cols, kBlock * kPack<T> * kAddsInARow)});
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

// cols sums of rows terms each, `cols` apart in memory.
template <class T>
Plan sum_columns(int64_t rows, int64_t cols, GpuContext& gpu) {
  if (!ColumnSum<T>::serves(rows)) return Unsupported{"columns of more than 2^26 elements"};
  WorkspaceLayout workspace;
  const ColumnSum<T> sum(rows, cols, gpu, workspace);
  return Plan([sum](Args t) { sum.enqueue(t, ReadPlain<T>{t[Sum::x].as<const T>()}, t[Sum::y].as<T>()); })
      .with(std::move(workspace));
}

Plan sum_tuned(const Sum& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    if (p.axis == 1) return sum_rows<T>(p.rows, p.cols, gpu);
    if (p.cols == 1) return sum_rows<T>(1, p.rows, gpu);  // a column alone is a row
    return sum_columns<T>(p.rows, p.cols, gpu);
  });
}
DUET_REGISTER(sum_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
