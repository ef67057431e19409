// SPDX-License-Identifier: Apache-2.0
// prune on the bits of the elements: the absolute values of floats are ordered as their bits are.
// 2:4: a lane has a group, and six comparisons rank its four elements.
// magnitude: a radix selection finds the smallest size that is kept. A histogram of the upper 16 bits of all sizes
// tells its upper bits, a second one its lower bits; the halves need one histogram only. Then one pass writes y and
// mask. Where not all elements of that size are kept, their number in each chunk is counted before.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/prune_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <limits>
#include <utility>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/prune.h"

#ifndef DUET_CPU_REF_PRUNE_SIZES
#define DUET_CPU_REF_PRUNE_SIZES
namespace duet {

// The size of an element by its bits: its absolute value, and for every NaN the number after infinity. I: the signed
// integer as wide as an element, because signed vectors compare faster.
inline int32_t infinity_bits(DType t) { return t == DType::f32 ? 0x7f800000 : t == DType::bf16 ? 0x7f80 : 0x7c00; }
template <class I>
inline int32_t weight_size(I bits, int32_t infinity) {
  return std::min<int32_t>(bits & std::numeric_limits<I>::max(), infinity + 1);
}

// The upper and the lower bits of a size that histograms count.
struct SizeBits {
  int lower, upper;
  static SizeBits of(DType t) { return t == DType::f32 ? SizeBits{15, 16} : SizeBits{0, 15}; }
};

}  // namespace duet
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// f.operator()<I>(), where I has the bits of an element.
template <class F>
HWY_INLINE void for_bits(DType dtype, const F& f) {
  size_of(dtype) == 4 ? f.template operator()<int32_t>() : f.template operator()<int16_t>();
}

template <class D>
HWY_INLINE hn::Vec<D> weight_sizes(D d, hn::Vec<D> bits, int32_t infinity) {
  using I = hn::TFromD<D>;
  const auto magnitude = hn::And(bits, hn::Set(d, std::numeric_limits<I>::max()));
  return hn::Min(magnitude, hn::Set(d, static_cast<I>(infinity + 1)));
}

// n elements whose first one begins a group, to y and mask.
template <class I>
HWY_INLINE void prune_groups(const I* w, int64_t n, int32_t infinity, I* y, uint8_t* mask) {
  const hn::ScalableTag<I> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, I{1}), two = hn::Set(d, I{2});
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    hn::Vec<decltype(d)> a, b, c, e;
    hn::LoadInterleaved4(d, w + i, a, b, c, e);
    // Of each element: how many others are kept rather than this one.
    const auto size_a = weight_sizes(d, a, infinity), size_b = weight_sizes(d, b, infinity);
    const auto size_c = weight_sizes(d, c, infinity), size_e = weight_sizes(d, e, infinity);
    const auto larger = [&](auto later, auto earlier)
                            HWY_ATTR { return hn::IfThenElseZero(hn::Gt(later, earlier), one); };
    const auto ba = larger(size_b, size_a), ca = larger(size_c, size_a), ea = larger(size_e, size_a);
    const auto cb = larger(size_c, size_b), eb = larger(size_e, size_b), ec = larger(size_e, size_c);
    const auto before_a = hn::Add(hn::Add(ba, ca), ea);
    const auto before_b = hn::Add(hn::Add(hn::Sub(one, ba), cb), eb);
    const auto before_c = hn::Add(hn::Sub(two, hn::Add(ca, cb)), ec);
    const auto before_e = hn::Sub(hn::Add(one, two), hn::Add(hn::Add(ea, eb), ec));
    const auto keep_a = hn::Lt(before_a, two), keep_b = hn::Lt(before_b, two);
    const auto keep_c = hn::Lt(before_c, two), keep_e = hn::Lt(before_e, two);
    hn::StoreInterleaved4(hn::IfThenElseZero(keep_a, a), hn::IfThenElseZero(keep_b, b), hn::IfThenElseZero(keep_c, c),
                          hn::IfThenElseZero(keep_e, e), d, y + i);
    // The bytes of a group, in one element of 4 bytes or two of 2.
    const auto byte = [&](auto keep, int shift)
                          HWY_ATTR { return hn::IfThenElseZero(keep, hn::Set(d, static_cast<I>(I{1} << shift))); };
    I* bytes = reinterpret_cast<I*>(mask + i);
    if constexpr (sizeof(I) == 4) {
      hn::StoreU(hn::Or(hn::Or(byte(keep_a, 0), byte(keep_b, 8)), hn::Or(byte(keep_c, 16), byte(keep_e, 24))), d,
                 bytes);
    } else {
      hn::StoreInterleaved2(hn::Or(byte(keep_a, 0), byte(keep_b, 8)), hn::Or(byte(keep_c, 0), byte(keep_e, 8)), d,
                            bytes);
    }
  }
  // The last groups, one by one.
  for (; i < n; i += 4) {
    const int64_t count = HWY_MIN(int64_t{4}, n - i);
    for (int64_t k = 0; k < count; ++k) {
      int before = 0;
      for (int64_t other = 0; other < count; ++other) {
        const int32_t theirs = weight_size(w[i + other], infinity), own = weight_size(w[i + k], infinity);
        before += theirs > own || (theirs == own && other < k);
      }
      mask[i + k] = before < 2;
    }
    for (int64_t k = 0; k < count; ++k) y[i + k] = mask[i + k] ? w[i + k] : I{0};
  }
}

// n elements: those of at least this size are kept.
template <class I>
HWY_INLINE void prune_below(const I* w, int64_t n, int32_t infinity, int32_t threshold, I* y, uint8_t* mask) {
  const hn::ScalableTag<I> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto below = hn::Set(d, static_cast<I>(threshold - 1));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::LoadU(d, w + i);
    const auto keep = hn::Gt(weight_sizes(d, bits, infinity), below);
    hn::StoreU(hn::IfThenElseZero(keep, bits), d, y + i);
    const auto ones = hn::BitCast(hn::RebindToUnsigned<decltype(d)>(), hn::IfThenElseZero(keep, hn::Set(d, I{1})));
    hn::StoreU(hn::TruncateTo(d8, ones), d8, mask + i);
  }
  for (; i < n; ++i) {
    mask[i] = weight_size(w[i], infinity) >= threshold;
    y[i] = mask[i] ? w[i] : I{0};
  }
}

// Elements [first, last) of y and mask by f(w, n, y, mask), which writes to L1 first where the results are to bypass
// the caches.
template <class I, class F>
HWY_INLINE void prune_range(Args t, int64_t first, int64_t last, bool stream, const F& f) {
  constexpr int64_t kBlock = 1024;  // elements
  const hn::ScalableTag<I> d;
  const hn::ScalableTag<uint8_t> d8;
  const auto same = [](auto v) HWY_ATTR { return v; };
  const I* w = static_cast<const I*>(t[Prune::w].data);
  I* y = static_cast<I*>(t[Prune::y].data);
  auto* mask = t[Prune::mask].as<uint8_t>();
  if (!stream) return f(w + first, last - first, y + first, mask + first);
  HWY_ALIGN I block[kBlock];
  HWY_ALIGN uint8_t bytes[kBlock];
  for (int64_t i = first; i < last; i += kBlock) {
    const int64_t count = HWY_MIN(kBlock, last - i);
    f(w + i, count, block, bytes);
    map<true>(d, count, same, y + i, static_cast<const I*>(block));
    map<true>(d8, count, same, mask + i, static_cast<const uint8_t*>(bytes));
  }
  hwy::FlushStream();
}

void prune_two_of_four(const Prune& p, Args t, int64_t first, int64_t last, bool stream) {
  const int32_t infinity = infinity_bits(p.dtype);
  for_bits(p.dtype, [&]<class I>() HWY_ATTR {
    prune_range<I>(t, first, last, stream, [infinity](const I* w, int64_t n, I* y, uint8_t* mask) HWY_ATTR {
      prune_groups(w, n, infinity, y, mask);
    });
  });
}

void prune_by_size(const Prune& p, Args t, int32_t threshold, int64_t first, int64_t last, bool stream) {
  const int32_t infinity = infinity_bits(p.dtype);
  for_bits(p.dtype, [&]<class I>() HWY_ATTR {
    prune_range<I>(t, first, last, stream, [=](const I* w, int64_t n, I* y, uint8_t* mask) HWY_ATTR {
      prune_below(w, n, infinity, threshold, y, mask);
    });
  });
}

// Of n elements: how many have exactly this size.
int64_t count_size(const Prune& p, Args t, int32_t size, int64_t first, int64_t last) {
  const int32_t infinity = infinity_bits(p.dtype);
  int64_t total = 0;
  for_bits(p.dtype, [&]<class I>() HWY_ATTR {
    const hn::ScalableTag<I> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto wanted = hn::Set(d, static_cast<I>(size));
    const I* w = static_cast<const I*>(t[Prune::w].data);
    int64_t i = first;
    for (; i + lanes <= last; i += lanes)
      total += static_cast<int64_t>(hn::CountTrue(d, hn::Eq(weight_sizes(d, hn::LoadU(d, w + i), infinity), wanted)));
    for (; i < last; ++i) total += weight_size(w[i], infinity) == size;
  });
  return total;
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(prune_two_of_four);
HWY_EXPORT(prune_by_size);
HWY_EXPORT(count_size);

// The selection of the elements that magnitude keeps, with its workspace.
class Selection {
 public:
  Selection(const Prune& p, const CpuContext& cpu, WorkspaceLayout& workspace)
      : p_(p),
        bits_(SizeBits::of(p.dtype)),
        parts_(std::clamp<int64_t>(p.n / kChunkElements, 1, cpu.threads())),
        counts_(workspace.add<uint32_t>(parts_ << bits_.upper)),
        ties_(workspace.add<int64_t>(ceil_div(p.n, kChunkElements) + 1)) {}

  void run(Args t, CpuContext& cpu, bool stream) const {
    int32_t threshold = infinity_bits(p_.dtype) + 2;  // above every size
    int64_t wanted = p_.kept(), ties = 0;             // elements of the threshold's size: those that are kept, and all
    if (wanted > 0) {
      threshold = count_digit(t, cpu, bits_.lower, bits_.upper, -1, wanted, ties);
      if (bits_.lower > 0)
        threshold = threshold << bits_.lower | count_digit(t, cpu, 0, bits_.lower, threshold, wanted, ties);
    }
    const int64_t* before = ties > wanted ? count_ties(t, cpu, threshold) : nullptr;
    parallel_chunks(cpu, p_.n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i += kChunkElements) {
        const int64_t end = std::min(last, i + kChunkElements);
        const int64_t middle = before ? tie_end(t, threshold, before + i / kChunkElements, wanted, i, end) : end;
        if (middle > i) HWY_DYNAMIC_DISPATCH(prune_by_size)(p_, t, threshold, i, middle, stream);
        if (end > middle) HWY_DYNAMIC_DISPATCH(prune_by_size)(p_, t, threshold + 1, middle, end, stream);
      }
    });
  }

 private:
  template <class F>
  void with_sizes(Args t, const F& f) const {
    const int32_t infinity = infinity_bits(p_.dtype);
    const auto sizes = [&]<class I>(const I* w) {
      f([w, infinity](int64_t i) { return weight_size(w[i], infinity); });
    };
    p_.dtype == DType::f32 ? sizes(static_cast<const int32_t*>(t[Prune::w].data))
                           : sizes(static_cast<const int16_t*>(t[Prune::w].data));
  }

  // Counts the digit of `width` bits above `shift`, of all sizes or of those whose higher bits are `above`, and returns
  // that of the threshold. wanted: elements to keep, of those that are counted; then, of those with that digit, of
  // which there are `found`.
  int32_t count_digit(Args t, CpuContext& cpu, int shift, int width, int32_t above, int64_t& wanted,
                      int64_t& found) const {
    const int64_t digits = int64_t{1} << width;
    uint32_t* counts = t.workspace(counts_);
    cpu.parallel_for(parts_, 1, [&](int64_t first_part, int64_t last_part) {
      for (int64_t part = first_part; part < last_part; ++part) {
        uint32_t* to = counts + part * digits;
        std::fill_n(to, digits, 0u);
        const int64_t first = p_.n * part / parts_, last = p_.n * (part + 1) / parts_;
        with_sizes(t, [&](const auto& size) {
          if (above < 0) {
            for (int64_t i = first; i < last; ++i) ++to[size(i) >> shift];
          } else {
            for (int64_t i = first; i < last; ++i)
              if (size(i) >> width == above) ++to[size(i) & (digits - 1)];
          }
        });
      }
    });
    for (int64_t digit = digits - 1;; --digit) {
      found = 0;
      for (int64_t part = 0; part < parts_; ++part) found += counts[part * digits + digit];
      if (found >= wanted || digit == 0) return static_cast<int32_t>(digit);
      wanted -= found;
    }
  }

  // For each chunk, and behind the last, the elements of the threshold's size in the chunks before it.
  const int64_t* count_ties(Args t, CpuContext& cpu, int32_t threshold) const {
    int64_t* before = t.workspace(ties_);
    const int64_t chunks = ceil_div(p_.n, kChunkElements);
    before[chunks] = 0;
    cpu.parallel_for(chunks, 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k)
        before[k] = HWY_DYNAMIC_DISPATCH(count_size)(p_, t, threshold, k * kChunkElements,
                                                     std::min(p_.n, (k + 1) * kChunkElements));
    });
    int64_t sum = 0;
    for (int64_t k = 0; k <= chunks; ++k) sum += std::exchange(before[k], sum);
    return before;
  }

  // The element of a chunk [first, last) from which on no tie is kept. before: the ties before the chunk, and before
  // the next.
  int64_t tie_end(Args t, int32_t threshold, const int64_t* before, int64_t wanted, int64_t first, int64_t last) const {
    if (before[0] >= wanted) return first;
    if (before[1] <= wanted) return last;
    int64_t end = first, left = wanted - before[0];
    with_sizes(t, [&](const auto& size) {
      for (; left > 0; ++end) left -= size(end) == threshold;
    });
    return end;
  }

  Prune p_;
  SizeBits bits_;
  int64_t parts_;
  WorkspacePiece<uint32_t> counts_;
  WorkspacePiece<int64_t> ties_;
};

Plan prune_tuned(const Prune& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(p.n * (2 * size_of(p.dtype) + 1));
  if (p.scheme == PruneScheme::two_of_four)
    return [p, stream, &cpu](Args t) {
      parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(prune_two_of_four)(p, t, first, last, stream);
      });
    };
  if (p.n > INT32_MAX) return Unsupported{"more than 2^31 - 1 elements"};
  WorkspaceLayout workspace;
  const Selection selection(p, cpu, workspace);
  return Plan([selection, stream, &cpu](Args t) { selection.run(t, cpu, stream); }).with(std::move(workspace));
}
DUET_REGISTER(prune_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
