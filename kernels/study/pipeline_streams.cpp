// SPDX-License-Identifier: Apache-2.0
// study/pipeline on a GPU: chunk after chunk on the streams in turn, each copied in, worked on and copied out. The
// streams begin after what is on the context's stream and end before what comes after.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/cuda/gpu_context.h"
#include "core/cuda/handle.h"
#include "core/registration.h"
#include "kernels/study/rounds.h"
#include "ops/study/pipeline.h"

namespace duet::cuda {
namespace {

// Each stream has memory of its own for the chunk that it works on. It is no piece of one workspace, so that a check of
// the order between streams tells what runs side by side apart.
struct Lanes {
  std::vector<Buffer> in, out;
  std::vector<Stream> streams;
  std::vector<Event> done;
  Event begin = make_event(cudaEventDisableTiming);
  Lanes(int64_t count, int64_t length, GpuContext& gpu) {
    for (int64_t i = 0; i < count; ++i) {
      in.emplace_back(gpu, length * int64_t{sizeof(float)}, "a chunk of x", sizeof(float));
      out.emplace_back(gpu, length * int64_t{sizeof(float)}, "a chunk of y", sizeof(float));
      streams.push_back(make_stream());
      done.push_back(make_event(cudaEventDisableTiming));
    }
  }
};

Plan study_pipeline_streams(const Pipeline& p, GpuContext& gpu) {
  const int64_t length = p.chunk_length();
  const int64_t lanes = std::min(p.streams, std::max<int64_t>(1, ceil_div(p.n, std::max<int64_t>(1, length))));
  return [=, own = std::make_shared<Lanes>(lanes, length, gpu), main = gpu.stream()](Args t) {
    if (p.n == 0) return;
    const auto* x = t[Pipeline::x].as<const float>();
    auto* y = t[Pipeline::y].as<float>();
    DUET_CUDA(cudaEventRecord(own->begin.get(), main));
    for (const Stream& s : own->streams) DUET_CUDA(cudaStreamWaitEvent(s.get(), own->begin.get(), 0));
    for (int64_t chunk = 0, first = 0; first < p.n; ++chunk, first += length) {
      const auto lane = static_cast<size_t>(chunk % lanes);
      const cudaStream_t stream = own->streams[lane].get();
      const int64_t count = std::min(length, p.n - first);
      const auto bytes = static_cast<size_t>(count) * sizeof(float);
      auto* const from = own->in[lane].as<float>();
      auto* const to = own->out[lane].as<float>();
      DUET_CUDA(cudaMemcpyAsync(from, x + first, bytes, cudaMemcpyHostToDevice, stream));
      add_rounds(stream, from, to, count, p.rounds);
      DUET_CUDA(cudaMemcpyAsync(y + first, to, bytes, cudaMemcpyDeviceToHost, stream));
    }
    for (size_t lane = 0; lane < own->streams.size(); ++lane) {
      DUET_CUDA(cudaEventRecord(own->done[lane].get(), own->streams[lane].get()));
      DUET_CUDA(cudaStreamWaitEvent(main, own->done[lane].get(), 0));
    }
  };
}
DUET_REGISTER(study_pipeline_streams);  // cuda.streams

}  // namespace
}  // namespace duet::cuda
