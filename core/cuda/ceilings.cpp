// SPDX-License-Identifier: Apache-2.0
// Measures the limits of this GPU: streaming bandwidth by pattern and footprint and arithmetic in registers, by the
// passes of gpu_pass.cu; transfers between host and device; launches. measure_ceilings() at the end calls the four
// parts.
#include "core/cuda/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "core/cuda/device_work.h"
#include "core/cuda/handle.h"
#include "core/pass.h"

namespace duet::cuda {
namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double quantile(std::vector<double> ascending, double q) {
  return ascending[static_cast<size_t>(std::ceil(q * static_cast<double>(ascending.size()))) - 1];
}

// Host seconds of run(), ascending.
std::vector<double> host_samples(const std::function<void()>& run, int samples) {
  std::vector<double> seconds;
  for (int i = 0; i < 3; ++i) run();
  for (int i = 0; i < samples; ++i) {
    const double start = now_s();
    run();
    seconds.push_back(now_s() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

// A duration: the 95th percentile of a rate is the 5th percentile of the time.
Ceiling duration(const char* name, const std::vector<double>& seconds) {
  Ceiling c = gpu_ceiling(name, "s");
  c.samples = seconds;
  c.value = quantile(seconds, 0.05);
  return c;
}

void measure_bandwidth(GpuContext& gpu, Passes& passes, bool quick, std::vector<Ceiling>& all) {
  const int64_t l2 = std::max<int64_t>(gpu.l2_bytes(), 1 << 20), max_footprint = gpu.memory_bytes() / 4;
  int64_t largest = 1 << 20;
  while (largest < 8 * l2) largest *= 2;
  largest = std::min(largest, max_footprint / 16 * 16);
  std::vector<int64_t> footprints;
  for (int64_t f = quick ? largest : 1 << 20; f <= largest; f *= 2) footprints.push_back(f);
  if (quick) footprints.insert(footprints.begin(), l2 / 4 / 48 * 48);
  for (const int64_t footprint : footprints)
    for (const char* pattern : {"read", "write", "copy", "update", "triad"}) {
      Ceiling fastest;
      for (const auto& pass : passes.memory(pattern, footprint)) {
        Ceiling found = rate(gpu_ceiling(pass->ceiling, "B/s", pattern, "", pass->footprint_bytes), pass->amount,
                             device_samples(gpu, pass->run_function, quick));
        if (found.value > fastest.value) fastest = std::move(found);
      }
      all.push_back(std::move(fastest));
    }
}

void measure_arithmetic(GpuContext& gpu, Passes& passes, bool quick, std::vector<Ceiling>& all) {
  for (const char* dtype : {"f32", "bf16", "f16", "f32/tf32", "i8", "f8e4m3"})
    for (const auto& pass : passes.compute(dtype, std::numeric_limits<double>::infinity()))
      add_rates(gpu, gpu_ceiling(pass->ceiling, "FLOP/s", "", dtype), pass->amount,
                device_samples(gpu, pass->run_function, quick), pass->run_function, quick, all);
}

void measure_transfers(GpuContext& gpu, bool quick, std::vector<Ceiling>& all) {
  constexpr int64_t kSmall = 4 << 10, kLarge = 64 << 20, kHuge = 256 << 20;
  const std::vector<int64_t> sizes =
      quick ? std::vector<int64_t>{kLarge} : std::vector<int64_t>{kSmall, 256 << 10, 4 << 20, kLarge, kHuge};
  const int64_t largest = sizes.back();
  const DeviceMemory device = device_memory(2 * largest);
  const PinnedMemory pinned = pinned_memory(2 * largest);
  std::memset(pinned.get(), 0x11, static_cast<size_t>(2 * largest));
  std::vector<unsigned char> pageable(static_cast<size_t>(largest), 0x11);
  auto* far = static_cast<unsigned char*>(device.get());
  auto* near = static_cast<unsigned char*>(pinned.get());
  const Stream other = make_stream();
  const int samples = quick ? 10 : 20;
  const auto add = [&](const char* name, int64_t bytes, double moved, const std::function<void()>& run) {
    all.push_back(rate(gpu_ceiling(name, "B/s", "", "", bytes), moved, host_samples(run, samples)));
  };
  for (const int64_t bytes : sizes) {
    const double once = static_cast<double>(bytes);
    add("gpu.h2d.pinned", bytes, once, [&] {
      gpu.upload_async(far, near, bytes);
      gpu.synchronize();
    });
    add("gpu.d2h.pinned", bytes, once, [&] {
      gpu.download_async(near, far, bytes);
      gpu.synchronize();
    });
    add("gpu.h2d.pageable", bytes, once, [&] {  // as the driver copies it, not upload()
      gpu.upload_async(far, pageable.data(), bytes);
      gpu.synchronize();
    });
    add("gpu.d2h.pageable", bytes, once, [&] {
      gpu.download_async(pageable.data(), far, bytes);
      gpu.synchronize();
    });
    add("gpu.bidirectional.pinned", bytes, 2 * once, [&] {
      gpu.upload_async(far, near, bytes);
      DUET_CUDA(cudaMemcpyAsync(near + largest, far + largest, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                                other.get()));
      DUET_CUDA(cudaStreamSynchronize(other.get()));
      gpu.synchronize();
    });
  }
}

void measure_launches(GpuContext& gpu, bool quick, std::vector<Ceiling>& all) {
  constexpr int kMany = 500;  // launches that fit into the queue
  const int samples = quick ? 20 : 100;
  const cudaStream_t stream = gpu.stream();
  const auto many = [&] {
    for (int i = 0; i < kMany; ++i) enqueue_empty(stream);
  };
  const auto each = [&](std::vector<double> seconds) {
    for (double& s : seconds) s /= kMany;
    return seconds;
  };
  gpu.synchronize();
  all.push_back(duration("gpu.launch", host_samples(
                                           [&] {
                                             enqueue_empty(stream);
                                             gpu.synchronize();
                                           },
                                           samples)));
  std::vector<double> enqueued;  // seconds to enqueue a launch, without waiting for it
  for (int i = 0; i < samples; ++i) {
    const double begin = now_s();
    many();
    enqueued.push_back((now_s() - begin) / kMany);
    gpu.synchronize();
  }
  std::sort(enqueued.begin(), enqueued.end());
  all.push_back(duration("gpu.launch_rate", enqueued));
  all.push_back(duration("gpu.empty_kernel", device_samples(
                                                 gpu, [&] { enqueue_empty(stream); }, quick)));
  all.push_back(duration("gpu.event_pair", device_samples(
                                               gpu, [] {}, quick, 1)));

  const auto graph_of = [&](int nodes) {
    Graph graph;
    GraphExec exec;
    DUET_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; ++i) enqueue_empty(stream);
    DUET_CUDA(cudaStreamEndCapture(stream, graph.out()));
    DUET_CUDA(cudaGraphInstantiate(exec.out(), graph.get(), 0));
    return exec;
  };
  const GraphExec one = graph_of(1), all_nodes = graph_of(kMany);
  const auto launch_graph = [&](const GraphExec& exec) {
    DUET_CUDA(cudaGraphLaunch(exec.get(), stream));
    gpu.synchronize();
  };
  all.push_back(duration("gpu.graph_launch", host_samples([&] { launch_graph(one); }, samples)));
  all.push_back(duration("gpu.graph_node", each(host_samples([&] { launch_graph(all_nodes); }, samples))));
}

}  // namespace

bool has_tensor_ceiling(int capability) { return capability < 100 || capability >= 120; }

std::vector<double> device_samples(GpuContext& gpu, const std::function<void()>& run, bool quick, int max_batch) {
  constexpr double kTarget = 200e-6;
  bool synchronises = false;
  for (int i = 0; i < 3; ++i) run();
  gpu.synchronize();
  const double once = std::max(gpu.device_time(run, 1, synchronises), 1e-7);
  const int batch = static_cast<int>(std::clamp(std::ceil(kTarget / once), 1.0, static_cast<double>(max_batch)));
  const double budget = quick ? 0.03 : 0.2;
  const int samples = static_cast<int>(std::clamp(budget / (batch * once), 10.0, 100.0));
  std::vector<double> seconds;
  for (int i = 0; i < samples; ++i) seconds.push_back(std::max(gpu.device_time(run, batch, synchronises), 1e-9));
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

Ceiling gpu_ceiling(std::string name, std::string unit, std::string pattern, std::string dtype,
                    int64_t footprint_bytes) {
  Ceiling c;
  c.name = std::move(name);
  c.unit = std::move(unit);
  c.pattern = std::move(pattern);
  c.dtype = std::move(dtype);
  c.device = std::string("gpu");
  c.footprint_bytes = footprint_bytes;
  return c;
}

Ceiling rate(Ceiling what, double work, const std::vector<double>& seconds) {
  for (auto s = seconds.rbegin(); s != seconds.rend(); ++s) what.samples.push_back(work / *s);  // ascending
  what.value = quantile(what.samples, 0.95);
  return what;
}

std::vector<double> sustained_samples(DeviceQueue& queue, const std::function<void()>& run, double once_s) {
  constexpr double kSample_s = 0.05, kHeating_s = 0.5, kMeasured_s = 1;
  constexpr double kMaxBatch = 400;  // as many launches as the queue takes
  const int batch = static_cast<int>(std::clamp(std::ceil(kSample_s / std::max(once_s, 1e-7)), 1.0, kMaxBatch));
  std::vector<double> seconds;
  double busy_s = 0;
  while (busy_s < kHeating_s + kMeasured_s) {
    bool synchronises = false;
    const double one_s = std::max(queue.device_time(run, batch, synchronises), 1e-7);
    if (busy_s >= kHeating_s) seconds.push_back(one_s);
    busy_s += one_s * batch;
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

void add_rates(GpuContext& gpu, const Ceiling& what, double work, const std::vector<double>& seconds,
               const std::function<void()>& run, bool quick, std::vector<Ceiling>& all) {
  all.push_back(rate(what, work, seconds));
  if (quick) return;
  Ceiling sustained = what;
  sustained.name += ".sustained";
  all.push_back(rate(std::move(sustained), work, sustained_samples(gpu, run, seconds.front())));
}

std::vector<Ceiling> measure_ceilings(GpuContext& gpu, bool quick) {
  std::vector<Ceiling> all;
  {
    const std::unique_ptr<Passes> passes = gpu_passes(gpu);
    measure_bandwidth(gpu, *passes, quick, all);
    measure_arithmetic(gpu, *passes, quick, all);
  }
  measure_transfers(gpu, quick, all);
  measure_launches(gpu, quick, all);
  return all;
}

}  // namespace duet::cuda
