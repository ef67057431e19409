// SPDX-License-Identifier: Apache-2.0
// Measures the limits of this GPU: streaming bandwidth by pattern and footprint, arithmetic in registers, transfers
// between host and device, launches. measure_ceilings() at the end calls the four parts.
#include "core/cuda/ceilings.h"

#include <mma.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/cuda/device_work.h"
#include "core/cuda/handle.h"
#include "core/cuda/launch.h"
#include "core/dtype.h"

namespace duet::cuda {
namespace {

// --- bandwidth -------------------------------------------------------------------------------------------------------

constexpr int kStreamBlock = 256;
enum class Pattern { read, copy, update, triad };

// Blocks of 256 threads; a thread moves one vector of 16 bytes per step. Where there are fewer threads than vectors,
// threads stride over them. `read` stores its sum only if it equals a value that cannot occur, so that the compiler
// keeps the loads.
template <Pattern kPattern>
__global__ void __launch_bounds__(kStreamBlock)
    stream_kernel(float4* a, const float4* b, const float4* c, int64_t count, float s) {
  float4 sum{};
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * kStreamBlock + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * kStreamBlock) {
    if constexpr (kPattern == Pattern::read) {
      const float4 v = b[i];
      sum.x += v.x;
      sum.y += v.y;
      sum.z += v.z;
      sum.w += v.w;
    } else if constexpr (kPattern == Pattern::copy) {
      a[i] = b[i];
    } else if constexpr (kPattern == Pattern::update) {
      const float4 v = a[i];
      a[i] = make_float4(s * v.x, s * v.y, s * v.z, s * v.w);
    } else {
      const float4 v = b[i], w = c[i];
      a[i] = make_float4(v.x + s * w.x, v.y + s * w.y, v.z + s * w.z, v.w + s * w.w);
    }
  }
  if (kPattern == Pattern::read && sum.x == 1.25e30f && sum.y == -3.5e30f) *a = sum;
}

template <class... P, class... A>
void start(void (*kernel)(P...), const Grid& grid, A... values) {
  [&](P... exact) {
    void* pointers[] = {static_cast<void*>(&exact)..., nullptr};
    launch_kernel(reinterpret_cast<const void*>(kernel), grid, pointers);
  }(static_cast<P>(values)...);
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

// Wang's hash, for random inputs: zeros would draw less power, so that the GPU would clock higher.
__device__ uint32_t scrambled(uint32_t v) {
  v = (v ^ 61) ^ (v >> 16);
  v *= 9;
  v ^= v >> 4;
  v *= 0x27d4eb2d;
  return v ^ (v >> 15);
}

// Blocks of 256 threads, each with 16 independent chains of fused multiply-adds: 2 * 16 * steps flops per thread.
__global__ void __launch_bounds__(256) fma_f32_kernel(float* sink, int steps, double* flops_per_block) {
  float v[16];
  for (int i = 0; i < 16; ++i) v[i] = 1e-3f * static_cast<float>(scrambled(threadIdx.x * 16 + i) & 1023);
  const float a = 0.999f + 1e-9f * static_cast<float>(steps), b = 1e-3f;
  for (int s = 0; s < steps; s += 8)
#pragma unroll
    for (int u = 0; u < 8; ++u)
#pragma unroll
      for (int i = 0; i < 16; ++i) v[i] = fmaf(v[i], a, b);
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += v[i];
  if (sum == 1.25e30f) *sink = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *flops_per_block = 2.0 * 16 * steps * blockDim.x;
}

enum class Mma { f16, bf16, tf32, i8, f8e4m3 };
constexpr const char* dtype_of_mma(Mma m) {
  return m == Mma::f16 ? "f16" : m == Mma::bf16 ? "bf16" : m == Mma::tf32 ? "f32/tf32" : m == Mma::i8 ? "i8" : "f8e4m3";
}
constexpr const char* name_of_mma(Mma m) {
  return m == Mma::f16    ? "gpu.mma.f16"
         : m == Mma::bf16 ? "gpu.mma.bf16"
         : m == Mma::tf32 ? "gpu.mma.tf32"
         : m == Mma::i8   ? "gpu.mma.i8"
                          : "gpu.mma.f8e4m3";
}

// A word of random elements of magnitude about 1.
template <Mma kType>
__device__ uint32_t random_word(uint32_t seed) {
  const uint32_t h = scrambled(seed);
  if constexpr (kType == Mma::f16) return (h & 0x83ff83ffu) | 0x3c003c00u;
  if constexpr (kType == Mma::bf16) return (h & 0x807f807fu) | 0x3f803f80u;
  if constexpr (kType == Mma::tf32) return (h & 0x807fe000u) | 0x3f800000u;
  if constexpr (kType == Mma::f8e4m3) return (h & 0x87878787u) | 0x38383838u;
  return h;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define DUET_D8(b) "%" #b "0,%" #b "1,%" #b "2,%" #b "3,%" #b "4,%" #b "5,%" #b "6,%" #b "7,%" #b "8,%" #b "9,"
#define DUET_OUT4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define DUET_OUT16(c, i) DUET_OUT4(c, i), DUET_OUT4(c, i + 4), DUET_OUT4(c, i + 8), DUET_OUT4(c, i + 12)
#define DUET_OUT128(c)                                                                                             \
  DUET_OUT16(c, 0), DUET_OUT16(c, 16), DUET_OUT16(c, 32), DUET_OUT16(c, 48), DUET_OUT16(c, 64), DUET_OUT16(c, 80), \
      DUET_OUT16(c, 96), DUET_OUT16(c, 112)
// Operands: %0..%127 are the sums, %128..%131 is a in registers, %132 is b in shared memory. `flags`: signs and the
// order of b, as the type requires.
#define DUET_WGMMA(shape_types, constraint, flags)                                                                  \
  asm volatile("wgmma.mma_async.sync.aligned." shape_types " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," DUET_D8(1) DUET_D8(2) \
                   DUET_D8(3) DUET_D8(4) DUET_D8(5) DUET_D8(6) DUET_D8(7) DUET_D8(8) DUET_D8(9) DUET_D8(10)         \
                       DUET_D8(11) "%120,%121,%122,%123,%124,%125,%126,%127}, {%128,%129,%130,%131}, %132, 1" flags \
                                   ";"                                                                              \
               : DUET_OUT128(constraint)                                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

template <Mma kType, class Sum>
__device__ __forceinline__ void wgmma_64x256(Sum (&d)[128], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kType == Mma::f16) DUET_WGMMA("m64n256k16.f32.f16.f16", "+f", ", 1, 1, 0");
  if constexpr (kType == Mma::bf16) DUET_WGMMA("m64n256k16.f32.bf16.bf16", "+f", ", 1, 1, 0");
  if constexpr (kType == Mma::tf32) DUET_WGMMA("m64n256k8.f32.tf32.tf32", "+f", ", 1, 1");
  if constexpr (kType == Mma::f8e4m3) DUET_WGMMA("m64n256k32.f32.e4m3.e4m3", "+f", ", 1, 1");
  if constexpr (kType == Mma::i8) DUET_WGMMA("m64n256k32.s32.s8.s8", "+r", "");
}
#endif

// One block of 256 threads (two warpgroups) per multiprocessor. Only the rate matters; the product has no meaning. On
// Hopper: wgmma m64n256 with a depth of 32 bytes, a in registers, b in 8 KiB of shared memory. Elsewhere: mma.sync
// through WMMA, with 4 independent sums per warp.
template <Mma kType>
__global__ void __launch_bounds__(256) mma_kernel(float* sink, int steps, double* flops_per_block) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Sum = std::conditional_t<kType == Mma::i8, int, float>;
  constexpr int kDepth = kType == Mma::tf32 ? 8 : kType == Mma::f16 || kType == Mma::bf16 ? 16 : 32;
  __shared__ __align__(1024) uint32_t tile[8192 / 4];
  for (int i = threadIdx.x; i < 8192 / 4; i += 256) tile[i] = random_word<kType>(i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  // Shared-memory descriptor without swizzle: address / 16, then the two strides between core matrices of 8 x 16 bytes,
  // each divided by 16.
  const uint64_t b =
      ((__cvta_generic_to_shared(tile) & 0x3ffff) >> 4) | uint64_t{128 >> 4} << 16 | uint64_t{256 >> 4} << 32;
  uint32_t a[4];
  for (int i = 0; i < 4; ++i) a[i] = random_word<kType>(threadIdx.x * 4 + i + 7777);
  Sum d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = 0;
  for (int s = 0; s < steps; s += 8) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int u = 0; u < 8; ++u) wgmma_64x256<kType>(d, a, b);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i) sum += static_cast<float>(d[i]);
  if (sum == 1.25e30f) *sink = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *flops_per_block = 2.0 * 64 * 256 * kDepth * steps * 2;
#else
  if constexpr (kType == Mma::f8e4m3) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *flops_per_block = 0;
  } else {
    namespace w = nvcuda::wmma;
    using Element =
        std::conditional_t<kType == Mma::f16, __half,
                           std::conditional_t<kType == Mma::bf16, __nv_bfloat16,
                                              std::conditional_t<kType == Mma::tf32, w::precision::tf32, signed char>>>;
    using Sum = std::conditional_t<kType == Mma::i8, int, float>;
    constexpr int kDepth = kType == Mma::tf32 ? 8 : 16;
    w::fragment<w::matrix_a, 16, 16, kDepth, Element, w::row_major> a;
    w::fragment<w::matrix_b, 16, 16, kDepth, Element, w::col_major> b;
    w::fragment<w::accumulator, 16, 16, kDepth, Sum> d[4];
    auto* words_a = reinterpret_cast<uint32_t*>(a.x);
    auto* words_b = reinterpret_cast<uint32_t*>(b.x);
    for (int i = 0; i < static_cast<int>(sizeof a.x / 4); ++i) words_a[i] = random_word<kType>(threadIdx.x * 16 + i);
    for (int i = 0; i < static_cast<int>(sizeof b.x / 4); ++i)
      words_b[i] = random_word<kType>(threadIdx.x * 16 + i + 7777);
    for (int i = 0; i < 4; ++i) w::fill_fragment(d[i], static_cast<Sum>(0));
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) w::mma_sync(d[i], a, b, d[i]);
    float sum = 0;
    for (int i = 0; i < 4; ++i)
      for (int e = 0; e < d[i].num_elements; ++e) sum += static_cast<float>(d[i].x[e]);
    if (sum == 1.25e30f) *sink = sum;
    if (blockIdx.x == 0 && threadIdx.x == 0) *flops_per_block = 2.0 * 16 * 16 * kDepth * 4 * steps * (blockDim.x / 32);
  }
#endif
}

// --- measuring -------------------------------------------------------------------------------------------------------

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

void measure_bandwidth(GpuContext& gpu, bool quick, std::vector<Ceiling>& all) {
  const int64_t l2 = std::max<int64_t>(gpu.l2_bytes(), 1 << 20), max_footprint = gpu.memory_bytes() / 4;
  int64_t largest = 1 << 20;
  while (largest < 8 * l2) largest *= 2;
  largest = std::min(largest, max_footprint / 16 * 16);
  std::vector<int64_t> footprints;
  for (int64_t f = quick ? largest : 1 << 20; f <= largest; f *= 2) footprints.push_back(f);
  if (quick) footprints.insert(footprints.begin(), l2 / 4 / 48 * 48);

  const DeviceMemory memory = device_memory(largest + 64);
  DUET_CUDA(cudaMemsetAsync(memory.get(), 0x11, static_cast<size_t>(largest), gpu.stream()));
  struct Kind {
    const char *name, *pattern;
    Pattern which;
    int tensors, moves;  // tensors of the footprint; accesses per vector
  };
  constexpr Kind kKinds[] = {{"gpu.read", "read", Pattern::read, 1, 1},
                             {"gpu.copy", "copy", Pattern::copy, 2, 2},
                             {"gpu.update", "update", Pattern::update, 1, 2},
                             {"gpu.triad", "triad", Pattern::triad, 3, 3}};
  for (const int64_t footprint : footprints)
    for (const Kind& kind : kKinds) {
      const int64_t count = footprint / 16 / kind.tensors;  // vectors of each tensor
      auto* a = static_cast<float4*>(memory.get());
      const float4 *b = kind.which == Pattern::read ? a : a + count, *c = a + 2 * count;
      std::vector<double> best;
      // One block for every 256 vectors, or as many blocks as run at once: which is faster depends on the size.
      for (const int64_t blocks : {ceil_div(count, kStreamBlock), int64_t{8} * gpu.multiprocessors()}) {
        const Grid grid{.blocks = blocks, .threads = kStreamBlock, .stream = gpu.stream()};
        const auto seconds = device_samples(
            gpu,
            [&] {
              switch (kind.which) {
                case Pattern::read:
                  start(stream_kernel<Pattern::read>, grid, a, b, c, count, 0.0f);
                  break;
                case Pattern::copy:
                  start(stream_kernel<Pattern::copy>, grid, a, b, c, count, 0.0f);
                  break;
                case Pattern::update:
                  start(stream_kernel<Pattern::update>, grid, a, b, c, count, 1.0f);
                  break;
                case Pattern::triad:
                  start(stream_kernel<Pattern::triad>, grid, a, b, c, count, 0.5f);
                  break;
              }
            },
            quick);
        if (best.empty() || quantile(seconds, 0.05) < quantile(best, 0.05)) best = seconds;
      }
      const double bytes = 16.0 * static_cast<double>(count) * kind.moves;
      all.push_back(rate(gpu_ceiling(kind.name, "B/s", kind.pattern, "", count * 16 * kind.tensors), bytes, best));
    }
}

void measure_arithmetic(GpuContext& gpu, bool quick, std::vector<Ceiling>& all) {
  const DeviceMemory sink = device_memory(16);
  const PinnedMemory flops = pinned_memory(sizeof(double));
  auto* per_block = static_cast<double*>(flops.get());
  const auto measure = [&](const char* name, const char* dtype, void (*kernel)(float*, int, double*), int64_t blocks,
                           int steps) {
    *per_block = 0;
    const Grid grid{.blocks = blocks, .threads = 256, .stream = gpu.stream()};
    const auto run = [&] { start(kernel, grid, static_cast<float*>(sink.get()), steps, per_block); };
    const auto seconds = device_samples(gpu, run, quick);
    if (*per_block > 0)  // 0: this architecture lacks the type
      add_rates(gpu, gpu_ceiling(name, "FLOP/s", "", dtype), *per_block * static_cast<double>(blocks), seconds, run,
                quick, all);
  };
  measure("gpu.fma.f32", "f32", fma_f32_kernel, int64_t{8} * gpu.multiprocessors(), 4096);
  if (!has_tensor_ceiling(gpu.capability())) return;
  measure(name_of_mma(Mma::bf16), dtype_of_mma(Mma::bf16), mma_kernel<Mma::bf16>, gpu.multiprocessors(), 4096);
  measure(name_of_mma(Mma::f16), dtype_of_mma(Mma::f16), mma_kernel<Mma::f16>, gpu.multiprocessors(), 4096);
  measure(name_of_mma(Mma::tf32), dtype_of_mma(Mma::tf32), mma_kernel<Mma::tf32>, gpu.multiprocessors(), 4096);
  if (quick) return;
  measure(name_of_mma(Mma::i8), dtype_of_mma(Mma::i8), mma_kernel<Mma::i8>, gpu.multiprocessors(), 4096);
  measure(name_of_mma(Mma::f8e4m3), dtype_of_mma(Mma::f8e4m3), mma_kernel<Mma::f8e4m3>, gpu.multiprocessors(), 4096);
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
    add("gpu.h2d.pageable", bytes, once, [&] { gpu.upload(far, pageable.data(), bytes); });
    add("gpu.d2h.pageable", bytes, once, [&] { gpu.download(pageable.data(), far, bytes); });
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
  measure_bandwidth(gpu, quick, all);
  measure_arithmetic(gpu, quick, all);
  measure_transfers(gpu, quick, all);
  measure_launches(gpu, quick, all);
  return all;
}

}  // namespace duet::cuda
