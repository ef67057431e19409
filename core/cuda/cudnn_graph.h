// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API, as far as the implementations here need it: tensors and operations form a graph, cuDNN's
// heuristics propose engines for it, and the first engine that accepts the graph runs it.
// kernels/norm/batchnorm_cudnn.cpp is a use.
#pragma once
#include <cudnn.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cuda/cudnn.h"
#include "core/plan.h"

namespace duet::cuda {

using CudnnDescriptor = Owned<cudnnBackendDescriptor_t, &cudnnBackendDestroyDescriptor>;

// cuDNN's constant for the type of an attribute.
template <class T>
inline constexpr cudnnBackendAttributeType_t kAttributeType = T::no_such_type;
#define DUET_ATTRIBUTE(type, name) \
  template <>                      \
  inline constexpr cudnnBackendAttributeType_t kAttributeType<type> = name
DUET_ATTRIBUTE(cudnnBackendDescriptor_t, CUDNN_TYPE_BACKEND_DESCRIPTOR);  // void*: data pointers are set by hand
DUET_ATTRIBUTE(cudnnHandle_t, CUDNN_TYPE_HANDLE);
DUET_ATTRIBUTE(int64_t, CUDNN_TYPE_INT64);
DUET_ATTRIBUTE(float, CUDNN_TYPE_FLOAT);
DUET_ATTRIBUTE(cudnnConvolutionMode_t, CUDNN_TYPE_CONVOLUTION_MODE);
DUET_ATTRIBUTE(bool, CUDNN_TYPE_BOOLEAN);
DUET_ATTRIBUTE(cudnnDataType_t, CUDNN_TYPE_DATA_TYPE);
DUET_ATTRIBUTE(cudnnBackendHeurMode_t, CUDNN_TYPE_HEUR_MODE);
DUET_ATTRIBUTE(cudnnBackendNormMode_t, CUDNN_TYPE_NORM_MODE);
DUET_ATTRIBUTE(cudnnBackendNormFwdPhase_t, CUDNN_TYPE_NORM_FWD_PHASE);
DUET_ATTRIBUTE(cudnnPointwiseMode_t, CUDNN_TYPE_POINTWISE_MODE);
DUET_ATTRIBUTE(cudnnReduceTensorOp_t, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
#undef DUET_ATTRIBUTE

CudnnDescriptor create_descriptor(cudnnBackendDescriptorType_t type);
void set_attribute(const CudnnDescriptor& to, cudnnBackendAttributeName_t which, cudnnBackendAttributeType_t type,
                   int64_t count, const void* values);
template <class T>
void set_attribute(const CudnnDescriptor& to, cudnnBackendAttributeName_t which, const T& value) {
  set_attribute(to, which, kAttributeType<T>, 1, &value);
}
template <class T>
void set_attribute(const CudnnDescriptor& to, cudnnBackendAttributeName_t which, const std::vector<T>& values) {
  set_attribute(to, which, kAttributeType<T>, static_cast<int64_t>(values.size()), values.data());
}

// A descriptor of these attributes (name, value, name, value, ...), finalised. Null descriptors are left out.
inline void set_attributes(const CudnnDescriptor&) {}
template <class T, class... Rest>
void set_attributes(const CudnnDescriptor& to, cudnnBackendAttributeName_t which, const T& value, const Rest&... rest) {
  if constexpr (std::is_pointer_v<T>) {
    if (value != nullptr) set_attribute(to, which, value);
  } else {
    set_attribute(to, which, value);
  }
  set_attributes(to, rest...);
}
template <class... Pairs>
CudnnDescriptor finalised(cudnnBackendDescriptorType_t type, const Pairs&... pairs) {
  CudnnDescriptor d = create_descriptor(type);
  set_attributes(d, pairs...);
  DUET_CUDNN(cudnnBackendFinalize(d.get()));
  return d;
}

// Where a graph's tensor lies: at the slot's first byte, or so many behind it.
struct CudnnMemory {
  CudnnMemory(Slot slot, int64_t offset_bytes = 0) : slot(slot), offset_bytes(offset_bytes) {}
  Slot slot;
  int64_t offset_bytes;
};

// Enqueues what a graph is to find in its scratch tensors, which come in the order in which they were declared.
using CudnnScratchFill = std::function<void(Args, std::span<void* const> scratch)>;

class CudnnGraph {
 public:
  using Dims = std::vector<int64_t>;
  using Tensor = cudnnBackendDescriptor_t;  // lives as long as the graph

  // In memory: the n-th declared is the n-th of plan_of().
  Tensor memory(cudnnDataType_t type, const Dims& dims, const Dims& strides);
  Tensor scratch(DType type, const Dims& dims);  // in memory, dense, in the plan's workspace
  // From one operation to another, never in memory.
  Tensor between(cudnnDataType_t type, const Dims& dims, const Dims& strides);
  Tensor constant(float value, size_t rank);
  static Dims dense(const Dims& dims);  // row-major strides

  // A descriptor that operations refer to; lives as long as the graph.
  template <class... Pairs>
  cudnnBackendDescriptor_t add(cudnnBackendDescriptorType_t type, const Pairs&... pairs) {
    descriptors_.push_back(finalised(type, pairs...));
    return descriptors_.back().get();
  }
  template <class... Pairs>
  void operation(cudnnBackendDescriptorType_t type, const Pairs&... pairs) {
    operations_.push_back(add(type, pairs...));
  }
  // Engines with one of these notes do not run this graph: an engine for tensors of f32 may round factors to TF32.
  void refuse(std::vector<cudnnBackendNumericalNote_t> notes) { refused_ = std::move(notes); }
  // Engines with one of these notes are tried before all others.
  void prefer(std::vector<cudnnBackendNumericalNote_t> notes) { preferred_ = std::move(notes); }

  // The finished operation graph. It needs a handle only where it is to run. Throws Error when it is not well formed.
  CudnnDescriptor close(cudnnHandle_t handle = nullptr) const;

 private:
  friend Plan plan_of(CudnnGraph graph, GpuContext& gpu, std::vector<CudnnMemory> memory, CudnnScratchFill fill);
  friend struct CudnnEngine;
  template <class... Pairs>
  Tensor tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides, const Pairs&... pairs);

  std::vector<CudnnDescriptor> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::vector<cudnnBackendNumericalNote_t> refused_, preferred_;
  int64_t tensors_ = 0;                                // the last id
  std::vector<int64_t> memory_, scratch_, constants_;  // ids
  std::vector<int64_t> scratch_bytes_;
  std::vector<std::unique_ptr<float>> values_;  // of constants: cuDNN takes their addresses
};

// The first engine of cuDNN's heuristics that accepts a graph within the workspace limit, of those with a preferred
// note if there is one.
struct CudnnEngine {
  // A tensor of 256 MiB, and what an engine keeps beside it.
  static constexpr int64_t kWorkspaceLimit = int64_t{257} << 20;
  CudnnEngine(const CudnnGraph& graph, cudnnHandle_t handle);
#if CUDNN_VERSION >= 90800
  // For a GPU that is known by its properties alone (a finalised CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR): the plan is
  // made without a GPU, and cannot be run.
  CudnnEngine(const CudnnGraph& graph, const CudnnDescriptor& device_properties);
#endif

  CudnnDescriptor operations, plan;
  int64_t index = 0, workspace_bytes = 0;
  std::string unavailable_reason;  // "" where there is an engine

 private:
  // prepare: tells heuristics and plans, by these attributes, which GPU they are for.
  template <class Prepare>
  void choose(const CudnnGraph& graph, Prepare&& prepare);
  // takes(engine): whether it is one of those to try. False where none accepts the graph.
  template <class Takes, class Prepare>
  bool choose_of(const CudnnGraph& graph, Takes&& takes, Prepare&& prepare);
};

// Enqueues the graph on these tensors, after `fill` if there is one.
Plan plan_of(CudnnGraph graph, GpuContext& gpu, std::vector<CudnnMemory> memory, CudnnScratchFill fill = {});

}  // namespace duet::cuda
