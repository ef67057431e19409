// Threads share y's runs of D elements, in order, so that y is written in order, past the caches when the tensors exceed
// them; x's runs are read a token or a head apart.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/memory/permute_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registry.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/pieces.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/permute.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Groups [first, last) of y's runs: those that differ in y's last axis but one, `inner` runs that are `step` runs of x apart.
template <bool kStream, class T>
void permute_groups_of(const Permute& p, const T* x, T* y, int64_t first, int64_t last) {
  const hn::ScalableTag<T> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  const int64_t inner = p.inverse ? p.H : p.T, step = p.inverse ? p.T : p.split * p.H;
  for (int64_t group = first; group < last; ++group) {
    int64_t from;  // y's group is (s, b, h), inverse (b, t, s)
    if (p.inverse) {
      const int64_t s = group % p.split, t = group / p.split % p.T, b = group / p.split / p.T;
      from = (s * p.B + b) * p.H * p.T + t;
    } else {
      const int64_t h = group % p.H, b = group / p.H % p.B, s = group / p.H / p.B;
      from = (b * p.T * p.split + s) * p.H + h;
    }
    for (int64_t i = 0; i < inner; ++i)
      map<kStream>(d, p.D, same, y + (group * inner + i) * p.D, x + (from + i * step) * p.D);
  }
  if (kStream) hwy::FlushStream();
}

void permute_groups(const Permute& p, Args t, int64_t first, int64_t last, bool stream) {
  const auto run = [&]<class T>() HWY_ATTR {
    const auto* x = static_cast<const T*>(t[Permute::x].data);
    auto* y = static_cast<T*>(t[Permute::y].data);
    (stream ? permute_groups_of<true, T> : permute_groups_of<false, T>)(p, x, y, first, last);
  };
  size_of(p.dtype) == 4 ? run.template operator()<uint32_t>() : run.template operator()<uint16_t>();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(permute_groups);

Plan permute_tuned(const Permute& p, CpuContext& cpu) {
  if (size_of(p.dtype) != 2 && size_of(p.dtype) != 4) return Unsupported{"elements of neither 2 nor 4 bytes"};
  const int64_t inner = p.inverse ? p.H : p.T;
  const bool stream = beyond_cache(2 * p.rows() * p.D * size_of(p.dtype)) && p.D * size_of(p.dtype) % 64 == 0;
  return [p, inner, stream, &cpu](Args t) {
    cpu.parallel_for(inner == 0 ? 0 : p.rows() / inner, rows_of_a_piece(inner * p.D), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(permute_groups)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(permute_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
