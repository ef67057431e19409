// SPDX-License-Identifier: Apache-2.0
// Attention of few queries (decode.h; "flash decoding", Dao et al. 2023): it is limited by reading k and v once. Flash
// attention has a block for 64 queries of a head, which leaves most of the GPU idle when there is one query. Here a
// block takes a part of the keys of one head of k and v, for all query rows that share the head, and keeps no tile:
// kLanes lanes read a row of k or v as 16-byte packs, and hold the sums of their packs' features in registers. The
// groups of lanes of a block are put together in shared memory, the parts of a head by combine_kernel.
#include "kernels/attention/decode.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxRows = 8;       // query rows that share a head of k and v
constexpr int64_t kMinKeys = 64;  // fewer keys are left to flash attention
constexpr int64_t kMinKeysOfPart = 256;
constexpr float kLn2 = 0.693147181f;

struct Decode {
  int64_t rows, Tk, D, parts;  // rows: group Tq
  float log2_factor;           // of q k': scale log2 e, for powers of two
  MaskedFlash shape;
};

// A row of what a part leaves in the workspace, (heads of k, parts, rows): D sums of v, then the maximum of the scores
// times log2_factor and the sum of powers.
__host__ __device__ constexpr int64_t part_pitch(int64_t D) { return D + 2; }

// The weight of sums that are relative to `max` in ones relative to `common`; 0 for no keys.
__device__ __forceinline__ float weight(float max, float common) { return exp2f(max - RunningSoftmax::base(common)); }

// A block of kThreads for each part of each head of k and v; static shared memory. q, y: (heads of k, rows, D);
// k, v: (heads of k, Tk, D); lse: (heads of k, rows). With one part it writes y and lse, else the workspace.
template <class T, int kRows, int kLanes>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(Decode p, const T* q, const T* k, const T* v, T* y, float* lse, float* workspace) {
  constexpr int kSize = kPack<T>, kGroups = kThreads / kLanes, kUnroll = kRows > 4 ? 2 : 4;
  constexpr int kFeatures = kLanes * kSize;
  DUET_SHARED(float, shared_sums, [kGroups * kRows * kFeatures]);
  DUET_SHARED(float, shared_max, [kGroups * kRows]);
  DUET_SHARED(float, shared_total, [kGroups * kRows]);
  const int lane = static_cast<int>(threadIdx.x) % kLanes, group = static_cast<int>(threadIdx.x) / kLanes;
  const int feature = lane * kSize;
  const int64_t kv = blockIdx.x / p.parts, part = blockIdx.x % p.parts;
  const int64_t length = p.shape.keys_of(kv * p.shape.group);
  const int64_t first = length * part / p.parts, last = length * (part + 1) / p.parts;
  const bool active = feature < p.D;
  k += kv * p.Tk * p.D + feature;
  v += kv * p.Tk * p.D + feature;
  q += kv * p.rows * p.D + feature;

  float query[kRows][kSize], sums[kRows][kSize], max[kRows], total[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    Pack<T> pack = {};
    if (active && r < p.rows) pack = load_pack<kSize>(q + r * p.D);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      query[r][e] = float(pack.at[e]) * p.log2_factor;
      sums[r][e] = 0;
    }
    max[r] = -INFINITY;
    total[r] = 0;
  }

  // Every lane of a warp makes the same number of steps, because they exchange scores.
  for (int64_t j0 = first; j0 < last; j0 += kGroups * kUnroll) {
    Pack<T> keys[kUnroll], values[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t j = j0 + u * kGroups + group;
      keys[u] = values[u] = {};
      if (active && j < last) {
        keys[u] = load_pack<kSize>(k + j * p.D);
        values[u] = load_pack<kSize>(v + j * p.D);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float s[kUnroll], larger = max[r];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        s[u] = 0;
#pragma unroll
        for (int e = 0; e < kSize; ++e) s[u] += query[r][e] * float(keys[u].at[e]);
#pragma unroll
        for (int distance = kLanes / 2; distance > 0; distance /= 2)
          s[u] += __shfl_xor_sync(0xffffffffu, s[u], distance);
        if (j0 + u * kGroups + group >= last) s[u] = -INFINITY;
        larger = fmaxf(larger, s[u]);
      }
      const float change = weight(max[r], larger);
      max[r] = larger;
      total[r] *= change;
#pragma unroll
      for (int e = 0; e < kSize; ++e) sums[r][e] *= change;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const float power = weight(s[u], larger);
        total[r] += power;
#pragma unroll
        for (int e = 0; e < kSize; ++e) sums[r][e] += power * float(values[u].at[e]);
      }
    }
  }

  // Put the groups together: a thread adds up some features of some rows.
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) shared_sums[(group * kRows + r) * kFeatures + feature + e] = sums[r][e];
    if (lane == 0) {
      shared_max[group * kRows + r] = max[r];
      shared_total[group * kRows + r] = total[r];
    }
  }
  __syncthreads();
  for (int r = 0; r < p.rows; ++r)
    for (int64_t c = threadIdx.x; c < p.D; c += kThreads) {
      float common = -INFINITY, sum = 0, value = 0;
      for (int g = 0; g < kGroups; ++g) common = fmaxf(common, shared_max[g * kRows + r]);
      for (int g = 0; g < kGroups; ++g) {
        const float w = weight(shared_max[g * kRows + r], common);
        sum += w * shared_total[g * kRows + r];
        value += w * shared_sums[(g * kRows + r) * kFeatures + c];
      }
      const int64_t row = kv * p.rows + r;
      if (p.parts == 1) {
        y[row * p.D + c] = T(value / sum);
        if (c == 0) lse[row] = (common + log2f(sum)) * kLn2;
      } else {
        float* const to = workspace + ((kv * p.parts + part) * p.rows + r) * part_pitch(p.D);
        to[c] = value;
        if (c == 0) {
          to[p.D] = common;
          to[p.D + 1] = sum;
        }
      }
    }
}

// A block of kThreads for each query row: adds up its parts. Static shared memory: none.
template <class T>
__global__ void __launch_bounds__(kThreads) combine_kernel(Decode p, const float* workspace, T* y, float* lse) {
  const int64_t row = blockIdx.x, kv = row / p.rows, r = row % p.rows;
  const int64_t pitch = part_pitch(p.D), step = p.rows * pitch;
  const float* const from = workspace + (kv * p.parts * p.rows + r) * pitch;
  float common = -INFINITY, sum = 0;
  for (int64_t i = 0; i < p.parts; ++i) common = fmaxf(common, from[i * step + p.D]);
  for (int64_t i = 0; i < p.parts; ++i) sum += weight(from[i * step + p.D], common) * from[i * step + p.D + 1];
  for (int64_t c = threadIdx.x; c < p.D; c += kThreads) {
    float value = 0;
    for (int64_t i = 0; i < p.parts; ++i) value += weight(from[i * step + p.D], common) * from[i * step + c];
    y[row * p.D + c] = T(value / sum);
  }
  if (threadIdx.x == 0) lse[row] = (common + log2f(sum)) * kLn2;
}

template <class T, int kLanes>
void enqueue_rows(const Decode& d, int64_t kv_heads, const FlashTensors<T>& t, float* workspace, cudaStream_t stream) {
  const auto kernel = d.rows == 1   ? decode_kernel<T, 1, kLanes>
                      : d.rows <= 4 ? decode_kernel<T, 4, kLanes>
                                    : decode_kernel<T, kMaxRows, kLanes>;
  launch(kernel, Grid{.blocks = kv_heads * d.parts, .threads = kThreads, .stream = stream}, d, t.q, t.k, t.v, t.y,
         t.lse, workspace);
}

}  // namespace

int64_t decode_parts(const Attention& p, int multiprocessors) {
  const int64_t rows = p.group() * p.Tq, pack = 16 / static_cast<int64_t>(size_of(p.dtype));
  if (p.causal || rows == 0 || rows > kMaxRows || p.Tk < kMinKeys || p.D == 0 || p.D % pack != 0 ||
      p.D > kMaxFlashDepth)
    return 0;
  constexpr int64_t kBlocksPerMultiprocessor = 4;
  const int64_t wanted = ceil_div(kBlocksPerMultiprocessor * multiprocessors, std::max<int64_t>(1, p.B * p.kv_heads()));
  return std::clamp<int64_t>(p.Tk / kMinKeysOfPart, 1, wanted);
}

int64_t decode_workspace_floats(const Attention& p, int64_t parts) {
  return parts == 1 ? 0 : parts * p.B * p.H * p.Tq * part_pitch(p.D);
}

template <class T>
void enqueue_decode(const MaskedFlash& p, const FlashTensors<T>& t, int64_t parts, float* workspace,
                    cudaStream_t stream) {
  const Decode d{
      .rows = p.group * p.Tq, .Tk = p.Tk, .D = p.D, .parts = parts, .log2_factor = p.scale * 1.44269504f, .shape = p};
  const int64_t kv_heads = p.heads / p.group;
  // Two widths: heads of up to 64 features, as GPT-2's, and of up to 128.
  constexpr int kNarrow = 64 / kPack<T>, kWide = 128 / kPack<T>;
  if (p.D <= 64)
    enqueue_rows<T, kNarrow>(d, kv_heads, t, workspace, stream);
  else
    enqueue_rows<T, kWide>(d, kv_heads, t, workspace, stream);
  if (parts > 1)
    launch(combine_kernel<T>, Grid{.blocks = kv_heads * d.rows, .threads = kThreads, .stream = stream}, d, workspace,
           t.y, t.lse);
}
template void enqueue_decode(const MaskedFlash&, const FlashTensors<float>&, int64_t, float*, cudaStream_t);
template void enqueue_decode(const MaskedFlash&, const FlashTensors<__nv_bfloat16>&, int64_t, float*, cudaStream_t);
template void enqueue_decode(const MaskedFlash&, const FlashTensors<__half>&, int64_t, float*, cudaStream_t);

}  // namespace duet::DUET_DEVICE
