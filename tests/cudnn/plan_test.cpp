// SPDX-License-Identifier: Apache-2.0
// cuDNN plans every graph that Duet gives it, for GPUs that this machine need not have: it takes a GPU's properties as
// text. Its kernels are neither compiled nor loaded, since driver.cpp and compiler.cpp stand in for libcuda.so.1 and
// libnvrtc.so: what is tested is that an engine accepts the graph, with a workspace within the limit. Whether answers
// are right needs a GPU, and so do the calls of cuDNN's classic API, which all take a handle.
#include <gtest/gtest.h>

#include <string>

#include "tests/cudnn/cudnn_graphs.h"

namespace duet::cuda {
namespace {

struct Gpu {
  const char* name;
  int capability, multiprocessors, shared_bytes, threads, blocks;  // the last three: of a multiprocessor
  int64_t l2_bytes, memory_bytes;
};
// From NVIDIA's data sheets and the table of compute capabilities in the CUDA programming guide.
constexpr Gpu kGpus[] = {{"A100", 80, 108, 166912, 2048, 32, 40 << 20, int64_t{80} << 30},
                         {"H100", 90, 132, 232448, 2048, 32, 50 << 20, int64_t{80} << 30},
                         {"RTX 5090", 120, 170, 101376, 1536, 24, 96 << 20, int64_t{32} << 30}};

#if CUDNN_VERSION >= 90800
CudnnDescriptor properties_of(const Gpu& gpu) {
  const std::string text = fmt::format(
      R"({{"cudaDeviceId":0,"deviceId":0,"deviceVer":{},"driverVer":13000,"totalGlobalMem":{},)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
      R"("multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":{},"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":{},"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,)"
      R"("memClockRateKHz":2619000,"l2CacheSize":{},"deviceName":"{}"}})",
      gpu.capability * 10, gpu.memory_bytes, gpu.multiprocessors, gpu.shared_bytes, gpu.blocks, gpu.threads,
      gpu.l2_bytes, gpu.name);
  CudnnDescriptor properties = create_descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  set_attribute(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                static_cast<int64_t>(text.size()) + 1, text.c_str());
  DUET_CUDNN(cudnnBackendFinalize(properties.get()));
  return properties;
}

class CudnnPlan : public testing::TestWithParam<Gpu> {};

TEST_P(CudnnPlan, EveryGraphHasAnEngine) {
  const CudnnDescriptor properties = properties_of(GetParam());
  const auto graphs = cudnn_graphs({Scale::test, Scale::standard, Scale::full});
  EXPECT_GT(graphs.size(), 100u);
  int64_t workspace_bytes = 0;
  for (const NamedGraph& g : graphs) {
    const CudnnEngine engine(g.graph(), properties);
    EXPECT_EQ(engine.unavailable_reason, "") << g.name;
    EXPECT_LE(engine.workspace_bytes, CudnnEngine::kWorkspaceLimit) << g.name;
    workspace_bytes = std::max(workspace_bytes, engine.workspace_bytes);
  }
  fmt::print("{}: {} graphs, workspaces up to {} KiB\n", GetParam().name, graphs.size(), workspace_bytes >> 10);
}

// A test that any graph passes is none: cuDNN must refuse what its engines lack.
TEST_P(CudnnPlan, RefusesWhatNoEngineSupports) {
  Attention p;
  p.dtype = DType::bf16;
  p.B = 1;
  p.H = 2;
  p.Tq = p.Tk = 128;
  p.D = 12;
  EXPECT_NE(attention_unsupported_reason(p, false), "");
  EXPECT_NE(CudnnEngine(attention_graph(p), properties_of(GetParam())).unavailable_reason, "");
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlan, testing::ValuesIn(kGpus),
                         [](const auto& info) { return fmt::format("sm_{}", info.param.capability); });
#else
TEST(CudnnPlan, EveryGraphHasAnEngine) {
  GTEST_SKIP() << "cuDNN " << CUDNN_MAJOR << "." << CUDNN_MINOR << " takes no properties of a GPU; 9.8 does";
}
#endif

}  // namespace
}  // namespace duet::cuda
