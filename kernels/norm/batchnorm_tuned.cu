// SPDX-License-Identifier: Apache-2.0
// Statistics: the elements of a channel are divided into parts, so that there are enough blocks for the whole GPU. A
// thread reads batches, computes the mean and the squared deviations of a batch in registers, and combines the batches
// (Chan, Golub, LeVeque 1979), so that x is read once and there is no cancellation. A second launch combines the parts
// in order. Then y, or dx, is one pass of 16-byte accesses: y = act(x a + b + residual), dx = g k + x l + m, with
// factors for each channel. There are no atomics.
#include "kernels/divider.cuh"
#include "kernels/reduction/columns.cuh"
#include "ops/norm/batchnorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kBlock = 256;                   // nchw: threads for a part of a channel
constexpr int kLanes = 32, kFinishRows = 32;  // threads of the second launch
constexpr int kBatch = 4;                     // packs (nchw) or pixels (nhwc) that a thread reads at once
constexpr int64_t kMinPixels = 32 * kBatch;   // nhwc: of a part, to be worth a block
constexpr int64_t kMaxElements = INT32_MAX;

// Of a set of elements: their number, mean, and sum of squared deviations from the mean.
struct Moments {
  float count = 0, mean = 0, squares = 0;
  // Adds the moments of another set.
  __device__ __forceinline__ void add(float n, float other_mean, float other_squares) {
    if (n == 0) return;
    const float all = count + n, difference = other_mean - mean, weight = n / all;
    mean += difference * weight;
    squares += other_squares + difference * difference * count * weight;
    count = all;
  }
};

// Adds the moments of kRows rows of a block's shared memory, as a tree: row 0 has the result. By all `threads` of the
// block; a thread may read columns `thread`, thread + threads, ... of it without a barrier.
template <int kRows, int kColumns>
__device__ __forceinline__ void add_rows(float (&shared)[3][kRows][kColumns], int thread, int threads) {
#pragma unroll
  for (int half = kRows / 2; half > 0; half /= 2) {
    __syncthreads();
    for (int i = thread; i < half * kColumns; i += threads) {
      const int row = i / kColumns, column = i % kColumns;
      Moments sum{shared[0][row][column], shared[1][row][column], shared[2][row][column]};
      sum.add(shared[0][row + half][column], shared[1][row + half][column], shared[2][row + half][column]);
      shared[0][row][column] = sum.count;
      shared[1][row][column] = sum.mean;
      shared[2][row][column] = sum.squares;
    }
  }
}

// nchw: the moments of at most `height` elements of a channel from part * height on, to parts (3, parts, c). Blocks of
// kBlock, one for each channel (grid x) and part (grid y); 3 KiB of shared memory. x: (images, c, pixels); kSize
// divides pixels and height.
template <class T, int kSize>
__global__ void __launch_bounds__(kBlock) plane_moments_kernel(const T* x, float* parts, int64_t count, int64_t height,
                                                               int64_t c, uint32_t pixels, Divider by_pixels) {
  DUET_SHARED(float, shared, [3][kBlock]);
  const int64_t q = blockIdx.x, first = blockIdx.y * height, last = min(count, first + height);
  const int thread = static_cast<int>(threadIdx.x);

  // Moments of this thread's batches.
  Moments mine;
  for (int64_t k = first + thread * kSize; k < last; k += kBatch * kBlock * kSize) {
    Pack<T, kSize> pack[kBatch];
    float n = 0, sum = 0, squares = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int64_t e = k + int64_t{b} * kBlock * kSize;
      if (e >= last) continue;
      uint32_t image = static_cast<uint32_t>(e);
      const int pixel = by_pixels.split(image);
      pack[b] = load_pack<kSize>(x + (int64_t{image} * c + q) * pixels + pixel);
      n += kSize;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
#pragma unroll
      for (int i = 0; i < kSize; ++i)
        if (b * kSize < n) sum += float(pack[b].at[i]);
    const float mean = sum / n;
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
#pragma unroll
      for (int i = 0; i < kSize; ++i)
        if (b * kSize < n) squares += (float(pack[b].at[i]) - mean) * (float(pack[b].at[i]) - mean);
    mine.add(n, mean, squares);
  }

  // Tree over the threads.
  shared[0][thread] = mine.count;
  shared[1][thread] = mine.mean;
  shared[2][thread] = mine.squares;
  for (int half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      mine.add(shared[0][thread + half], shared[1][thread + half], shared[2][thread + half]);
      shared[0][thread] = mine.count;
      shared[1][thread] = mine.mean;
      shared[2][thread] = mine.squares;
    }
  }

  // Write back.
  if (thread != 0) return;  // no barrier follows
  const int64_t at = blockIdx.y * c + q, step = int64_t{gridDim.y} * c;
  parts[at] = mine.count;
  parts[at + step] = mine.mean;
  parts[at + 2 * step] = mine.squares;
}

// nhwc: the same. Blocks as those of columns.cuh, one for each strip of channels (grid x) and part of `height` pixels
// (grid y). 3 to 24 KiB of shared memory. x: (count, c); kSize divides c.
template <class T, int kSize>
__global__ void __launch_bounds__(Columns::lanes(kSize) * Columns::rows(kSize))
    pixel_moments_kernel(const T* x, float* parts, int64_t count, int64_t height, int64_t c) {
  constexpr int kLanes = Columns::lanes(kSize), kRows = Columns::rows(kSize);
  DUET_SHARED(float, shared, [3][kRows][kLanes * kSize]);
  const int64_t q = (int64_t{blockIdx.x} * kLanes + threadIdx.x) * kSize;
  const int64_t first = blockIdx.y * height, last = min(count, first + height);
  const int lane = static_cast<int>(threadIdx.x) * kSize, row = static_cast<int>(threadIdx.y);

  // Moments of this thread's batches. All its channels have the same number of elements.
  float count_so_far = 0, means[kSize] = {}, all_squares[kSize] = {};
  if (q < c)
    for (int64_t k = first + row; k < last; k += kBatch * kRows) {
      Pack<T, kSize> pack[kBatch];
      float n = 0;
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        if (k + b * kRows < last) {
          pack[b] = load_pack<kSize>(x + (k + b * kRows) * c + q);
          n += 1;
        }
      const float inv_n = 1 / n, all = count_so_far + n, weight = n / all, both = count_so_far * weight;
      count_so_far = all;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        float sum = 0, squares = 0;
#pragma unroll
        for (int b = 0; b < kBatch; ++b)
          if (b < n) sum += float(pack[b].at[i]);
        const float mean = sum * inv_n;
#pragma unroll
        for (int b = 0; b < kBatch; ++b)
          if (b < n) squares += (float(pack[b].at[i]) - mean) * (float(pack[b].at[i]) - mean);
        const float difference = mean - means[i];
        means[i] += difference * weight;
        all_squares[i] += squares + difference * difference * both;
      }
    }

    // Moments over the rows of threads.
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    shared[0][row][lane + i] = count_so_far;
    shared[1][row][lane + i] = means[i];
    shared[2][row][lane + i] = all_squares[i];
  }
  add_rows<kRows>(shared, row * kLanes + static_cast<int>(threadIdx.x), kLanes * kRows);
  for (int i = row * kLanes + static_cast<int>(threadIdx.x); i < kLanes * kSize; i += kLanes * kRows) {
    const int64_t channel = int64_t{blockIdx.x} * kLanes * kSize + i;
    const int64_t at = blockIdx.y * c + channel, step = int64_t{gridDim.y} * c;
    if (channel < c) {
      parts[at] = shared[0][0][i];
      parts[at + step] = shared[1][0][i];
      parts[at + 2 * step] = shared[2][0][i];
    }
  }
}

// Writes everything that depends on a channel's moments. scales: (2, c), a and b of y = x a + b.
template <class T>
struct StoreStatistics {
  const T *gamma, *beta;
  float *running_mean, *running_var, *mean, *rstd, *scales;
  int64_t c;
  float inv_count, unbiased, eps, momentum;  // unbiased: count / (count - 1)
  __device__ __forceinline__ void operator()(int64_t q, const Moments& m) const {
    const float variance = m.squares * inv_count, scale = rsqrtf(variance + eps), a = float(gamma[q]) * scale;
    mean[q] = m.mean;
    rstd[q] = scale;
    running_mean[q] = (1 - momentum) * running_mean[q] + momentum * m.mean;
    running_var[q] = (1 - momentum) * running_var[q] + momentum * (variance * unbiased);
    scales[q] = a;
    scales[c + q] = float(beta[q]) - m.mean * a;
  }
};

// Combines the parts of each channel. Blocks of (32, 32), one for each 32 channels; 12 KiB of shared memory. parts: (3,
// count, c).
template <class T>
__global__ void __launch_bounds__(kLanes* kFinishRows)
    finish_moments_kernel(const float* parts, int64_t count, int64_t c, StoreStatistics<T> store) {
  DUET_SHARED(float, shared, [3][kFinishRows][kLanes]);
  const int lane = static_cast<int>(threadIdx.x), row = static_cast<int>(threadIdx.y);
  const int64_t q = int64_t{blockIdx.x} * kLanes + lane, step = count * c;

  // Every kFinishRows-th part, then over the rows of threads.
  Moments mine;
  if (q < c) {
#pragma unroll 4
    for (int64_t k = row; k < count; k += kFinishRows)
      mine.add(parts[k * c + q], parts[step + k * c + q], parts[2 * step + k * c + q]);
  }
  shared[0][row][lane] = mine.count;
  shared[1][row][lane] = mine.mean;
  shared[2][row][lane] = mine.squares;
  add_rows<kFinishRows>(shared, row * kLanes + lane, kLanes * kFinishRows);
  if (row == 0 && q < c) store(q, {shared[0][0][lane], shared[1][0][lane], shared[2][0][lane]});
}

// --- one pass over the images ---------------------------------------------------------------------------------------

// Where the channels of a pack's elements are. kPlanes: all in one (nchw, packs divide the planes); kConsecutive: they
// are consecutive and begin at a multiple of the pack (nhwc, packs divide the channels); kAny: anywhere.
enum class PackChannels { kAny, kPlanes, kConsecutive };

// Loads values of channels for the elements of a pack. nhwc is treated as planes of one pixel.
struct ChannelOf {
  explicit ChannelOf(const Channels& p)
      : pixels(p.layout == Layout::nchw ? static_cast<int>(p.pixels()) : 1),
        channels(static_cast<int>(p.c)),
        by_pixels(pixels),
        by_channels(p.c) {}
  int pixels, channels;
  Divider by_pixels, by_channels;

  // to[v][e] = values[v * channels + the channel of element i + e]. values: (kValues, channels), aligned to 16 bytes.
  template <PackChannels kWhere, int kValues, int kWidth>
  __device__ __forceinline__ void load(const float* values, uint32_t i, float (&to)[kValues][kWidth]) const {
    uint32_t plane = i;
    int pixel = by_pixels.split(plane), q = by_channels.split(plane);
    if constexpr (kWhere == PackChannels::kPlanes) {
#pragma unroll
      for (int v = 0; v < kValues; ++v) {
        const float value = values[v * channels + q];
#pragma unroll
        for (int e = 0; e < kWidth; ++e) to[v][e] = value;
      }
    } else if constexpr (kWhere == PackChannels::kConsecutive && kWidth % 4 == 0) {
#pragma unroll
      for (int v = 0; v < kValues; ++v)
#pragma unroll
        for (int first = 0; first < kWidth; first += 4) {
          const auto pack = load_pack<4>(values + v * channels + q + first);
#pragma unroll
          for (int e = 0; e < 4; ++e) to[v][first + e] = pack.at[e];
        }
    } else {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
#pragma unroll
        for (int v = 0; v < kValues; ++v) to[v][e] = values[v * channels + q];
        const bool plane_ends = ++pixel == pixels;
        pixel = plane_ends ? 0 : pixel;
        q += plane_ends;
        q = q == channels ? 0 : q;
      }
    }
  }
};

// Calls run.operator()<kSize, kWhere>() for the packs that these tensors allow.
template <class T, class Run, class... P>
void with_packs(const Channels& p, Run&& run, const P*... tensors) {
  if (!aligned16(tensors...))
    run.template operator()<1, PackChannels::kAny>();
  else if (p.layout == Layout::nchw && p.pixels() % kPack<T> == 0)
    run.template operator()<kPack<T>, PackChannels::kPlanes>();
  else if (p.layout == Layout::nhwc && p.c % kPack<T> == 0)
    run.template operator()<kPack<T>, PackChannels::kConsecutive>();
  else
    run.template operator()<kPack<T>, PackChannels::kAny>();
}

// y = max(x a + b + residual, floor). A map_grid(elements, kSize), no shared memory. residual may be null; y may be x
// or residual. scales: (2, c).
template <class T, int kSize, PackChannels kWhere>
__global__ void __launch_bounds__(kMapBlock) scale_kernel(const T* x, const T* residual, T* y, const float* scales,
                                                          uint32_t elements, ChannelOf channel, float floor) {
  for_my_pack<kSize>(elements, [&]<int kWidth>(int64_t i) {
    auto pack = load_pack<kWidth>(x + i);
    Pack<T, kWidth> more{};
    if (residual) more = load_pack<kWidth>(residual + i);
    float scale[2][kWidth];
    channel.load<kWhere>(scales, static_cast<uint32_t>(i), scale);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      float v = float(pack.at[e]) * scale[0][e] + scale[1][e];
      if (residual) v += float(more.at[e]);
      pack.at[e] = T(v < floor ? floor : v);  // not fmaxf, which gives floor for NaN
    }
    store_pack(y + i, pack);
  });
}
template <class T>
void launch_scale(const Channels& p, const T* x, const T* residual, T* y, const float* scales, cudaStream_t stream) {
  const float floor = p.relu() ? 0 : -INFINITY;
  const auto run = [&]<int kSize, PackChannels kWhere>() {
    launch(scale_kernel<T, kSize, kWhere>, map_grid(p.elements(), kSize, stream), x, residual, y, scales,
           static_cast<uint32_t>(p.elements()), ChannelOf(p), floor);
  };
  with_packs<T>(p, run, x, residual, y);
}

// How the elements of a channel are divided into parts.
struct Parts {
  Parts(const Channels& p, const GpuContext& gpu, int64_t pack) {
    const bool planes = p.layout == Layout::nchw;
    const int64_t size = p.c % pack == 0 ? pack : 1;  // of a thread's channels, nhwc
    const int64_t strips =
        std::max<int64_t>(1, planes ? p.c : ceil_div(p.c, Columns::lanes(static_cast<int>(size)) * size));
    const int64_t min_elements = planes ? kBlock * kBatch * 4 : kMinPixels;  // of a part, to be worth a block
    const int64_t max_elements =
        (planes ? kBlock : Columns::rows(1)) * 1024;  // of a part: additions of a thread, ops/summation.h
    count =
        std::max({int64_t{1}, std::min(ceil_div(4 * gpu.multiprocessors(), strips), ceil_div(p.count(), min_elements)),
                  ceil_div(p.count(), max_elements)});
    height = ceil_div(ceil_div(p.count(), count), pack) * pack;
  }
  int64_t count, height;
};
std::string unsupported_reason(const Channels& p) {
  if (p.elements() > kMaxElements) return "more than 2^31 - 1 elements";
  if (p.count() > int64_t{1} << 24) return "more than 2^24 elements in a channel";
  return p.c > INT32_MAX ? "more than 2^31 - 1 channels" : "";
}

Plan batchnorm_tuned(const BatchNorm& p, GpuContext& gpu) {
  using P = BatchNorm;
  if (const std::string why = unsupported_reason(p); !why.empty()) return Unsupported{why};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Parts parts(p, gpu, kPack<T>);
    WorkspaceLayout workspace;
    const auto moments_piece = workspace.add<float>(3 * parts.count * p.c);
    const auto scales_piece = workspace.add<float>(2 * p.c);
    return Plan([p, parts, moments_piece, scales_piece, stream = gpu.stream()](Args t) {
             float *const partial = t.workspace(moments_piece), *const scales = t.workspace(scales_piece);
             const T* x = t[P::x].as<const T>();
             const auto moments = [&]<int kSize>() {
               if (p.layout == Layout::nchw)
                 launch(plane_moments_kernel<T, kSize>,
                        Grid{.blocks = {p.c, parts.count}, .threads = kBlock, .stream = stream}, x, partial, p.count(),
                        parts.height, p.c, static_cast<uint32_t>(p.pixels()), Divider(p.pixels()));
               else
                 launch(pixel_moments_kernel<T, kSize>,
                        Grid{.blocks = {ceil_div(p.c, Columns::lanes(kSize) * kSize), parts.count},
                             .threads = {Columns::lanes(kSize), Columns::rows(kSize)},
                             .stream = stream},
                        x, partial, p.count(), parts.height, p.c);
             };
             const bool packs = (p.layout == Layout::nchw ? p.pixels() : p.c) % kPack<T> == 0 && aligned16(x);
             packs ? moments.template operator()<kPack<T>>() : moments.template operator()<1>();
             const StoreStatistics<T> store{.gamma = t[P::gamma].as<const T>(),
                                            .beta = t[P::beta].as<const T>(),
                                            .running_mean = t[P::running_mean].as<float>(),
                                            .running_var = t[P::running_var].as<float>(),
                                            .mean = t[P::mean].as<float>(),
                                            .rstd = t[P::rstd].as<float>(),
                                            .scales = scales,
                                            .c = p.c,
                                            .inv_count = 1 / static_cast<float>(std::max<int64_t>(1, p.count())),
                                            .unbiased = static_cast<float>(p.unbiased()),
                                            .eps = static_cast<float>(p.eps),
                                            .momentum = static_cast<float>(p.momentum)};
             launch(finish_moments_kernel<T>,
                    Grid{.blocks = ceil_div(p.c, kLanes), .threads = {kLanes, kFinishRows}, .stream = stream}, partial,
                    parts.count, p.c, store);
             launch_scale(p, x, p.residual ? t[P::added].as<const T>() : nullptr, t[P::y].as<T>(), scales, stream);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(batchnorm_tuned);

// a and b of y = x a + b from given statistics. A map_grid(c, 1), no shared memory. scales: (2, c).
template <class T>
__global__ void __launch_bounds__(kMapBlock)
    inference_scales_kernel(const T* gamma, const T* beta, const float* mean, const float* var, float* scales,
                            int64_t c, float eps) {
  const int64_t q = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (q >= c) return;
  const float a = float(gamma[q]) / sqrtf(var[q] + eps);
  scales[q] = a;
  scales[c + q] = float(beta[q]) - mean[q] * a;
}

Plan batchnorm_inference_tuned(const BatchNormInference& p, GpuContext& gpu) {
  using P = BatchNormInference;
  if (const std::string why = unsupported_reason(p); !why.empty()) return Unsupported{why};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto scales_piece = workspace.add<float>(2 * p.c);
    return Plan([p, scales_piece, stream = gpu.stream()](Args t) {
             float* const scales = t.workspace(scales_piece);
             launch(inference_scales_kernel<T>, map_grid(p.c, 1, stream), t[P::gamma].as<const T>(),
                    t[P::beta].as<const T>(), t[P::mean].as<const float>(), t[P::var].as<const float>(), scales, p.c,
                    static_cast<float>(p.eps));
             launch_scale(p, t[P::x].as<const T>(), p.residual ? t[P::added].as<const T>() : nullptr, t[P::y].as<T>(),
                          scales, stream);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(batchnorm_inference_tuned);

// --- backward -------------------------------------------------------------------------------------------------------

// nchw: the sums of g and g (x - mean) over at most `height` elements of a channel from part * height on, to parts
// (2, parts, c). Grid as for plane_moments_kernel; 32 bytes of shared memory. y is null without relu.
template <class T, int kSize>
__global__ void __launch_bounds__(kBlock)
    plane_sums_kernel(const T* x, const float* mean, const T* dy, const T* y, float* parts, int64_t count,
                      int64_t height, int64_t c, uint32_t pixels, Divider by_pixels) {
  DUET_SHARED(float, shared, [kBlock / 32]);
  const int64_t q = blockIdx.x, first = blockIdx.y * height, last = min(count, first + height);
  const float m = mean[q];

  // Sums of this thread's elements.
  float sum = 0, dot = 0;
#pragma unroll 4
  for (int64_t k = first + threadIdx.x * kSize; k < last; k += kBlock * kSize) {
    uint32_t image = static_cast<uint32_t>(k);
    const int pixel = by_pixels.split(image);
    const int64_t at = (int64_t{image} * c + q) * pixels + pixel;
    const auto pack_x = load_pack<kSize>(x + at), pack_dy = load_pack<kSize>(dy + at);
    auto gate = pack_dy;
    if (y) gate = load_pack<kSize>(y + at);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      const float g = !y || float(gate.at[e]) > 0 ? float(pack_dy.at[e]) : 0;
      sum += g;
      dot += g * (float(pack_x.at[e]) - m);
    }
  }

  // Sums of the block.
  sum = block_reduce<SumOp, kBlock>(sum, shared);
  dot = block_reduce<SumOp, kBlock>(dot, shared);
  if (threadIdx.x == 0) {
    parts[blockIdx.y * c + q] = sum;
    parts[(int64_t{gridDim.y} + blockIdx.y) * c + q] = dot;
  }
}

// nhwc: the same terms, as a Load of columns.cuh.
template <class T>
struct LoadGradients {
  static constexpr int kSums = 2;
  using Element = T;
  const T *x, *dy, *y;
  const float* mean;
  int64_t c;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t pixel, int64_t q, float (&terms)[2][kSize]) const {
    const int64_t at = pixel * c + q;
    const auto pack_x = load_pack<kSize>(x + at), pack_dy = load_pack<kSize>(dy + at);
    auto gate = pack_dy;
    if (y) gate = load_pack<kSize>(y + at);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      terms[0][e] = !y || float(gate.at[e]) > 0 ? float(pack_dy.at[e]) : 0;
      terms[1][e] = terms[0][e] * (float(pack_x.at[e]) - mean[q + e]);
    }
  }
  bool aligned() const { return aligned16(x, dy, y); }
};

// Writes everything that depends on a channel's sums, as a Store of columns.cuh. factors: (3, c), k, l and m of
// dx = g k + x l + m.
template <class T>
struct StoreGradients {
  const T* gamma;
  const float *mean, *rstd;
  T *dgamma, *dbeta;
  float* factors;
  int64_t c;
  float inv_count;
  __device__ __forceinline__ void operator()(int64_t, int64_t q, const float (&sums)[2]) const {
    const float sum = sums[0], dot = sums[1];
    const float scale = rstd[q], k = float(gamma[q]) * scale, l = -k * scale * (scale * dot) * inv_count;
    dgamma[q] = T(dot * scale);
    dbeta[q] = T(sum);
    factors[q] = k;
    factors[c + q] = l;
    factors[2 * c + q] = -k * sum * inv_count - l * mean[q];
  }
};

// dx = g k + x l + m, dresidual = g. A map_grid(elements, kSize), no shared memory. y is null without relu, dresidual
// without residual. dx and dresidual may be x, dy or y. factors: (3, c).
template <class T, int kSize, PackChannels kWhere>
__global__ void __launch_bounds__(kMapBlock)
    images_backward_kernel(const T* x, const T* dy, const T* y, const float* factors, T* dx, T* dresidual,
                           uint32_t elements, ChannelOf channel) {
  for_my_pack<kSize>(elements, [&]<int kWidth>(int64_t i) {
    auto pack_x = load_pack<kWidth>(x + i), pack_dy = load_pack<kWidth>(dy + i);
    auto gate = pack_dy;
    if (y) gate = load_pack<kWidth>(y + i);
    float factor[3][kWidth];
    channel.load<kWhere>(factors, static_cast<uint32_t>(i), factor);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (y && !(float(gate.at[e]) > 0)) pack_dy.at[e] = T(0.0f);
      pack_x.at[e] = T(float(pack_dy.at[e]) * factor[0][e] + (float(pack_x.at[e]) * factor[1][e] + factor[2][e]));
    }
    store_pack(dx + i, pack_x);
    if (dresidual) store_pack(dresidual + i, pack_dy);
  });
}

Plan batchnorm_backward_tuned(const BatchNormBackward& p, GpuContext& gpu) {
  using P = BatchNormBackward;
  if (const std::string why = unsupported_reason(p); !why.empty()) return Unsupported{why};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const bool planes = p.layout == Layout::nchw;
    const Parts parts(p, gpu, kPack<T>);
    WorkspaceLayout workspace;
    const ColumnSums<T, 2> columns(planes ? 0 : p.count(), planes ? 0 : p.c, gpu, workspace);
    const auto sums_piece = workspace.add<float>(planes ? 2 * parts.count * p.c : 0);
    const auto factors_piece = workspace.add<float>(3 * p.c);
    return Plan([p, planes, parts, columns, sums_piece, factors_piece, stream = gpu.stream()](Args t) {
             float *const partial = t.workspace(sums_piece), *const factors = t.workspace(factors_piece);
             const T *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
             const T* y = p.relu() ? t[P::y].as<const T>() : nullptr;
             T *dx = t[P::dx].as<T>(), *dresidual = p.residual ? t[P::dadded].as<T>() : nullptr;
             const float* mean = t[P::mean].as<const float>();
             const StoreGradients<T> store{.gamma = t[P::gamma].as<const T>(),
                                           .mean = mean,
                                           .rstd = t[P::rstd].as<const float>(),
                                           .dgamma = t[P::dgamma].as<T>(),
                                           .dbeta = t[P::dbeta].as<T>(),
                                           .factors = factors,
                                           .c = p.c,
                                           .inv_count = 1 / static_cast<float>(std::max<int64_t>(1, p.count()))};
             const auto plane_sums = [&]<int kSize>() {
               launch(plane_sums_kernel<T, kSize>,
                      Grid{.blocks = {p.c, parts.count}, .threads = kBlock, .stream = stream}, x, mean, dy, y, partial,
                      p.count(), parts.height, p.c, static_cast<uint32_t>(p.pixels()), Divider(p.pixels()));
             };
             if (planes) {
               const bool packs = p.pixels() % kPack<T> == 0 && aligned16(x, dy, y);
               packs ? plane_sums.template operator()<kPack<T>>() : plane_sums.template operator()<1>();
               launch_add_parts<2>(stream, partial, parts.count, p.c, store);
             } else {
               columns.enqueue(t, LoadGradients<T>{x, dy, y, mean, p.c}, store);
             }
             const auto images = [&]<int kSize, PackChannels kWhere>() {
               launch(images_backward_kernel<T, kSize, kWhere>, map_grid(p.elements(), kSize, stream), x, dy, y,
                      factors, dx, dresidual, static_cast<uint32_t>(p.elements()), ChannelOf(p));
             };
             with_packs<T>(p, images, x, dy, y, dx, dresidual);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(batchnorm_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
