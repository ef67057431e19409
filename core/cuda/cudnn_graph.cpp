// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <functional>

#include "core/alignment.h"
#include "core/error.h"

namespace duet::cuda {
CudnnDescriptor create_descriptor(cudnnBackendDescriptorType_t type) {
  CudnnDescriptor d;
  DUET_CUDNN(cudnnBackendCreateDescriptor(type, d.out()));
  return d;
}

void set_attribute(const CudnnDescriptor& to, cudnnBackendAttributeName_t which, cudnnBackendAttributeType_t type,
                   int64_t count, const void* values) {
  DUET_CUDNN(cudnnBackendSetAttribute(to.get(), which, type, count, values));
}

CudnnGraph::Dims CudnnGraph::dense(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return strides;
}

template <class... Pairs>
CudnnGraph::Tensor CudnnGraph::tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides,
                                      const Pairs&... pairs) {
  return add(CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, ++tensors_, CUDNN_ATTR_TENSOR_DATA_TYPE,
             type, CUDNN_ATTR_TENSOR_DIMENSIONS, dims, CUDNN_ATTR_TENSOR_STRIDES, strides,
             CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kCudnnAlignment, pairs...);
}

CudnnGraph::Tensor CudnnGraph::memory(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
  const Tensor t = tensor(type, dims, strides);
  memory_.push_back(tensors_);
  return t;
}

CudnnGraph::Tensor CudnnGraph::scratch(DType type, const Dims& dims) {
  const Tensor t = tensor(cudnn_dtype(type), dims, dense(dims));
  scratch_.push_back(tensors_);
  int64_t bytes = size_of(type);
  for (const int64_t d : dims) bytes *= d;
  scratch_bytes_.push_back(bytes);
  return t;
}

CudnnGraph::Tensor CudnnGraph::between(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
  return tensor(type, dims, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
}

CudnnGraph::Tensor CudnnGraph::constant(float value, size_t rank) {
  const Dims ones(rank, 1);
  const Tensor t = tensor(CUDNN_DATA_FLOAT, ones, ones, CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  constants_.push_back(tensors_);
  values_.push_back(std::make_unique<float>(value));
  return t;
}

CudnnDescriptor CudnnGraph::close(cudnnHandle_t handle) const {
  CudnnDescriptor graph = create_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  if (handle) set_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  DUET_CUDNN(cudnnBackendFinalize(graph.get()));
  return graph;
}

namespace {
enum class Stage { heuristics, plan };

// Engines with their settings, the most promising first; none where cuDNN does not accept the graph.
template <class Prepare>
std::vector<CudnnDescriptor> candidates(const CudnnDescriptor& operations, cudnnBackendHeurMode_t mode,
                                        Prepare&& prepare) {
  const CudnnDescriptor heuristics = create_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_attribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations.get());
  set_attribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  prepare(heuristics, Stage::heuristics);
  const auto results = [&](int64_t max_count, int64_t& count, cudnnBackendDescriptor_t* to) {
    return cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                    max_count, &count, to);
  };
  int64_t count = 0;
  if (cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS ||
      results(0, count, nullptr) != CUDNN_STATUS_SUCCESS)
    return {};
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    found.push_back(create_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(found.back().get());
  }
  DUET_CUDNN(results(count, count, raw.data()));
  found.resize(static_cast<size_t>(count));  // it may return fewer than it announced
  return found;
}

int64_t number(const CudnnDescriptor& of, cudnnBackendAttributeName_t which) {
  int64_t value = 0, count = 0;
  DUET_CUDNN(cudnnBackendGetAttribute(of.get(), which, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

CudnnDescriptor engine_of(const CudnnDescriptor& candidate) {
  CudnnDescriptor engine = create_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  DUET_CUDNN(cudnnBackendGetAttribute(candidate.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &count, &raw));
  return engine;
}

// Whether the engine has one of these notes.
bool has_note(const CudnnDescriptor& engine, const std::vector<cudnnBackendNumericalNote_t>& notes) {
  if (notes.empty()) return false;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> its{};
  int64_t count = 0;
  DUET_CUDNN(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                      static_cast<int64_t>(its.size()), &count, its.data()));
  return std::find_first_of(its.begin(), its.begin() + count, notes.begin(), notes.end()) != its.begin() + count;
}
}  // namespace

template <class Prepare>
void CudnnEngine::choose(const CudnnGraph& graph, Prepare&& prepare) {
  const auto is_preferred = [&](const CudnnDescriptor& engine) { return has_note(engine, graph.preferred_); };
  if (!graph.preferred_.empty() && choose_of(graph, is_preferred, prepare)) return;
  choose_of(graph, std::not_fn(is_preferred), prepare);
}

template <class Takes, class Prepare>
bool CudnnEngine::choose_of(const CudnnGraph& graph, Takes&& takes, Prepare&& prepare) {
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const CudnnDescriptor& candidate : candidates(operations, mode, prepare)) {
      const CudnnDescriptor engine = engine_of(candidate);
      if (!takes(engine)) continue;
      if (has_note(engine, graph.refused_)) {
        unavailable_reason = "cuDNN has no engine of this precision for it";
        continue;
      }
      CudnnDescriptor tried = create_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      set_attribute(tried, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate.get());
      prepare(tried, Stage::plan);
      if (const auto status = cudnnBackendFinalize(tried.get()); status != CUDNN_STATUS_SUCCESS) {
        unavailable_reason = fmt::format("cuDNN has no engine for it: {}", cudnnGetErrorString(status));
        continue;  // an engine that the heuristics propose may still refuse
      }
      workspace_bytes = number(tried, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      if (workspace_bytes > kWorkspaceLimit) {
        unavailable_reason = fmt::format("cuDNN has no engine for it within {} MiB", kWorkspaceLimit >> 20);
        continue;
      }
      index = number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      plan = std::move(tried);
      unavailable_reason.clear();
      return true;
    }
  return false;
}

CudnnEngine::CudnnEngine(const CudnnGraph& graph, cudnnHandle_t handle)
    : operations(graph.close(handle)), unavailable_reason("cuDNN has no engine for it") {
  choose(graph, [&](const CudnnDescriptor& d, Stage stage) {  // heuristics take the handle of the graph
    if (stage == Stage::plan) set_attribute(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  });
}

#if CUDNN_VERSION >= 90800
CudnnEngine::CudnnEngine(const CudnnGraph& graph, const CudnnDescriptor& device_properties)
    : operations(graph.close()), unavailable_reason("cuDNN has no engine for it") {
  choose(graph, [&](const CudnnDescriptor& d, Stage stage) {
    const auto which = stage == Stage::plan ? CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP : CUDNN_ATTR_ENGINEHEUR_DEVICEPROP;
    set_attribute(d, which, device_properties.get());
  });
}
#endif

Plan plan_of(CudnnGraph graph, GpuContext& gpu, std::vector<CudnnMemory> memory, CudnnScratchFill fill) {
  if (memory.size() != graph.memory_.size())
    throw Error("cuDNN: {} slots for {} tensors", memory.size(), graph.memory_.size());
  CudnnEngine engine(graph, gpu.cudnn());
  if (!engine.unavailable_reason.empty()) return Unsupported{engine.unavailable_reason};
  const std::string algorithm = fmt::format("engine {}", engine.index);
  WorkspaceLayout workspace;
  const auto of_engine = workspace.add_bytes(engine.workspace_bytes);
  std::vector<WorkspacePiece<void>> scratch;
  for (const int64_t bytes : graph.scratch_bytes_) scratch.push_back(workspace.add_bytes(bytes));
  std::vector<int64_t> ids = graph.memory_;
  ids.insert(ids.end(), graph.scratch_.begin(), graph.scratch_.end());
  ids.insert(ids.end(), graph.constants_.begin(), graph.constants_.end());
  std::vector<void*> pointers;  // in the order of ids
  pointers.reserve(ids.size());

  return Plan([handle = gpu.cudnn(), memory = std::move(memory), graph = std::move(graph), engine = std::move(engine),
               of_engine, scratch = std::move(scratch), fill = std::move(fill), ids = std::move(ids),
               pointers = std::move(pointers)](Args t) mutable {
           pointers.clear();
           for (const CudnnMemory& m : memory)
             pointers.push_back(static_cast<char*>(cudnn_data(t[m.slot])) + m.offset_bytes);
           for (const auto& piece : scratch) pointers.push_back(t.workspace(piece));
           if (fill) fill(t, std::span(pointers).last(scratch.size()));
           for (const auto& value : graph.values_) pointers.push_back(value.get());
           void* const space = t.workspace(of_engine);
           const CudnnDescriptor pack = create_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
           set_attribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
           set_attribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                         static_cast<int64_t>(pointers.size()), pointers.data());
           set_attribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &space);
           DUET_CUDNN(cudnnBackendFinalize(pack.get()));
           DUET_CUDNN(cudnnBackendExecute(handle, engine.plan.get(), pack.get()));
         })
      .with(algorithm, std::move(workspace));
}

}  // namespace duet::cuda
