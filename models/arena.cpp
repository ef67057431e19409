// SPDX-License-Identifier: Apache-2.0
#include "models/arena.h"

#include <algorithm>
#include <numeric>

#include "core/dtype.h"

namespace duet {
namespace {
constexpr int64_t kPage = 4096, kLine = 256, kPlaces = 16;  // kPlaces: different starts within a page

struct Place {
  int64_t begin, end;
  const Lifetime* tensor;
};
bool together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }
}  // namespace

int64_t pack(std::vector<Lifetime>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tensors[a].bytes > tensors[b].bytes; });

  std::vector<Place> placed;  // by begin
  int64_t total = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    Lifetime& t = tensors[order[i]];
    const int64_t stagger = static_cast<int64_t>(i) * 5 % kPlaces * kLine;
    const int64_t size =
        ceil_div(t.bytes + kPlaces * kLine, kPage) * kPage;  // whatever the stagger: tensors of equal size fit
    int64_t begin = 0;
    for (const Place& p : placed) {
      if (!together(*p.tensor, t)) continue;
      if (p.begin >= begin + size) break;  // the gap before p is wide enough; all others begin later
      begin = std::max(begin, p.end);
    }
    t.offset = begin + stagger;
    const Place place{begin, begin + size, &t};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), place,
                                   [](const Place& a, const Place& b) { return a.begin < b.begin; }),
                  place);
    total = std::max(total, place.end);
  }
  return total;
}

}  // namespace duet
