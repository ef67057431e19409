// SPDX-License-Identifier: Apache-2.0
// conv2d, conv2d_bias and the gradients by Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, arXiv:1509.09308):
// 3x3 filters with stride 1, in nchw. dx is a convolution of dy with the filters turned round (convolution_of_dy). A
// tile of 2x2 results needs 4x4 pixels; filters and pixels are transformed to 16 values each, whose products, summed
// over channels, are transformed back: 16 products for 4 results instead of 36. One launch transforms the filters; then
// come three for each block of images (cuDNN's non-fused form), which pass 16 (c + k) floats a tile through memory:
//   U[e] (k, c): filters, V[e] (c, tiles): pixels, M[e] (k, tiles) = U[e] V[e] by the tuned product, for e < 16.
// All of them are in f32. The contract's bound allows for the errors of transforms (kTransformed of ops/summation.h).
//
// dw is the gradient of that with respect to the filters: each step is linear, and its transpose takes the gradient
// back, W = A dy A', S[e] (k, c) = W[e] V[e]', dw = G' S G, which is F(3x3, 2x2). The sums run over the tiles of all
// images, and there are few of them: the tiles are divided into parts with sums of their own, so that there are enough
// blocks for the whole GPU, and the last launch adds the parts in order. A round of three launches takes as many tiles
// of each part as the workspace holds.
#include <algorithm>
#include <optional>
#include <string>

#include "kernels/conv/blocks.h"
#include "kernels/divider.cuh"
#include "kernels/gemm/product.h"
#include "kernels/vector.cuh"
#include "ops/conv/conv2d_backward.h"
#include "ops/conv/conv2d_bias.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kPoints = 16;    // values of a transformed tile
constexpr int64_t kUnit = 32;  // tiles: rows of V, W and M are whole packs

// Tiles are counted image by image, row by row. A round of launches has one part of them or several: `size` of each,
// from `first` on. Those from `end` on do not exist: their pixels and gradients are 0.
struct Round {
  uint32_t first, end, size;
};
struct WinogradTiles {
  int h, w, ho, wo, pad_h, pad_w;
  Divider by_size, by_across, by_down;  // by_size: of a round
};
struct Tile {
  int plane, image, row, column;  // plane: the channel; row and column: of the tile's first result
  bool exists;
};
// The tile of element `at` of this part's (planes, size) matrix.
__device__ __forceinline__ Tile tile_of(const WinogradTiles& tiles, const Round& round, int64_t at) {
  auto plane = static_cast<uint32_t>(at);
  auto image = static_cast<uint32_t>(tiles.by_size.split(plane)) + round.first + blockIdx.y * round.size;
  const bool exists = image < round.end;
  const int column = tiles.by_across.split(image), row = tiles.by_down.split(image);
  return {static_cast<int>(plane), static_cast<int>(image), 2 * row, 2 * column, exists};
}

// The transforms of one line: of a filter's, by (1 0 0), (1 1 1) / 2, (1 -1 1) / 2, (0 0 1); of four pixels', by
// (1 0 -1 0), (0 1 1 0), (0 -1 1 0), (0 1 0 -1); of four products', by (1 1 1 0), (0 1 -1 -1). Those of gradients, of
// two results' and of four filters', are their transposes.
__device__ __forceinline__ void transform_filter(const float (&g)[3], float (&to)[4]) {
  const float sides = 0.5f * (g[0] + g[2]), middle = 0.5f * g[1];
  to[0] = g[0];
  to[1] = sides + middle;
  to[2] = sides - middle;
  to[3] = g[2];
}
__device__ __forceinline__ void transform_pixels(const float (&d)[4], float (&to)[4]) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}
__device__ __forceinline__ void transform_products(const float (&m)[4], float (&to)[2]) {
  to[0] = m[0] + m[1] + m[2];
  to[1] = m[1] - m[2] - m[3];
}
__device__ __forceinline__ void transform_gradients(const float (&g)[2], float (&to)[4]) {
  to[0] = g[0];
  to[1] = g[0] + g[1];
  to[2] = g[0] - g[1];
  to[3] = -g[1];
}
__device__ __forceinline__ void transform_sums(const float (&s)[4], float (&to)[3]) {
  const float half_sum = 0.5f * (s[1] + s[2]);
  to[0] = s[0] + half_sum;
  to[1] = 0.5f * (s[1] - s[2]);
  to[2] = half_sum + s[3];
}

// A map_grid(filters, 1), no shared memory: a thread transforms one filter. filter: (k, c, 3, 3), or for a gradient
// (c, k, 3, 3), turned round; u: (16, k, c); filters: k c.
template <class T, bool kGradient>
__global__ void __launch_bounds__(kMapBlock)
    filters_kernel(const T* filter, float* u, int64_t filters, int64_t k, Divider by_c) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= filters) return;
  auto of_k = static_cast<uint32_t>(at);
  const int of_c = kGradient ? by_c.split(of_k) : 0;
  const T* const g = filter + (kGradient ? of_c * k + of_k : at) * 9;
  float down[3][4];  // by column
#pragma unroll
  for (int s = 0; s < 3; ++s) {
    const float column[3] = {float(g[kGradient ? 8 - s : s]), float(g[kGradient ? 5 - s : 3 + s]),
                             float(g[kGradient ? 2 - s : 6 + s])};
    transform_filter(column, down[s]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float row[3] = {down[0][i], down[1][i], down[2][i]};
    float out[4];
    transform_filter(row, out);
#pragma unroll
    for (int j = 0; j < 4; ++j) u[(4 * i + j) * filters + at] = out[j];
  }
}

// A map_grid(elements, 1) for each part (grid y), no shared memory: a thread transforms the pixels of one tile of one
// channel. Neighbouring threads have neighbouring tiles. x: (images, c, h, w), v: (parts, 16, c, size); elements: c
// size.
template <class T>
__global__ void __launch_bounds__(kMapBlock)
    pixels_kernel(const T* x, float* v, WinogradTiles tiles, Round round, int c, int64_t elements) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= elements) return;
  v += blockIdx.y * kPoints * elements + at;
  const Tile tile = tile_of(tiles, round, at);
  const T* const plane = x + (int64_t{tile.image} * c + tile.plane) * tiles.h * tiles.w;
  const int row = tile.row - tiles.pad_h, column = tile.column - tiles.pad_w;
  float across[4][4];  // by row
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool inside = tile.exists && row + i >= 0 && row + i < tiles.h;
    float pixels[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      pixels[j] = inside && column + j >= 0 && column + j < tiles.w
                      ? float(plane[int64_t{row + i} * tiles.w + column + j])
                      : 0.0f;
    transform_pixels(pixels, across[i]);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float down[4] = {across[0][j], across[1][j], across[2][j], across[3][j]};
    float out[4];
    transform_pixels(down, out);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[(4 * i + j) * elements] = out[i];
  }
}

// A map_grid(elements, 1), no shared memory: a thread writes the results of one tile of one output channel. m: (16, k,
// size), bias: (k) or null, y: (images, k, ho, wo); elements: k size. pairs: wo is even and y aligned to pairs of
// elements.
template <class T>
__global__ void __launch_bounds__(kMapBlock)
    results_kernel(const float* m, const T* bias, bool relu, T* y, WinogradTiles tiles, Round round, int k,
                   int64_t elements, bool pairs) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= elements) return;
  const Tile tile = tile_of(tiles, round, at);
  if (!tile.exists) return;
  float across[4][2];  // by row
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float products[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) products[j] = m[(4 * i + j) * elements + at];
    transform_products(products, across[i]);
  }
  float out[2][2];  // by column
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float down[4] = {across[0][j], across[1][j], across[2][j], across[3][j]};
    transform_products(down, out[j]);
  }
  const float shift = bias ? float(bias[tile.plane]) : 0.0f;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    out[e / 2][e % 2] += shift;
    if (relu) out[e / 2][e % 2] = fmaxf(out[e / 2][e % 2], 0.0f);
  }
  T* const to = y + ((int64_t{tile.image} * k + tile.plane) * tiles.ho + tile.row) * tiles.wo + tile.column;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (tile.row + i >= tiles.ho) continue;
    if (pairs) {
      store_pack(to + int64_t{i} * tiles.wo, Pack<T, 2>{{T(out[0][i]), T(out[1][i])}});
      continue;
    }
#pragma unroll
    for (int j = 0; j < 2; ++j)
      if (tile.column + j < tiles.wo) to[int64_t{i} * tiles.wo + j] = T(out[j][i]);
  }
}

// The grid of pixels_kernel: a thread transforms the values of one tile of one channel of dy. dy: (n, k, ho, wo), w:
// (parts, 16, k, size); elements: k size.
template <class T>
__global__ void __launch_bounds__(kMapBlock)
    gradients_kernel(const T* dy, float* w, WinogradTiles tiles, Round round, int k, int64_t elements) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= elements) return;
  w += blockIdx.y * kPoints * elements + at;
  const Tile tile = tile_of(tiles, round, at);
  const T* const plane = dy + (int64_t{tile.image} * k + tile.plane) * tiles.ho * tiles.wo;
  float across[2][4];  // by row
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float values[2];
#pragma unroll
    for (int j = 0; j < 2; ++j)
      values[j] = tile.exists && tile.row + i < tiles.ho && tile.column + j < tiles.wo
                      ? float(plane[int64_t{tile.row + i} * tiles.wo + tile.column + j])
                      : 0.0f;
    transform_gradients(values, across[i]);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float down[2] = {across[0][j], across[1][j]};
    float out[4];
    transform_gradients(down, out);
#pragma unroll
    for (int i = 0; i < 4; ++i) w[(4 * i + j) * elements] = out[i];
  }
}

// A map_grid(filters, 1), no shared memory: a thread adds the parts of one filter's gradient and transforms it back.
// sums: (parts, 16, k, c), dw: (k, c, 3, 3); filters: k c.
template <class T>
__global__ void __launch_bounds__(kMapBlock)
    filter_gradients_kernel(const float* sums, T* dw, int64_t filters, int parts) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= filters) return;
  float total[4][4] = {};
  sums += at;
  for (int part = 0; part < parts; ++part, sums += kPoints * filters)
#pragma unroll
    for (int e = 0; e < kPoints; ++e) total[e / 4][e % 4] += sums[e * filters];
  float across[4][3];  // by row
#pragma unroll
  for (int i = 0; i < 4; ++i) transform_sums(total[i], across[i]);
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const float down[4] = {across[0][j], across[1][j], across[2][j], across[3][j]};
    float out[3];
    transform_sums(down, out);
#pragma unroll
    for (int i = 0; i < 3; ++i) dw[at * 9 + 3 * i + j] = T(out[i]);
  }
}

const char* unsupported_reason(const Conv2d& p) {  // null: none
  if (p.math == Math::tf32) return "math tf32";
  if (p.layout == Layout::nhwc) return "layout nhwc";
  if (p.r != 3 || p.s != 3 || p.stride_h != 1 || p.stride_w != 1 || p.dil_h != 1 || p.dil_w != 1)
    return "other than 3x3 filters with stride 1 and dilation 1";
  if (p.groups != 1) return "groups";
  for (const int64_t reach : {p.h + 2 * p.pad_h, p.w + 2 * p.pad_w})
    if (reach > INT32_MAX - 4) return "an extent of x with its padding over 2^31 - 5";
  if (static_cast<double>(std::max(p.c, p.k)) * p.ho() * p.wo() > INT32_MAX)
    return "more than 2^31 - 1 results or tiles of an image";
  return p.c * p.k > INT32_MAX ? "more than 2^31 - 1 filters" : nullptr;
}

// The tiles of p, in rounds of `size`.
WinogradTiles tiles_of(const Conv2d& p, int64_t size) {
  const auto narrow = [](int64_t v) { return static_cast<int>(v); };
  return {narrow(p.h),
          narrow(p.w),
          narrow(p.ho()),
          narrow(p.wo()),
          narrow(p.pad_h),
          narrow(p.pad_w),
          Divider(size),
          Divider(ceil_div(p.wo(), 2)),
          Divider(ceil_div(p.ho(), 2))};
}

// x and filter are slots, as those of layer; p has the extents of the tensors in them.
template <bool kGradient>
Plan winograd(const Conv2d& p, Slot x, Slot filter, const Conv2dLayer& layer, GpuContext& gpu) {
  if (const char* reason = unsupported_reason(p)) return Unsupported{reason};
  if (!p.has_winograd_bound()) return Unsupported{Conv2d::kFewTerms};
  const int64_t of_image = ceil_div(p.wo(), 2) * ceil_div(p.ho(), 2);
  const int64_t image_bytes = kPoints * (p.c + p.k) * of_image * int64_t{sizeof(float)};
  // Of a block, so that V and M stay in the cache, unless those of one image do not.
  const int64_t images =
      std::clamp<int64_t>(block_bytes(gpu) / std::max<int64_t>(1, image_bytes), 1, std::max<int64_t>(1, p.n));
  const int64_t size = ceil_div(images * of_image, kUnit) * kUnit;
  if (std::max(p.c, p.k) * static_cast<double>(size) > INT32_MAX)
    return Unsupported{"more than 2^31 - 1 results or tiles of an image"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto filters = workspace.add<float>(kPoints * p.k * p.c), pixels = workspace.add<float>(kPoints * p.c * size),
               products = workspace.add<float>(kPoints * p.k * size);
    auto run = [=, &gpu](Args t) {
      if (of_image == 0) return;
      const auto narrow = [](int64_t v) { return static_cast<int>(v); };
      float *const u = t.workspace(filters), *const v = t.workspace(pixels), *const m = t.workspace(products);
      T* const results = t[layer.y].as<T>();
      const bool pairs = p.wo() % 2 == 0 && reinterpret_cast<uintptr_t>(results) % (2 * sizeof(T)) == 0;
      const T* const bias = layer.bias ? t[*layer.bias].as<const T>() : nullptr;
      const cudaStream_t stream = gpu.stream();
      launch(filters_kernel<T, kGradient>, map_grid(p.k * p.c, 1, stream), t[filter].as<const T>(), u, p.k * p.c, p.k,
             Divider(p.c));
      for (int64_t image = 0; image < p.n; image += images) {
        const int64_t count = std::min(images, p.n - image) * of_image, columns = ceil_div(count, kUnit) * kUnit;
        const WinogradTiles tiles = tiles_of(p, columns);
        const Round round{0, static_cast<uint32_t>(count), static_cast<uint32_t>(columns)};
        launch(pixels_kernel<T>, map_grid(p.c * columns, 1, stream), t[x].as<const T>() + image * p.c * p.h * p.w, v,
               tiles, round, narrow(p.c), p.c * columns);
        enqueue_product<float>({.batch = kPoints, .m = p.k, .n = columns, .k = p.c}, u, v, nullptr, m, gpu);
        launch(results_kernel<T>, map_grid(p.k * columns, 1, stream), m, bias, layer.relu,
               results + image * p.k * p.ho() * p.wo(), tiles, round, narrow(p.k), p.k * columns, pairs);
      }
    };
    return Plan(std::move(run))
        .with("F(2x2, 3x3), blocks of " + std::to_string(images) + " images", std::move(workspace));
  });
}
Plan conv2d_winograd(const Conv2d& p, GpuContext& gpu) {
  return winograd<false>(p, Conv2d::x, Conv2d::filter, kPlainConv2d, gpu);
}
Plan conv2d_bias_winograd(const Conv2dBias& p, GpuContext& gpu) {
  return winograd<false>(p.conv, Conv2dBias::x, Conv2dBias::filter, p.layer(), gpu);
}
Plan conv2d_backward_data_winograd(const Conv2dBackwardData& p, GpuContext& gpu) {
  using P = Conv2dBackwardData;
  const std::optional<Conv2d> conv = convolution_of_dy(p);
  if (!conv) return Unsupported{kNoConvolutionOfDy};
  return winograd<true>(*conv, P::dy, P::filter, {.y = P::dx}, gpu);
}
Plan conv2d_backward_filter_winograd(const Conv2dBackwardFilter& problem, GpuContext& gpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  if (const char* reason = unsupported_reason(p)) return Unsupported{reason};
  if (has_few_terms(p)) return Unsupported{kFewTerms};
  constexpr int64_t kMinTiles = 256;  // of a part
  const int64_t filters = p.k * p.c, all = p.n * ceil_div(p.wo(), 2) * ceil_div(p.ho(), 2);
  // Tiles of a round; then parts, for two blocks of 64 x 64 sums on every multiprocessor.
  const int64_t tile_bytes = kPoints * (p.c + p.k) * int64_t{sizeof(float)};
  const int64_t in_round = std::min(all, std::max(kUnit, block_bytes(gpu) / std::max<int64_t>(1, tile_bytes)));
  const int64_t blocks = std::max<int64_t>(1, kPoints * ceil_div(p.k, 64) * ceil_div(p.c, 64));
  const int64_t wanted =
      std::clamp<int64_t>(ceil_div(2 * gpu.multiprocessors(), blocks), 1, std::max<int64_t>(1, in_round / kMinTiles));
  const int64_t size = std::max<int64_t>(1, ceil_div(ceil_div(in_round, wanted), kUnit)) * kUnit;
  const int64_t parts = ceil_div(in_round, size);  // 0 where the sums have no terms
  if (all + parts * size > INT32_MAX) return Unsupported{"more than 2^31 - 1 tiles"};
  if (std::max(p.c, p.k) * size > INT32_MAX) return Unsupported{"more than 2^31 - 1 tiles of a part"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const auto pixels = workspace.add<float>(parts * kPoints * p.c * size),
               gradients = workspace.add<float>(parts * kPoints * p.k * size),
               products = workspace.add<float>(parts * kPoints * filters);
    auto run = [=, &gpu](Args t) {
      const auto narrow = [](int64_t v) { return static_cast<int>(v); };
      float *const v = t.workspace(pixels), *const w = t.workspace(gradients), *const sums = t.workspace(products);
      const cudaStream_t stream = gpu.stream();
      const WinogradTiles tiles = tiles_of(p, size);
      for (int64_t first = 0; first < all; first += parts * size) {
        const int64_t count = std::min(parts, ceil_div(all - first, size));
        const Round round{static_cast<uint32_t>(first), static_cast<uint32_t>(all), static_cast<uint32_t>(size)};
        const auto grid = [&](int64_t elements) {
          return Grid{.blocks = {ceil_div(elements, kMapBlock), count}, .threads = kMapBlock, .stream = stream};
        };
        launch(pixels_kernel<T>, grid(p.c * size), t[P::x].as<const T>(), v, tiles, round, narrow(p.c), p.c * size);
        launch(gradients_kernel<T>, grid(p.k * size), t[P::dy].as<const T>(), w, tiles, round, narrow(p.k), p.k * size);
        enqueue_product<float>(
            {.batch = count * kPoints, .m = p.k, .n = p.c, .k = size, .trans_b = true, .accumulate = first > 0}, w, v,
            nullptr, sums, gpu);
      }
      launch(filter_gradients_kernel<T>, map_grid(filters, 1, stream), sums, t[P::dw].as<T>(), filters, narrow(parts));
    };
    return Plan(std::move(run))
        .with("F(3x3, 2x2), " + std::to_string(parts) + " parts of " + std::to_string(size) + " tiles",
              std::move(workspace));
  });
}
DUET_REGISTER(conv2d_winograd);
DUET_REGISTER(conv2d_bias_winograd);
DUET_REGISTER(conv2d_backward_data_winograd);
DUET_REGISTER(conv2d_backward_filter_winograd);
}  // namespace
}  // namespace duet::DUET_DEVICE
