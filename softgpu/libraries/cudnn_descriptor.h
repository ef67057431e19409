// SPDX-License-Identifier: Apache-2.0
// What cuDNN's graph API was given: the attributes of each descriptor, for cudnn_graph.cpp and cudnn_program.cpp.
#pragma once
#include <cudnn.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "core/error.h"

namespace duet::softgpu {

struct Attribute {
  cudnnBackendAttributeType_t type;
  int64_t count = 0;
  std::vector<char> bytes;
};

struct CudnnProgram;
struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  std::map<cudnnBackendAttributeName_t, Attribute> attributes = {};
  int64_t engine = 0;                                     // of an engine and its settings
  cudnnBackendDescriptor_t graph = nullptr;               // of the settings of an engine
  std::shared_ptr<const CudnnProgram> program = nullptr;  // of a finalised plan

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) > 0; }
  // `count` values of type T; throws Error where there are others.
  template <class T>
  const char* bytes_of(cudnnBackendAttributeName_t name, size_t& count) const {
    const auto found = attributes.find(name);
    if (found == attributes.end())
      throw duet::Error("cuDNN's stand-in: attribute {} is missing", static_cast<int>(name));
    const Attribute& a = found->second;
    count = static_cast<size_t>(a.count);
    if (a.bytes.size() != count * sizeof(T))
      throw duet::Error("cuDNN's stand-in: attribute {} is of another type", static_cast<int>(name));
    return a.bytes.data();
  }
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    size_t count = 0;
    const char* bytes = bytes_of<T>(name, count);
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), bytes, count * sizeof(T));
    return values;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name) const {
    size_t count = 0;
    const char* bytes = bytes_of<T>(name, count);
    if (count != 1) throw duet::Error("cuDNN's stand-in: attribute {} has {} values", static_cast<int>(name), count);
    T value{};
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name, T otherwise) const {
    return has(name) ? one<T>(name) : otherwise;
  }
};

// Throws Error where there is none.
const Descriptor& descriptor_at(cudnnBackendDescriptor_t descriptor);

}  // namespace duet::softgpu
