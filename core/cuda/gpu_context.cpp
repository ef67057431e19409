// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/gpu_context.h"

#include <algorithm>
#include <unordered_map>

#include "core/cuda/device_work.h"
#include "core/cuda/handle.h"
#include "core/cuda/nvml.h"
#include "core/cuda/staging.h"
#include "core/error.h"
#include "core/gpu.h"

namespace duet::cuda {
namespace {
constexpr int64_t kAlignment = 4096;
constexpr uint64_t kGiveUp_ns = 1'000'000'000;
// Launches queued behind the blocker: the driver's queue holds about 1000, and more would wait.
constexpr int64_t kQueue = 500;
}  // namespace

struct GpuContext::State {
  Stream stream = make_stream();
  Event start = make_event(), stop = make_event();
  PinnedMemory flags = pinned_memory(2 * sizeof(uint32_t));  // go, gave_up
  DeviceMemory sweep;  // the buffer that evict() reads, made at first use; its last 16 bytes receive the sum
  int64_t sweep_bytes = 0;
  // Checked calls of a run, by the address of its function, which a series keeps: series of several jobs take turns. An
  // address that was used before by another job holds a wrong number until the next run.
  std::unordered_map<const std::function<void()>*, int64_t> calls_of;
  void counted(const std::function<void()>& run) {
    const int64_t before = checked_calls();
    run();
    calls_of[&run] = std::max<int64_t>(1, checked_calls() - before);
  }
  std::unordered_map<void*, void*> raw;  // aligned address -> what the pool returned
  GraphExec graph;
  int recorded_runs = 0;  // in `graph`, of the batch that is being timed
  Staging staging;
};

GpuContext::GpuContext(int device) : device_(device) {
  require_usable_gpu();
  DUET_CUDA(cudaSetDevice(device));
  cudaDeviceProp properties{};
  DUET_CUDA(cudaGetDeviceProperties(&properties, device));
  multiprocessors_ = properties.multiProcessorCount;
  capability_ = properties.major * 10 + properties.minor;
  l2_bytes_ = properties.l2CacheSize;
  shared_bytes_ = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  memory_bytes_ = static_cast<int64_t>(properties.totalGlobalMem);
  name_ = properties.name;
  state_ = std::make_unique<State>();
  nvml_ = Nvml::open(pci_bus());

  // Released memory stays in the pool, so that an allocation between two samples does not go to the driver.
  cudaMemPool_t pool{};
  DUET_CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
  uint64_t keep = UINT64_MAX;
  DUET_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
}

GpuContext::~GpuContext() { DUET_CUDA_LOG(cudaStreamSynchronize(stream())); }

cudaStream_t GpuContext::stream() const { return state_->stream.get(); }

std::string GpuContext::pci_bus() const {
  char text[32] = "";
  DUET_CUDA(cudaDeviceGetPCIBusId(text, sizeof text, device_));
  return text;
}

std::string GpuContext::describe() const {
  return fmt::format("{}, sm_{}, {} multiprocessors, {:.0f} GB", name_, capability_, multiprocessors_,
                     memory_bytes_ / 1e9);
}

int64_t GpuContext::available_bytes() const {
  size_t free = 0, total = 0;
  DUET_CUDA(cudaMemGetInfo(&free, &total));
  cudaMemPool_t pool{};
  DUET_CUDA(cudaDeviceGetDefaultMemPool(&pool, device_));
  uint64_t reserved = 0, used = 0;
  DUET_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  DUET_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  return static_cast<int64_t>(free + reserved - used);
}

void* GpuContext::allocate(int64_t bytes) {
  require_usable_gpu();
  if (bytes < 0) throw Error("allocation of {} bytes", bytes);
  // The pool aligns to 256 bytes; the rest of a page is added, and the address is rounded up.
  void* raw = nullptr;
  const cudaError_t status = cudaMallocAsync(&raw, static_cast<size_t>(bytes + kAlignment), stream());
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    DUET_CUDA(cudaMemGetInfo(&free, &total));
    throw Error("no room for {} bytes on {}: {} of {} bytes are free", bytes, name_, free, total);
  }
  DUET_CUDA(status);
  const auto address = (reinterpret_cast<uintptr_t>(raw) + kAlignment - 1) / kAlignment * kAlignment;
  auto* aligned = reinterpret_cast<void*>(address);
  state_->raw.emplace(aligned, raw);
  return aligned;
}

void GpuContext::release(void* memory, int64_t) noexcept {
  const auto found = state_->raw.find(memory);
  if (found == state_->raw.end()) return;
  DUET_CUDA_LOG(cudaFreeAsync(found->second, stream()));
  state_->raw.erase(found);
}

void GpuContext::fill_bytes(void* to, uint8_t value, int64_t bytes) {
  if (bytes > 0) DUET_CUDA(cudaMemsetAsync(to, value, static_cast<size_t>(bytes), stream()));
}

void GpuContext::upload(void* to, const void* from, int64_t bytes) {
  state_->staging.helps(from, bytes) ? state_->staging.upload(to, from, bytes, stream())
                                     : upload_async(to, from, bytes);
  synchronize();
}

void GpuContext::download(void* to, const void* from, int64_t bytes) {
  state_->staging.helps(to, bytes) ? state_->staging.download(to, from, bytes, stream())
                                   : download_async(to, from, bytes);
  synchronize();
}

void GpuContext::copy_within(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) DUET_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream()));
}

void GpuContext::upload_async(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) DUET_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()));
}

void GpuContext::download_async(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) DUET_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()));
}

void GpuContext::synchronize() {
  require_usable_gpu();
  DUET_CUDA(cudaStreamSynchronize(stream()));
}

void* GpuContext::allocate_pinned(int64_t bytes) {
  require_usable_gpu();
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error("no room for {} bytes of pinned host memory", bytes);
  }
  DUET_CUDA(status);
  return memory;
}

void GpuContext::release_pinned(void* memory) noexcept { DUET_CUDA_LOG(cudaFreeHost(memory)); }

void GpuContext::evict(const void*, int64_t) {
  State& s = *state_;
  if (!s.sweep.get()) {
    s.sweep_bytes = 2 * std::max<int64_t>(l2_bytes_, 1 << 20);
    s.sweep = device_memory(s.sweep_bytes + 16);
    DUET_CUDA(cudaMemsetAsync(s.sweep.get(), 0, static_cast<size_t>(s.sweep_bytes + 16), stream()));
  }
  enqueue_read(s.sweep.get(), s.sweep_bytes, static_cast<char*>(s.sweep.get()) + s.sweep_bytes, 8 * multiprocessors_,
               stream());
}

// Records `times` runs into state_->graph without executing them. False when run() does something that a capture does
// not allow.
bool GpuContext::capture(const std::function<void()>& run, int times, std::string& reason) {
  DUET_CUDA(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  bool complete = true;
  try {
    for (int i = 0; i < times; ++i) state_->counted(run);
  } catch (const std::exception& e) {  // the same run without a capture reports the error itself
    complete = false;
    reason = e.what();
  }
  Graph graph;
  const cudaError_t status = cudaStreamEndCapture(stream(), graph.out());
  if (status != cudaSuccess || !graph.get()) {
    if (complete) reason = cudaGetErrorString(status);
    complete = false;
  }
  cudaGetLastError();
  state_->graph = GraphExec();
  if (complete) DUET_CUDA(cudaGraphInstantiate(state_->graph.out(), graph.get(), 0));
  return complete;
}

std::unique_ptr<RecordedGraph> GpuContext::record(const std::function<void()>& run, std::string& reason) {
  struct Recorded final : RecordedGraph {
    GraphExec graph;
    cudaStream_t stream;
    void replay() override { DUET_CUDA(cudaGraphLaunch(graph.get(), stream)); }
  };
  require_usable_gpu();
  auto recorded = std::make_unique<Recorded>();
  recorded->stream = stream();
  if (capture(run, 1, reason)) {
    recorded->graph = std::move(state_->graph);
    return recorded;
  }
  reason = "cannot be recorded as a graph: " + reason;
  return nullptr;
}

// Enqueues what was recorded of a batch as a graph, then the rest one by one.
void GpuContext::enqueue_batch(const std::function<void()>& run, int batch) {
  State& s = *state_;
  if (s.recorded_runs > 0) DUET_CUDA(cudaGraphLaunch(s.graph.get(), stream()));
  for (int i = s.recorded_runs; i < batch; ++i) s.counted(run);
}

double GpuContext::device_time(const std::function<void()>& run, int batch, bool& synchronises) {
  require_usable_gpu();
  State& s = *state_;
  if (!s.calls_of.contains(&run)) {  // not behind the blocker: modules may load, libraries may prepare themselves
    s.counted(run);
    synchronize();
  }
  // What does not fit into the launch queue becomes one graph. It is recorded before the blocker: that takes the host
  // milliseconds, and whether a driver makes a graph ready without waiting for the device is not documented.
  s.recorded_runs = batch - static_cast<int>(std::min<int64_t>(batch, kQueue / s.calls_of.at(&run)));
  std::string reason;
  if (s.recorded_runs > 0 && capture(run, s.recorded_runs, reason)) {
    DUET_CUDA(cudaGraphUpload(s.graph.get(), stream()));
    synchronize();
  } else {
    s.recorded_runs = 0;
  }
  auto* flags = static_cast<volatile uint32_t*>(s.flags.get());
  flags[0] = 0;
  flags[1] = 0;

  {
    struct ReleaseBlocker {  // also when something below throws
      volatile uint32_t* go;
      ~ReleaseBlocker() { *go = 1; }
    } const release{flags};
    enqueue_blocker(&flags[0], &flags[1], kGiveUp_ns, stream());
    DUET_CUDA(cudaEventRecord(s.start.get(), stream()));
    enqueue_batch(run, batch);
    DUET_CUDA(cudaEventRecord(s.stop.get(), stream()));
  }
  synchronize();
  // If the blocker gave up, run() waited for the device, and the time between the events includes time on the host.
  synchronises = flags[1] != 0;
  float ms = 0;
  DUET_CUDA(cudaEventElapsedTime(&ms, s.start.get(), s.stop.get()));
  return ms * 1e-3 / batch;
}

}  // namespace duet::cuda
