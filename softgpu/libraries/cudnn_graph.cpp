// SPDX-License-Identifier: Apache-2.0
// Stands in for cuDNN's graph API where it needs a device: heuristics, engines, plans and their execution. cuDNN itself
// still makes and checks tensors, operations and graphs; what it is given is noted on the way, and a plan evaluates the
// operations (cudnn_program.h). A graph with an operation that has no stand-in is refused by name when its plan is
// finalised.
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "softgpu/libraries/cudnn.h"
#include "softgpu/libraries/cudnn_program.h"

namespace {
using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

constexpr int64_t kWorkspaceBytes = 256;
// The heuristics propose engines in this order. The first refuses every graph, as cuDNN's may do; the second has tensor
// cores, as a note says, and rounds the factors of convolutions in f32 to TF32.
constexpr int64_t kRefusingEngine = 0, kTensorCoreEngine = 1, kEngine = 2;
constexpr std::array kEngines{kRefusingEngine, kTensorCoreEngine, kEngine};

template <class F>
F* original(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

size_t bytes_of_attribute(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
      return 8;
    default:
      return 4;  // enumerations, float
  }
}

std::map<cudnnBackendDescriptor_t, Descriptor> descriptors;

// Descriptors that cuDNN itself never sees, since they would need its handle.
bool is_own(const Descriptor& d) {
  return d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR || d.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR ||
         d.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR || d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
         d.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
}

// Runs a function of the API whose errors are a status.
template <class F>
cudnnStatus_t answer(F&& body) {
  try {
    return body();
  } catch (const duet::Error& e) {
    return refuse_call(CUDNN_STATUS_NOT_SUPPORTED, e.what());
  }
}

// Heuristics announce, and give, their engines; settings of an engine and engines give what they are of.
cudnnStatus_t attribute_of(const Descriptor& d, cudnnBackendAttributeName_t name, int64_t max_count, int64_t* count,
                           void* to) {
  auto* const given = static_cast<cudnnBackendDescriptor_t*>(to);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      *count = kEngines.size();
      for (size_t i = 0; i < std::min(static_cast<size_t>(max_count), kEngines.size()); ++i) {
        Descriptor& settings = descriptors.at(given[i]);
        settings.engine = kEngines[i];
        settings.graph = d.one<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      *count = 1;
      descriptors.at(given[0]).engine = d.engine;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      *count = 1;
      *static_cast<int64_t*>(to) = d.engine;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = d.engine == kTensorCoreEngine ? 1 : 0;
      if (*count > 0) *static_cast<cudnnBackendNumericalNote_t*>(to) = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *count = 1;
      *static_cast<int64_t*>(to) = kWorkspaceBytes;
      return CUDNN_STATUS_SUCCESS;
    default:
      throw duet::Error("cudnnBackendGetAttribute of attribute {} has no stand-in", static_cast<int>(name));
  }
}
}  // namespace

const Descriptor& duet::softgpu::descriptor_at(cudnnBackendDescriptor_t descriptor) {
  const auto found = descriptors.find(descriptor);
  if (found == descriptors.end()) throw duet::Error("cuDNN's stand-in: no such descriptor");
  return found->second;
}

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  static auto* const create = original<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  const cudnnStatus_t status = create(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS) descriptors[*descriptor] = {.type = type};
  return status;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  static auto* const destroy = original<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  descriptors.erase(descriptor);
  return destroy(descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  static auto* const set = original<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  const auto found = descriptors.find(descriptor);
  if (found != descriptors.end()) {
    const auto* from = static_cast<const char*>(values);
    found->second.attributes[name] = {
        type, count, std::vector<char>(from, from + static_cast<size_t>(count) * bytes_of_attribute(type))};
    if (type == CUDNN_TYPE_HANDLE || is_own(found->second)) return CUDNN_STATUS_SUCCESS;
  }
  return set(descriptor, name, type, count, values);
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t max_count, int64_t* count,
                                       void* values) {
  static auto* const get = original<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  const auto found = descriptors.find(descriptor);
  if (found == descriptors.end() || !is_own(found->second))
    return get(descriptor, name, type, max_count, count, values);
  return answer([&] { return attribute_of(found->second, name, max_count, count, values); });
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  static auto* const finalize = original<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize");
  const auto found = descriptors.find(descriptor);
  if (found == descriptors.end() || !is_own(found->second)) return finalize(descriptor);
  if (found->second.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  return answer([&] {
    const Descriptor& settings =
        descriptor_at(found->second.one<cudnnBackendDescriptor_t>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
    if (settings.engine == kRefusingEngine) return CUDNN_STATUS_NOT_SUPPORTED;
    found->second.program =
        std::make_shared<const CudnnProgram>(read_program(settings.graph, settings.engine == kTensorCoreEngine));
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  return with_cudnn(handle, [&](CudnnHandle& h) -> cudnnStatus_t {
    const std::shared_ptr<const CudnnProgram> program = descriptor_at(plan).program;
    if (!program) return refuse_cudnn("cudnnBackendExecute: a plan that was not finalised");
    const Descriptor& given = descriptor_at(pack);
    const auto ids = given.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto pointers = given.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    void* const workspace = given.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (ids.size() != pointers.size()) return refuse_cudnn("cudnnBackendExecute: ids and pointers differ in number");
    std::map<int64_t, void*> memory;
    std::map<int64_t, float> constants;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto tensor = program->tensors.find(ids[i]);
      if (tensor == program->tensors.end() || tensor->second.is_virtual)
        return refuse_cudnn(fmt::format("cudnnBackendExecute: id {} names no tensor in memory", ids[i]));
      if (tensor->second.by_value) {
        std::memcpy(&constants[ids[i]], pointers[i], sizeof(float));
        continue;
      }
      if (reinterpret_cast<uint64_t>(pointers[i]) % static_cast<uint64_t>(tensor->second.alignment) != 0)
        return refuse_cudnn(
            fmt::format("cudnnBackendExecute: tensor {} is not aligned to {} bytes", ids[i], tensor->second.alignment));
      memory[ids[i]] = pointers[i];
    }
    for (const auto& [id, tensor] : program->tensors)
      if (!tensor.is_virtual && !memory.count(id) && !constants.count(id))
        return refuse_cudnn(fmt::format("cudnnBackendExecute: tensor {} has no memory", id));
    enqueue(h.stream, [=] {
      spoil(workspace, kWorkspaceBytes, "cudnnBackendExecute, workspace");
      GraphValues values(memory, constants);
      for (const auto& operation : program->operations) operation(values);
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
}
// NOLINTEND(readability-identifier-naming)
