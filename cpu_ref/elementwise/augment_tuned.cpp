// SPDX-License-Identifier: Apache-2.0
// augment with vectors of f32. Threads share the rows of y, all channels at a time. A part of a row is separated by
// channels and normalised, by one fma for each element, in L1; from there each channel is written to its plane,
// mirrored where the image is, and past the caches when the tensors exceed them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/augment_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/augment.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

constexpr int64_t kPart = 256;    // columns that are separated at once
constexpr int64_t kChannels = 4;  // channels that are

// to[k kPart + j] = x[j channels + k] scale[k] + shift[k] for j < n, k < count. x: pixels of `channels` bytes.
HWY_INLINE void normalise(const uint8_t* x, int64_t channels, int64_t count, int64_t n, const float* scale,
                          const float* shift, float* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto write = [&](int64_t k, int64_t j, hn::Vec<decltype(d8)> bytes) HWY_ATTR {
    const auto value = hn::ConvertTo(d, hn::PromoteTo(di, bytes));
    hn::StoreU(hn::MulAdd(value, hn::Set(d, scale[k]), hn::Set(d, shift[k])), d, to + k * kPart + j);
  };
  int64_t j = 0;
  if (channels == 1) {
    for (; j + lanes <= n; j += lanes) write(0, j, hn::LoadU(d8, x + j));
  } else if (channels == 3) {
    for (; j + lanes <= n; j += lanes) {
      hn::Vec<decltype(d8)> a, b, c;
      hn::LoadInterleaved3(d8, x + 3 * j, a, b, c);
      write(0, j, a);
      write(1, j, b);
      write(2, j, c);
    }
  } else if (channels == 4) {
    for (; j + lanes <= n; j += lanes) {
      hn::Vec<decltype(d8)> a, b, c, e;
      hn::LoadInterleaved4(d8, x + 4 * j, a, b, c, e);
      write(0, j, a);
      write(1, j, b);
      write(2, j, c);
      write(3, j, e);
    }
  }
  for (; j < n; ++j)
    for (int64_t k = 0; k < count; ++k)
      to[k * kPart + j] = hn::GetLane(
          hn::MulAdd(hn::Set(hn::CappedTag<float, 1>(), static_cast<float>(x[j * channels + k])),
                     hn::Set(hn::CappedTag<float, 1>(), scale[k]), hn::Set(hn::CappedTag<float, 1>(), shift[k])));
}

// to[j] = from[n - 1 - j].
HWY_INLINE void mirror(const float* from, int64_t n, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, from + n - j - lanes)), d, to + j);
  for (; j < n; ++j) to[j] = from[n - 1 - j];
}

// Rows [first, last) of all crops. scale, shift: (c).
template <bool kStream, class T>
void augment_part(const Augment& p, Args t, const float* scale, const float* shift, int64_t first, int64_t last) {
  using P = Augment;
  const hn::ScalableTag<float> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto* x = t[P::x].as<const uint8_t>();
  T* y = t[P::y].as<T>();
  HWY_ALIGN float parts[kChannels * kPart];
  HWY_ALIGN float mirrored[kPart];
  for (int64_t r = first; r < last; ++r) {
    const int64_t image = r / p.ho, i = r % p.ho;
    const int64_t row = t[P::top].as<const int32_t>()[image] + i, left = t[P::left].as<const int32_t>()[image];
    const bool flip = t[P::flip].as<const int32_t>()[image] != 0;
    const bool inside = row >= 0 && row < p.h;
    // The columns [begin, end) of the crop that lie in the image.
    const int64_t begin = std::clamp<int64_t>(-left, 0, p.wo);
    const int64_t end = inside ? std::clamp<int64_t>(p.w - left, begin, p.wo) : begin;
    for (int64_t at = 0; at < p.wo; at += kPart) {
      const int64_t n = std::min(kPart, p.wo - at), from = std::clamp(begin - at, int64_t{0}, n),
                    to = std::clamp(end - at, from, n);
      for (int64_t k = 0; k < p.c; k += kChannels) {
        const int64_t count = std::min(kChannels, p.c - k);
        if (from > 0 || to < n)
          for (int64_t q = 0; q < count; ++q) std::fill_n(parts + q * kPart, n, shift[k + q]);
        if (to > from) {
          const uint8_t* pixels = x + ((image * p.h + row) * p.w + left + at + from) * p.c + k;
          normalise(pixels, p.c, count, to - from, scale + k, shift + k, parts + from);
        }
        for (int64_t q = 0; q < count; ++q) {
          T* plane = y + ((image * p.c + k + q) * p.ho + i) * p.wo;
          if (flip) {
            mirror(parts + q * kPart, n, mirrored);
            map<kStream>(d, n, same, plane + p.wo - at - n, static_cast<const float*>(mirrored));
          } else {
            map<kStream>(d, n, same, plane + at, static_cast<const float*>(parts + q * kPart));
          }
        }
      }
    }
  }
}

void augment_rows(const Augment& p, Args t, const float* scale, const float* shift, int64_t first, int64_t last,
                  bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    (stream ? augment_part<true, T> : augment_part<false, T>)(p, t, scale, shift, first, last);
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(augment_rows);

Plan augment_tuned(const Augment& p, CpuContext& cpu) {
  using P = Augment;
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(p.n * p.c * (p.h * p.w + p.ho * p.wo * size_of(p.dtype)));
  WorkspaceLayout workspace;
  const auto scales = workspace.add<float>(p.c), shifts = workspace.add<float>(p.c);
  const auto run = [p, stream, scales, shifts, &cpu](Args t) {
    if (p.n * p.c * p.ho * p.wo == 0) return;
    float *scale = t.workspace(scales), *shift = t.workspace(shifts);
    for (int64_t k = 0; k < p.c; ++k) {
      const float deviation = t[P::deviation].as<const float>()[k];
      scale[k] = 1 / (255 * deviation);
      shift[k] = -t[P::mean].as<const float>()[k] / deviation;
    }
    cpu.parallel_for(p.n * p.ho, rows_per_chunk(p.c * p.wo), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(augment_rows)(p, t, scale, shift, first, last, stream);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(augment_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
