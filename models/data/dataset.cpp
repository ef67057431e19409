// SPDX-License-Identifier: Apache-2.0
#include "models/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/philox.h"

namespace duet {

std::vector<int64_t> shuffled(int64_t n, uint64_t key) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = order.size(); i > 1; --i)  // Fisher and Yates; Philox, so that the order is the same everywhere
    std::swap(order[i - 1], order[static_cast<size_t>(uint64_t{philox_bits(i, key)} * i >> 32)]);
  return order;
}

Dataset split_off(Dataset& data, double share, uint64_t seed) {
  if (data.size() < 2) throw Error("{} sample(s) cannot be split; 2 or more are needed", data.size());
  const auto wanted = static_cast<int64_t>(std::llround(share * static_cast<double>(data.size())));
  const int64_t count = std::clamp<int64_t>(wanted, 1, data.size() - 1);
  std::vector<int64_t> order = shuffled(data.size(), seed);
  std::sort(order.begin(), order.begin() + count);
  std::sort(order.begin() + count, order.end());
  const auto take = [&](int64_t first, int64_t last) {
    Dataset part{
        .features = data.features, .classes = data.classes, .x = {}, .token = {}, .label = {}, .targets = data.targets};
    part.class_names = data.class_names;
    const auto copy = [&](auto& to, const auto& from, int64_t width) {
      if (from.empty()) return;
      to.reserve(static_cast<size_t>((last - first) * width));
      for (int64_t i = first; i < last; ++i) {
        const auto sample = from.begin() + order[static_cast<size_t>(i)] * width;
        to.insert(to.end(), sample, sample + width);
      }
    };
    copy(part.x, data.x, data.features);
    copy(part.token, data.token, data.features);
    copy(part.label, data.label, data.targets);
    copy(part.value, data.value, 1);
    return part;
  };
  Dataset apart = take(0, count);
  data = take(count, data.size());
  return apart;
}

}  // namespace duet
