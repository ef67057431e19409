// SPDX-License-Identifier: Apache-2.0
// The gradients of conv2d as two steps in memory (Caffe's convolution):
//   dx, image by image: the product columns (c r s, pixels) = w' (c r s, k) dy (k, pixels), then col2im, in which a
//     thread adds the columns of one element of dx;
//   dw, for a block of images: im2col of x, then a product for each image, dw (k, c r s) = dy (k, pixels) columns'
//     (pixels, c r s), whose sums run over blocks; at the end the images of a block are added in order (columns.cuh).
// They show what that matrix costs: conv2d_backward_*_tuned.cu are the same products without it, but that there the
// sums of dw are divided where they fill too few blocks. bf16 and f16 are converted to f32 first, because columns, and
// sums of some images, must not be rounded. The image itself is the matrix of a filter of one tap without stride or
// padding; its dx is a product in the type of the tensors.
#include <algorithm>
#include <string>

#include "kernels/conv/blocks.h"
#include "kernels/conv/im2col.h"
#include "kernels/divider.cuh"
#include "kernels/gemm/product.h"
#include "kernels/reduction/columns.cuh"
#include "ops/conv/conv2d_backward.h"

namespace duet::DUET_DEVICE {
namespace {
struct ToF32 {
  template <class T>
  __device__ __forceinline__ float operator()(T v) const {
    return float(v);
  }
};
// x itself, or a copy in f32.
template <class T>
const float* as_f32(cudaStream_t stream, int64_t n, const T* x, float* copy) {
  if constexpr (sizeof(T) == 4) {
    return x;
  } else {
    launch_map(stream, ToF32{}, n, copy, x);
    return copy;
  }
}

struct Col2imTaps {
  int r, s, ho, wo, pad_h, pad_w, dil_h, dil_w;
  Divider by_h, by_w, by_stride_h, by_stride_w;
};

// A map_grid(elements, 1), no shared memory: a thread adds what the taps read of one element of x, in the order of the
// filter. Neighbouring threads read neighbouring columns. col: (c r s, ho wo), x: (c, h, w), of one image.
template <class T>
__global__ void __launch_bounds__(kMapBlock) col2im_kernel(const float* col, T* x, Col2imTaps taps, int64_t elements) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= elements) return;
  auto plane = static_cast<uint32_t>(at);
  const int column = taps.by_w.split(plane), row = taps.by_h.split(plane), pixels = taps.ho * taps.wo;
  const float* of_tap = col + static_cast<int>(plane) * taps.r * taps.s * pixels;
  float sum = 0;
  for (int u = 0; u < taps.r; ++u, of_tap += taps.s * pixels) {
    const int down = row + taps.pad_h - u * taps.dil_h;
    if (down < 0) break;
    auto i = static_cast<uint32_t>(down);
    if (taps.by_stride_h.split(i) != 0 || static_cast<int>(i) >= taps.ho) continue;
    for (int v = 0; v < taps.s; ++v) {
      const int across = column + taps.pad_w - v * taps.dil_w;
      if (across < 0) break;
      auto j = static_cast<uint32_t>(across);
      if (taps.by_stride_w.split(j) != 0 || static_cast<int>(j) >= taps.wo) continue;
      sum += of_tap[v * pixels + static_cast<int>(i) * taps.wo + static_cast<int>(j)];
    }
  }
  x[at] = T(sum);
}

template <class T>
void enqueue_col2im(const Im2col& p, const float* col, T* x, cudaStream_t stream) {
  const auto narrow = [](int64_t v) { return static_cast<int>(v); };
  const bool fits = p.ho() * p.wo() > 0;  // else no tap reads x, and taps may lie anywhere
  const Col2imTaps taps{fits ? narrow(p.r) : 0, fits ? narrow(p.s) : 0, narrow(p.ho()),      narrow(p.wo()),
                        narrow(p.pad_h),        narrow(p.pad_w),        narrow(p.dil_h),     narrow(p.dil_w),
                        Divider(p.h),           Divider(p.w),           Divider(p.stride_h), Divider(p.stride_w)};
  const int64_t elements = p.c * p.h * p.w;
  launch(col2im_kernel<T>, map_grid(elements, 1, stream), col, x, taps, elements);
}

std::string unsupported_reason(const Conv2d& p, const Im2col& taps) {  // empty: none
  if (p.math == Math::tf32) return "math tf32";
  if (p.layout == Layout::nhwc) return "layout nhwc: im2col is of nchw";
  if (p.c * p.h * p.w > INT32_MAX) return "an image of more than 2^31 - 1 elements";
  return im2col_unsupported_reason(taps);
}

Plan conv2d_backward_data_im2col(const Conv2dBackwardData& problem, GpuContext& gpu) {
  using P = Conv2dBackwardData;
  const Conv2d& p = problem.conv;
  const Im2col taps = im2col_of_image(p);
  if (std::string why = unsupported_reason(p, taps); !why.empty()) return Unsupported{std::move(why)};
  const int64_t pixels = p.ho() * p.wo(), terms = p.group_c() * p.r * p.s;
  const bool itself = is_its_own_im2col(p);
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Product product{.batch = p.groups, .m = terms, .n = pixels, .k = p.group_k(), .trans_a = true};
    const bool converts = sizeof(T) == 2 && !itself;
    WorkspaceLayout workspace;
    const auto matrix = workspace.add<float>(itself ? 0 : taps.rows() * pixels);
    const auto filter_copy = workspace.add<float>(converts ? p.k * terms : 0);
    const auto dy_copy = workspace.add<float>(converts ? p.k * pixels : 0);
    auto run = [=, &gpu](Args t) {
      const T *filter = t[P::filter].as<const T>(), *dy = t[P::dy].as<const T>();
      T* const dx = t[P::dx].as<T>();
      const cudaStream_t stream = gpu.stream();
      if (itself) {
        for (int64_t image = 0; image < p.n; ++image)
          enqueue_product<T>(product, filter, dy + image * p.k * pixels, nullptr, dx + image * p.c * pixels, gpu);
        return;
      }
      float* const col = t.workspace(matrix);
      const float* const weights = as_f32(stream, p.k * terms, filter, t.workspace(filter_copy));
      for (int64_t image = 0; image < p.n; ++image) {
        const float* const gradient = as_f32(stream, p.k * pixels, dy + image * p.k * pixels, t.workspace(dy_copy));
        enqueue_product<float>(product, weights, gradient, nullptr, col, gpu);
        enqueue_col2im(taps, col, dx + image * p.c * p.h * p.w, stream);
      }
    };
    return Plan(std::move(run)).with(itself ? "product" : "product, then col2im, image by image", std::move(workspace));
  });
}
DUET_REGISTER(conv2d_backward_data_im2col);

Plan conv2d_backward_filter_im2col(const Conv2dBackwardFilter& problem, GpuContext& gpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  Im2col taps = im2col_of_image(p);
  if (std::string why = unsupported_reason(p, taps); !why.empty()) return Unsupported{std::move(why)};
  const int64_t pixels = p.ho() * p.wo(), terms = p.group_c() * p.r * p.s, elements = p.k * terms;
  const bool itself = is_its_own_im2col(p);
  return for_float(p.dtype, [&]<class T>() -> Plan {
    constexpr bool kConverts = sizeof(T) == 2;
    const int64_t of_col = itself ? 0 : taps.rows() * pixels, of_x = kConverts ? p.c * p.h * p.w : 0;
    const int64_t of_dy = kConverts ? p.k * pixels : 0;
    const int64_t image_bytes = (of_col + of_x + of_dy + elements) * int64_t{sizeof(float)};
    // Images of a block, each with sums of its own; 0 where the sums have no terms.
    const int64_t max_images = pixels == 0 ? 0 : p.n;
    const int64_t images =
        std::min(max_images, std::max<int64_t>(1, block_bytes(gpu) / std::max<int64_t>(1, image_bytes)));
    const bool direct = images == 1 && !kConverts;
    WorkspaceLayout workspace;
    const auto matrix = workspace.add<float>(images * of_col);
    const auto x_copy = workspace.add<float>(images * of_x), dy_copy = workspace.add<float>(images * of_dy);
    const auto image_sums = workspace.add<float>(direct ? 0 : images * elements);
    auto run = [=, &gpu](Args t) {
      const cudaStream_t stream = gpu.stream();
      T* const dw = t[P::dw].as<T>();
      float* sums = t.workspace(image_sums);
      if constexpr (!kConverts)
        if (direct) sums = dw;
      for (int64_t first = 0; images > 0 && first < p.n; first += images) {
        const int64_t count = std::min(images, p.n - first);
        const float* const gradient =
            as_f32(stream, count * p.k * pixels, t[P::dy].as<const T>() + first * p.k * pixels, t.workspace(dy_copy));
        const float* columns = as_f32(stream, count * p.c * p.h * p.w, t[P::x].as<const T>() + first * p.c * p.h * p.w,
                                      t.workspace(x_copy));
        if (!itself) {
          Im2col of_block = taps;
          of_block.n = count;
          of_block.dtype = DType::f32;
          enqueue_im2col(of_block, columns, t.workspace(matrix), stream);
          columns = t.workspace(matrix);
        }
        enqueue_product<float>({.batch = count * p.groups,
                                .m = p.group_k(),
                                .n = terms,
                                .k = pixels,
                                .trans_b = true,
                                .accumulate = first > 0},
                               gradient, columns, nullptr, sums, gpu);
      }
      if (!direct) launch_add_parts<1>(stream, sums, images, elements, StoreSum<T>{dw});
    };
    return Plan(std::move(run))
        .with((itself ? "product" : "im2col, then product") + (", blocks of " + std::to_string(images)) + " images",
              std::move(workspace));
  });
}
DUET_REGISTER(conv2d_backward_filter_im2col);
}  // namespace
}  // namespace duet::DUET_DEVICE
