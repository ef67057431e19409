// SPDX-License-Identifier: Apache-2.0
#include "core/stripes.h"

#include <algorithm>

#include "core/philox.h"

namespace duet {
namespace {
constexpr int64_t kMinBytes = 1 << 10, kMaxBytes = 64 << 10, kShare = 64;  // of an output
constexpr int64_t kMinStripe = 128;                                        // bytes: two cache lines
}  // namespace

std::vector<Stripe> choose_stripes(const std::vector<TensorSpec>& specs, uint64_t seed, int max_stripes) {
  std::vector<Stripe> stripes;
  for (size_t slot = 0; slot < specs.size(); ++slot) {
    const int64_t bytes = specs[slot].bytes(), element = size_of(specs[slot].dtype);
    if (specs[slot].role == Role::in || bytes == 0) continue;
    const int64_t wanted = std::clamp(bytes / kShare, kMinBytes, kMaxBytes);
    if (bytes <= wanted) {
      stripes.push_back({slot, 0, bytes});
      continue;
    }
    const int64_t count = std::min<int64_t>(max_stripes, wanted / kMinStripe);
    const int64_t each = wanted / count / element * element;
    stripes.push_back({slot, 0, each});
    stripes.push_back({slot, bytes - each, each});
    for (int64_t i = 2; i < count; ++i) {
      const int64_t room = (bytes - each) / element;  // places where a stripe can begin
      const auto index = static_cast<uint64_t>(slot) << 32 | static_cast<uint64_t>(i);
      stripes.push_back(
          {slot, static_cast<int64_t>(philox_bits(index, seed) * static_cast<double>(room) * 0x1p-32) * element, each});
    }
  }
  return stripes;
}

std::vector<unsigned char> bytes_of(const std::vector<Stripe>& stripes, const HostTensors& outputs) {
  std::vector<unsigned char> all;
  for (const Stripe& s : stripes) {
    const auto* from = static_cast<const unsigned char*>(outputs.data(s.slot)) + s.first;
    all.insert(all.end(), from, from + s.bytes);
  }
  return all;
}

}  // namespace duet
