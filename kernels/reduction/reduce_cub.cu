// SPDX-License-Identifier: Apache-2.0
// sum, max and argmax of rows by CUB, from the CUDA toolkit: cub::DeviceReduce for one row, cub::DeviceSegmentedReduce,
// a block for each row, for several. CUB reduces neighbours in memory, so columns are not served, unless there is one.
// Its temporary storage is the plan's workspace; a run allocates nothing and waits for nothing.
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "kernels/reduction/largest.cuh"
#include "core/cuda/check.h"
#include "ops/reduction/max.h"
#include "ops/reduction/sum.h"

namespace duet::cuda {
namespace {
struct Add {
  __host__ __device__ float operator()(float a, float b) const { return a + b; }
};
struct LargerFloat {  // NaN above everything
  __host__ __device__ float operator()(float a, float b) const { return a != a || a >= b ? a : b; }
};
struct LargerOfTwo {
  __device__ Largest operator()(Largest a, const Largest& b) const {
    a.merge(b.value, b.place);
    return a;
  }
};

struct RowStart {
  int64_t cols;
  __host__ __device__ int64_t operator()(int64_t row) const { return row * cols; }
};
// Element i of x with its column.
template <class T>
struct WithColumn {
  const T* x;
  int64_t cols;
  __device__ Largest operator()(int64_t i) const { return {float(x[i]), static_cast<int>(i % cols)}; }
};

template <class F>
auto iterator_of(const F& f) {
  return thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), f);
}

// One reduction of `rows` rows of `cols` elements. `space` is null to learn how many bytes it takes.
template <class In, class Out, class Op, class Value>
cudaError_t reduce(void* space, size_t& bytes, In x, Out y, int64_t rows, int64_t cols, Op op, Value first,
                   cudaStream_t stream) {
  if (rows == 1) return cub::DeviceReduce::Reduce(space, bytes, x, y, cols, op, first, stream);
  const auto starts = iterator_of(RowStart{cols});
  return cub::DeviceSegmentedReduce::Reduce(space, bytes, x, y, rows, starts, starts + 1, op, first, stream);
}

// in(t), out(t): the iterators of a run; of the null tensors in `none` when it is planned.
template <class In, class Out, class Op, class Value>
Plan plan(int64_t rows, int64_t cols, GpuContext& gpu, const In& in, const Out& out, Op op, Value first) {
  const Tensor null[2] = {};
  const Args none(null);
  size_t bytes = 0;
  DUET_CUDA(reduce(nullptr, bytes, in(none), out(none), rows, cols, op, first, gpu.stream()));
  WorkspaceLayout workspace;
  const auto space = workspace.add_bytes(static_cast<int64_t>(bytes));
  return Plan([=, stream = gpu.stream()](Args t) {
           size_t size = bytes;
           DUET_CUDA(reduce(t.workspace(space), size, in(t), out(t), rows, cols, op, first, stream));
         })
      .with(rows == 1 ? "DeviceReduce" : "DeviceSegmentedReduce", std::move(workspace));
}

// The rows that a problem's results come from: of axis 1, or the only column.
struct Rows {
  int64_t rows, cols;
  std::string unsupported_reason = {};
};
template <class P>
Rows rows_of(const P& p) {
  const Rows all = p.axis == 0 ? Rows{1, p.rows} : Rows{p.rows, p.cols};
  if (p.axis == 0 && p.cols != 1) return {0, 0, "CUB reduces neighbours in memory, and a column's are not"};
  return all.rows == 0 ? Rows{0, 0, "nothing to reduce"} : all;
}

template <class T>
auto pointer_to(Slot slot) {
  return [slot](const Args& t) { return static_cast<T*>(t[slot].data); };
}

Plan sum_cub(const Sum& p, GpuContext& gpu) {
  const Rows of = rows_of(p);
  if (!of.unsupported_reason.empty()) return Unsupported{of.unsupported_reason};
  // ops/summation.h: at most kRun additions in one f32 sum.
  if (of.rows > 1 && of.cols > (int64_t{1} << 18))
    return Unsupported{"CUB adds up a row of several in one block: rows above 2^18"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return plan(of.rows, of.cols, gpu, pointer_to<const T>(Sum::x), pointer_to<T>(Sum::y), Add{}, 0.0f);
  });
}
DUET_REGISTER(sum_cub);

Plan max_cub(const Max& p, GpuContext& gpu) {
  const Rows of = rows_of(p);
  if (!of.unsupported_reason.empty()) return Unsupported{of.unsupported_reason};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return plan(of.rows, of.cols, gpu, pointer_to<const T>(Max::x), pointer_to<T>(Max::y), LargerFloat{}, -INFINITY);
  });
}
DUET_REGISTER(max_cub);

// CUB's own ArgMax has another rule for NaN, so that this is a reduction of pairs.
Plan argmax_cub(const ArgMax& p, GpuContext& gpu) {
  const Rows of = rows_of(p);
  if (!of.unsupported_reason.empty()) return Unsupported{of.unsupported_reason};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const auto in = [cols = of.cols](const Args& t) {
      return iterator_of(WithColumn<T>{static_cast<const T*>(t[ArgMax::x].data), cols});
    };
    const auto out = [](const Args& t) {
      return thrust::make_tabulate_output_iterator(StoreLargest<int>{static_cast<int*>(t[ArgMax::index].data)});
    };
    return plan(of.rows, of.cols, gpu, in, out, LargerOfTwo{}, Largest{});
  });
}
DUET_REGISTER(argmax_cub);
}  // namespace
}  // namespace duet::cuda
