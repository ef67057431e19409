// SPDX-License-Identifier: Apache-2.0
// One pack of col per thread: 16 bytes where the output pixels of a plane are whole packs, else one element. A thread
// finds its tap and its first pixel by dividers that are made at launch, and goes on from pixel to pixel by additions.
// Neighbouring threads read neighbouring pixels, which the r s taps find in cache.
#include "kernels/conv/im2col.h"
#include "kernels/divider.cuh"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {
struct Taps {
  int h, w, wo, pad_h, pad_w, stride_h, stride_w, dil_h, dil_w;
  Divider by_packs, by_wo, by_r, by_s;  // by_packs: packs of a plane of output pixels
};

// A map_grid(elements, kSize), no shared memory. x: (n, c, h, w), col: (n, c r s, ho wo); packs: of all of col.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock) im2col_kernel(const T* x, T* col, Taps taps, int64_t packs) {
  const int64_t at = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (at >= packs) return;
  auto rest = static_cast<uint32_t>(at);
  auto row_of_out = static_cast<uint32_t>(taps.by_packs.split(rest)) * kSize;
  int j = taps.by_wo.split(row_of_out);
  const int v = taps.by_s.split(rest), u = taps.by_r.split(rest);
  const T* plane = x + int64_t{rest} * taps.h * taps.w;

  // The pixel of x under the tap, from one output pixel to the next.
  int row = static_cast<int>(row_of_out) * taps.stride_h - taps.pad_h + u * taps.dil_h;
  const int first_column = v * taps.dil_w - taps.pad_w;
  Pack<T, kSize> pack;
#pragma unroll
  for (int e = 0; e < kSize; ++e) {
    const int column = first_column + j * taps.stride_w;
    const bool inside = row >= 0 && row < taps.h && column >= 0 && column < taps.w;
    pack.at[e] = inside ? plane[int64_t{row} * taps.w + column] : T(0.0f);
    if (++j == taps.wo) {
      j = 0;
      row += taps.stride_h;
    }
  }
  store_pack(col + at * kSize, pack);
}

}  // namespace

std::string im2col_unsupported_reason(const Im2col& p) {
  if (p.rows() * p.ho() * p.wo() > INT32_MAX) return "more than 2^31 - 1 elements of col";
  // What a thread computes with coordinates, and what lies one filter beyond them.
  for (const int64_t reach : {p.h + 2 * p.pad_h + p.stride_h, p.w + 2 * p.pad_w + p.stride_w})
    if (reach > INT32_MAX) return "an extent of x with its padding over 2^31 - 1";
  return "";
}

template <class T>
void enqueue_im2col(const Im2col& p, const T* x, T* col, cudaStream_t stream) {
  const int64_t pixels = p.ho() * p.wo(), elements = p.rows() * pixels;
  if (elements == 0) return;
  const auto run = [&]<int kSize>() {
    const auto narrow = [](int64_t v) { return static_cast<int>(v); };
    const Taps taps{narrow(p.h),        narrow(p.w),        narrow(p.wo()),  narrow(p.pad_h), narrow(p.pad_w),
                    narrow(p.stride_h), narrow(p.stride_w), narrow(p.dil_h), narrow(p.dil_w), Divider(pixels / kSize),
                    Divider(p.wo()),    Divider(p.r),       Divider(p.s)};
    launch(im2col_kernel<T, kSize>, map_grid(elements, kSize, stream), x, col, taps, elements / kSize);
  };
  pixels % kPack<T> == 0 && aligned16(col) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
}
template void enqueue_im2col(const Im2col&, const float*, float*, cudaStream_t);
template void enqueue_im2col(const Im2col&, const __nv_bfloat16*, __nv_bfloat16*, cudaStream_t);
template void enqueue_im2col(const Im2col&, const __half*, __half*, cudaStream_t);

namespace {
Plan im2col_tuned(const Im2col& p, GpuContext& gpu) {
  if (const std::string why = im2col_unsupported_reason(p); !why.empty()) return Unsupported{why};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      enqueue_im2col(p, t[Im2col::x].as<const T>(), t[Im2col::col].as<T>(), stream);
    };
  });
}
DUET_REGISTER(im2col_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
