// SPDX-License-Identifier: Apache-2.0
// cuDNN's reduction by maximum, of the classic API: the graph API's says nothing of NaN, which here is the largest. A
// row is an image of `cols` channels and one pixel.
#include <string>

#include "core/cuda/cudnn.h"
#include "ops/reduction/max.h"

namespace duet::cuda {
namespace {
using Reduction = Owned<cudnnReduceTensorDescriptor_t, &cudnnDestroyReduceTensorDescriptor>;

Plan max_cudnn(const Max& p, GpuContext& gpu) {
  if (p.rows * p.cols == 0) return Unsupported{"cuDNN takes no empty tensor"};
  if (p.rows * p.cols > INT32_MAX) return Unsupported{"more than 2^31 - 1 elements"};
  if (p.dtype != DType::f32 && p.dtype != DType::f16)
    return Unsupported{std::string("dtype ") + name_of(p.dtype) + ": cudnnReduceTensor is documented for f32 and f16"};
  CudnnTensor x(p.dtype, {p.rows, p.cols, 1, 1});
  CudnnTensor y(p.dtype, {p.axis == 1 ? p.rows : 1, p.axis == 1 ? 1 : p.cols, 1, 1});
  Reduction maximum;
  DUET_CUDNN(cudnnCreateReduceTensorDescriptor(maximum.out()));
  DUET_CUDNN(cudnnSetReduceTensorDescriptor(maximum.get(), CUDNN_REDUCE_TENSOR_MAX, CUDNN_DATA_FLOAT,
                                            CUDNN_PROPAGATE_NAN, CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
  size_t bytes = 0;
  DUET_CUDNN(cudnnGetReductionWorkspaceSize(gpu.cudnn(), maximum.get(), x.get(), y.get(), &bytes));
  WorkspaceLayout workspace;
  const auto memory = workspace.add_bytes(static_cast<int64_t>(bytes));
  auto run = [handle = gpu.cudnn(), x = std::move(x), y = std::move(y), maximum = std::move(maximum), bytes,
              memory](Args t) {
    const float one = 1, zero = 0;  // y = one * max(x) + zero * y
    DUET_CUDNN(cudnnReduceTensor(handle, maximum.get(), nullptr, 0, t.workspace(memory), bytes, &one, x.get(),
                                 cudnn_data(t[Max::x]), &zero, y.get(), cudnn_data(t[Max::y])));
  };
  return Plan(std::move(run)).with(std::move(workspace));
}
DUET_REGISTER(max_cudnn);  // cuda.cudnn
}  // namespace
}  // namespace duet::cuda
