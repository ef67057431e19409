// SPDX-License-Identifier: Apache-2.0
// The passes of a GPU (core/pass.h): streams over memory by pattern and footprint, arithmetic in registers.
// gpu_passes() at the end gives them to the ceilings of a run and to the roof beside a row.
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/cuda/ceilings.h"
#include "core/cuda/launch.h"
#include "core/dtype.h"
#include "core/pass.h"

namespace duet::cuda {
namespace {

// --- bandwidth -------------------------------------------------------------------------------------------------------

constexpr int kStreamBlock = 256;
enum class Pattern { read, write, copy, update, triad };

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
    } else if constexpr (kPattern == Pattern::write) {
      a[i] = make_float4(s, s, s, s);
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

// --- passes ----------------------------------------------------------------------------------------------------------

template <class... P, class... A>
void start(void (*kernel)(P...), const Grid& grid, A... values) {
  [&](P... exact) {
    void* pointers[] = {static_cast<void*>(&exact)..., nullptr};
    launch_kernel(reinterpret_cast<const void*>(kernel), grid, pointers);
  }(static_cast<P>(values)...);
}

struct StreamLoop {
  const char* pattern;
  void (*kernel)(float4* a, const float4* b, const float4* c, int64_t count, float s);
  int arrays, moves;  // arrays of the footprint; accesses per vector
};
constexpr StreamLoop kStreamLoops[] = {{"read", stream_kernel<Pattern::read>, 1, 1},
                                       {"write", stream_kernel<Pattern::write>, 1, 1},
                                       {"copy", stream_kernel<Pattern::copy>, 2, 2},
                                       {"update", stream_kernel<Pattern::update>, 1, 2},
                                       {"triad", stream_kernel<Pattern::triad>, 3, 3}};

class MemoryPass final : public Pass {
 public:
  // max_blocks: with fewer than the vectors need, threads stride over them.
  MemoryPass(GpuContext& gpu, PassMemory& memory, const StreamLoop& loop, int64_t footprint, int64_t max_blocks)
      : gpu_(gpu), memory_(memory), loop_(loop), max_blocks_(max_blocks) {
    count_ = std::max<int64_t>(1, footprint / kVector / loop.arrays);
    ceiling = std::string("gpu.") + loop.pattern;
    footprint_bytes = count_ * kVector * loop.arrays;
    amount = static_cast<double>(count_ * kVector * loop.moves);
    gpu.fill_bytes(memory.at_least(footprint_bytes), 0x11, footprint_bytes);  // numbers
  }
  void run() override {
    auto* a = reinterpret_cast<float4*>(memory_.at_least(footprint_bytes));
    const float4* b = loop_.arrays > 1 ? a + count_ : a;
    const Grid grid{.blocks = std::min(ceil_div(count_, kStreamBlock), max_blocks_),
                    .threads = kStreamBlock,
                    .stream = gpu_.stream()};
    start(loop_.kernel, grid, a, b, a + 2 * count_, count_, 1.0f);
  }
  void evict() override { gpu_.evict(nullptr, 0); }
  std::unique_ptr<Pass> resized(int64_t footprint) const override {
    return std::make_unique<MemoryPass>(gpu_, memory_, loop_, footprint, max_blocks_);
  }

 private:
  static constexpr int64_t kVector = sizeof(float4);
  GpuContext& gpu_;
  PassMemory& memory_;
  const StreamLoop& loop_;
  int64_t max_blocks_, count_ = 0;  // count: vectors of an array
};

struct Arithmetic {
  const char *ceiling, *dtype;
  void (*kernel)(float* sink, int steps, double* flops_per_block);
  int blocks_per_multiprocessor;
};
constexpr Arithmetic kArithmetic[] = {
    {"gpu.fma.f32", "f32", fma_f32_kernel, 8},       {"gpu.mma.bf16", "bf16", mma_kernel<Mma::bf16>, 1},
    {"gpu.mma.f16", "f16", mma_kernel<Mma::f16>, 1}, {"gpu.mma.tf32", "f32/tf32", mma_kernel<Mma::tf32>, 1},
    {"gpu.mma.i8", "i8", mma_kernel<Mma::i8>, 1},    {"gpu.mma.f8e4m3", "f8e4m3", mma_kernel<Mma::f8e4m3>, 1}};
constexpr int kMinSteps = 8, kMaxSteps = 4096;  // of a block, in multiples of the former

class ComputePass final : public Pass {
 public:
  // Its amount is 0 where the architecture lacks the type.
  ComputePass(GpuContext& gpu, PassMemory& memory, const Arithmetic& arithmetic, double max_operations)
      : gpu_(gpu), memory_(memory), kernel_(arithmetic.kernel) {
    ceiling = arithmetic.ceiling;
    ComputePass::run();  // one block of the fewest steps: the kernel tells how many operations that are
    double of_block = 0;
    gpu.download(&of_block, memory.at_least(kMemory), sizeof of_block);
    if (!(of_block > 0)) return;
    // More blocks first, then more steps of each.
    const auto times = [](double wanted, double max) { return std::clamp(std::ceil(wanted), 1.0, max); };
    const double blocks = times(max_operations / of_block,
                                static_cast<double>(arithmetic.blocks_per_multiprocessor) * gpu.multiprocessors());
    const double rounds = times(max_operations / (of_block * blocks), kMaxSteps / kMinSteps);
    blocks_ = static_cast<int64_t>(blocks);
    steps_ = kMinSteps * static_cast<int>(rounds);
    amount = of_block * blocks * rounds;
  }
  void run() override {
    char* const memory = memory_.at_least(kMemory);
    start(kernel_, {.blocks = blocks_, .threads = 256, .stream = gpu_.stream()},
          reinterpret_cast<float*>(memory + sizeof(double)), steps_, reinterpret_cast<double*>(memory));
  }

 private:
  static constexpr int64_t kMemory = 64;  // bytes: the operations of a block, a sink
  GpuContext& gpu_;
  PassMemory& memory_;
  void (*kernel_)(float*, int, double*);
  int64_t blocks_ = 1;
  int steps_ = kMinSteps;
};

class GpuPasses final : public Passes {
 public:
  explicit GpuPasses(GpuContext& gpu) : gpu_(gpu), memory_(gpu) {}
  // One block for every 256 vectors, or as many blocks as run at once: which is faster depends on the size.
  std::vector<std::unique_ptr<Pass>> memory(std::string_view patterns, int64_t footprint) override {
    const int64_t at_once = int64_t{8} * gpu_.multiprocessors();
    std::vector<std::unique_ptr<Pass>> passes;
    for (const StreamLoop& loop : kStreamLoops) {
      if (!serves(patterns, loop.pattern)) continue;
      for (const int64_t max_blocks : {std::numeric_limits<int64_t>::max(), at_once})
        passes.push_back(std::make_unique<MemoryPass>(gpu_, memory_, loop, footprint, max_blocks));
    }
    return passes;
  }
  std::vector<std::unique_ptr<Pass>> compute(const std::string& dtype, double max_operations) override {
    std::vector<std::unique_ptr<Pass>> passes;
    for (const Arithmetic& a : kArithmetic) {
      if (a.dtype != dtype || (a.kernel != fma_f32_kernel && !has_tensor_ceiling(gpu_.capability()))) continue;
      auto pass = std::make_unique<ComputePass>(gpu_, memory_, a, max_operations);
      if (pass->amount > 0) passes.push_back(std::move(pass));
    }
    return passes;
  }
  int64_t cache_bytes() const override { return gpu_.l2_bytes(); }

 private:
  GpuContext& gpu_;
  PassMemory memory_;
};

}  // namespace
}  // namespace duet::cuda

namespace duet {

std::unique_ptr<Passes> gpu_passes(Context& context) {
  auto* gpu = dynamic_cast<cuda::GpuContext*>(&context);
  return gpu ? std::make_unique<cuda::GpuPasses>(*gpu) : nullptr;
}

}  // namespace duet
