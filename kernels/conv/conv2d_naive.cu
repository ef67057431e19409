// SPDX-License-Identifier: Apache-2.0
// conv2d and conv2d_bias, one thread per element of y: the formula as written. Neighbouring threads have neighbours in
// the memory of y.
#include "simt/launch.h"
#include "ops/conv/conv2d_bias.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

struct Extents {
  int64_t c, h, w, k, ho, wo;
  int r, s, pad_h, pad_w, stride_h, stride_w, dil_h, dil_w, group_c, group_k;
  bool channels_last;
};

// ceil(elements / kThreads) blocks of kThreads, no shared memory. Tensors have the contract's layout; bias may be null.
template <class T>
__global__ void conv2d_kernel(const T* x, const T* filter, const T* bias, T* y, int64_t elements, Extents p,
                              bool relu) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= elements) return;
  int64_t n, k, i, j;
  if (p.channels_last) {
    k = index % p.k;
    j = index / p.k % p.wo;
    i = index / p.k / p.wo % p.ho;
    n = index / p.k / p.wo / p.ho;
  } else {
    j = index % p.wo;
    i = index / p.wo % p.ho;
    k = index / p.wo / p.ho % p.k;
    n = index / p.wo / p.ho / p.k;
  }
  const int64_t first_c = k / p.group_k * p.group_c;

  float sum = 0;
  for (int64_t c = 0; c < p.group_c; ++c)
    for (int64_t r = 0; r < p.r; ++r)
      for (int64_t s = 0; s < p.s; ++s) {
        const int64_t row = i * p.stride_h - p.pad_h + r * p.dil_h, col = j * p.stride_w - p.pad_w + s * p.dil_w;
        if (row < 0 || row >= p.h || col < 0 || col >= p.w) continue;
        const int64_t at_x = p.channels_last ? ((n * p.h + row) * p.w + col) * p.c + first_c + c
                                             : ((n * p.c + first_c + c) * p.h + row) * p.w + col;
        const int64_t at_w =
            p.channels_last ? ((k * p.r + r) * p.s + s) * p.group_c + c : ((k * p.group_c + c) * p.r + r) * p.s + s;
        sum += float(x[at_x]) * float(filter[at_w]);
      }
  if (bias) sum += float(bias[k]);
  y[index] = T(relu ? fmaxf(sum, 0) : sum);
}

Plan plan(const Conv2d& p, const Conv2dLayer& layer, GpuContext& gpu) {
  if (p.math == Math::tf32) return Unsupported{"math tf32: the naive product is IEEE f32"};
  if (p.c > INT32_MAX || p.k > INT32_MAX) return Unsupported{"channels over 2^31 - 1"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const auto narrow = [](int64_t v) { return static_cast<int>(v); };
    const Extents e{p.c,
                    p.h,
                    p.w,
                    p.k,
                    p.ho(),
                    p.wo(),
                    narrow(p.r),
                    narrow(p.s),
                    narrow(p.pad_h),
                    narrow(p.pad_w),
                    narrow(p.stride_h),
                    narrow(p.stride_w),
                    narrow(p.dil_h),
                    narrow(p.dil_w),
                    narrow(p.group_c()),
                    narrow(p.group_k()),
                    p.layout == Layout::nhwc};
    const int64_t elements = p.n * p.k * p.ho() * p.wo();
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [e, elements, grid, layer](Args t) {
      const T* bias = layer.bias ? t[*layer.bias].as<const T>() : nullptr;
      launch(conv2d_kernel<T>, grid, t[Conv2d::x].as<const T>(), t[Conv2d::filter].as<const T>(), bias,
             t[layer.y].as<T>(), elements, e, layer.relu);
    };
  });
}

Plan conv2d_naive(const Conv2d& p, GpuContext& gpu) { return plan(p, kPlainConv2d, gpu); }
Plan conv2d_bias_naive(const Conv2dBias& p, GpuContext& gpu) { return plan(p.conv, p.layer(), gpu); }
DUET_REGISTER(conv2d_naive);
DUET_REGISTER(conv2d_bias_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
