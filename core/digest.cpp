// SPDX-License-Identifier: Apache-2.0
#include "core/digest.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_reduce.h>

#include <functional>

#include "core/checksum.h"

namespace duet {
namespace {
template <class Word>
bool finite(const void* data, int64_t words, uint64_t exponent) {
  const auto bits = static_cast<Word>(exponent);
  return tbb::parallel_reduce(
      tbb::blocked_range<int64_t>(0, words, 1 << 16), true,
      [&](const tbb::blocked_range<int64_t>& range, bool so_far) {
        bool found = false;
        const Word* word = static_cast<const Word*>(data);
        for (int64_t i = range.begin(); i < range.end(); ++i) found |= (word[i] & bits) == bits;
        return so_far && !found;
      },
      std::logical_and<>());
}
}  // namespace

uint64_t exponent_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x7ff0000000000000;
    case DType::f32:
      return 0x7f800000;
    case DType::bf16:
      return 0x7f80;
    case DType::f16:
      return 0x7c00;
    default:
      return 0;
  }
}

Digest host_digest(const void* data, DType dtype, int64_t elements) {
  Digest d{.checksum = parallel_checksum(data, elements * size_of(dtype))};
  const uint64_t exponent = exponent_bits(dtype);
  if (exponent == 0) return d;
  d.finite = size_of(dtype) == 8   ? finite<uint64_t>(data, elements, exponent)
             : size_of(dtype) == 4 ? finite<uint32_t>(data, elements, exponent)
                                   : finite<uint16_t>(data, elements, exponent);
  return d;
}

}  // namespace duet
