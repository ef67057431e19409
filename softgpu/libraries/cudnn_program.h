// SPDX-License-Identifier: Apache-2.0
// A graph of cuDNN, ready to be evaluated.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "softgpu/libraries/cudnn_descriptor.h"

namespace duet::softgpu {

using Dims = std::array<int64_t, 4>;

struct GraphTensor {
  int64_t id = 0;
  cudnnDataType_t type{};
  Dims dims{}, strides{};
  int64_t alignment = 1;
  bool is_virtual = false, by_value = false;

  // The place of the element that belongs to element i of a tensor of dimensions `domain`: an axis of 1 counts for all,
  // and an axis that is shorter for groups.
  int64_t at(const Dims& i, const Dims& domain) const {
    int64_t place = 0;
    for (size_t axis = 0; axis < 4; ++axis) place += i[axis] * dims[axis] / domain[axis] * strides[axis];
    return place;
  }
  int64_t places() const {
    int64_t last = 0;
    for (size_t axis = 0; axis < 4; ++axis) last += (dims[axis] - 1) * strides[axis];
    return last + 1;
  }
  bool fits(const Dims& domain) const {
    for (size_t axis = 0; axis < 4; ++axis)
      if (dims[axis] < 1 || domain[axis] % dims[axis] != 0) return false;
    return true;
  }
};

// Values of tensors while a plan runs: those between operations here, the others in the device's memory.
class GraphValues {
 public:
  GraphValues(std::map<int64_t, void*> memory, std::map<int64_t, float> constants)
      : memory_(std::move(memory)), constants_(std::move(constants)) {}

  const std::vector<double>& of(const GraphTensor& t);  // by place, as the strides say
  void keep(const GraphTensor& t, std::vector<double> values);

 private:
  std::map<int64_t, void*> memory_;
  std::map<int64_t, float> constants_;
  std::map<int64_t, std::vector<double>> kept_;
};

struct CudnnProgram {
  std::map<int64_t, GraphTensor> tensors;
  std::vector<std::function<void(GraphValues&)>> operations;
};

// tensor_cores: factors of convolutions in f32 are rounded to TF32. Throws Error for what has no stand-in.
CudnnProgram read_program(cudnnBackendDescriptor_t graph, bool tensor_cores);

}  // namespace duet::softgpu
