// SPDX-License-Identifier: Apache-2.0
// Stands in for cudnnReduceTensor as Duet calls it: a maximum that is NaN where an element is, without indices.
#include <algorithm>
#include <vector>

#include "softgpu/libraries/cudnn.h"

namespace {
using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

constexpr size_t kWorkspaceBytes = 512;  // more than none, so that a call without a workspace is refused

bool is_maximum(cudnnReduceTensorDescriptor_t descriptor) {
  cudnnReduceTensorOp_t op;
  cudnnDataType_t compute;
  cudnnNanPropagation_t nan;
  cudnnReduceTensorIndices_t indices;
  cudnnIndicesType_t type;
  return cudnnGetReduceTensorDescriptor(descriptor, &op, &compute, &nan, &indices, &type) == CUDNN_STATUS_SUCCESS &&
         op == CUDNN_REDUCE_TENSOR_MAX && compute == CUDNN_DATA_FLOAT && nan == CUDNN_PROPAGATE_NAN &&
         indices == CUDNN_REDUCE_TENSOR_NO_INDICES;
}
// Each extent of the result is that of x or 1.
bool fits(const Shape4& x, const Shape4& y) {
  const auto fit = [](int64_t of_x, int64_t of_y) { return of_y == of_x || of_y == 1; };
  return fit(x.n, y.n) && fit(x.c, y.c) && fit(x.h, y.h) && fit(x.w, y.w) && x.type == y.type;
}
}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

cudnnStatus_t cudnnGetReductionWorkspaceSize(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduction,
                                             const cudnnTensorDescriptor_t x_shape,
                                             const cudnnTensorDescriptor_t y_shape, size_t* bytes) {
  return with_cudnn(handle, [&](CudnnHandle&) {
    if (!is_maximum(reduction) || !fits(shape_of(x_shape), shape_of(y_shape)))
      return refuse_cudnn("cudnnGetReductionWorkspaceSize");
    *bytes = kWorkspaceBytes;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnReduceTensor(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduction, void*, size_t,
                                void* workspace, size_t workspace_bytes, const void* alpha,
                                const cudnnTensorDescriptor_t x_shape, const void* x, const void* beta,
                                const cudnnTensorDescriptor_t y_shape, void* y) {
  return with_cudnn(handle, [&](CudnnHandle& h) {
    const Shape4 sx = shape_of(x_shape), sy = shape_of(y_shape);
    if (!is_maximum(reduction) || !fits(sx, sy) || !workspace || workspace_bytes < kWorkspaceBytes)
      return refuse_cudnn("cudnnReduceTensor");
    enqueue(h.stream, [=, blend = Blend(alpha, beta)] {
      spoil(workspace, workspace_bytes, "cudnnReduceTensor, workspace");
      const Elements from(x, sx.type, "cudnnReduceTensor, x");
      Elements to(y, sy.type, "cudnnReduceTensor, y");
      for_each(sy, [&](int64_t i, int64_t j, int64_t k, int64_t l) {
        double max = -INFINITY;
        const auto part = [](int64_t at, int64_t of_x, int64_t of_y) {
          return std::pair(of_y == 1 ? int64_t{0} : at, of_y == 1 ? of_x : at + 1);
        };
        const auto [i0, i1] = part(i, sx.n, sy.n);
        const auto [j0, j1] = part(j, sx.c, sy.c);
        const auto [k0, k1] = part(k, sx.h, sy.h);
        const auto [l0, l1] = part(l, sx.w, sy.w);
        for (int64_t a = i0; a < i1; ++a)
          for (int64_t b = j0; b < j1; ++b)
            for (int64_t c = k0; c < k1; ++c)
              for (int64_t d = l0; d < l1; ++d) {
                const double value = from.load(sx.at(a, b, c, d));
                if (value != value || max != max)
                  max = NAN;
                else
                  max = std::max(max, value);
              }
        blend.store(to, sy.at(i, j, k, l), max);
      });
    });
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
