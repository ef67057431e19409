// SPDX-License-Identifier: Apache-2.0
// The nodes are those of one graph, recorded when the first run brings their addresses.
#include <map>
#include <memory>
#include <utility>

#include "core/cuda/gpu_context.h"
#include "core/error.h"
#include "core/gpu.h"
#include "core/registration.h"
#include "kernels/study/nodes.h"
#include "ops/study/launch.h"

namespace duet::cuda {
namespace {

Plan study_launch_graph(const Launch& p, GpuContext& gpu) {
  using Addresses = std::pair<const float*, float*>;
  return [p, &gpu, graphs = std::map<Addresses, std::unique_ptr<RecordedGraph>>{}](Args t) mutable {
    if (p.nodes == 0) return;
    const Addresses at{t[Launch::x].as<const float>(), t[Launch::y].as<float>()};
    std::unique_ptr<RecordedGraph>& graph = graphs[at];
    std::string reason;
    if (!graph) graph = gpu.record([&] { enqueue_nodes(gpu.stream(), at.first, at.second, p.nodes); }, reason);
    if (!graph) throw Error("study/launch: {}", reason);
    graph->replay();
  };
}
DUET_REGISTER(study_launch_graph);  // cuda.graph

}  // namespace
}  // namespace duet::cuda
