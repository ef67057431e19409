// SPDX-License-Identifier: Apache-2.0
#include "softgpu/scope.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "softgpu/warp.h"

namespace duet::softgpu {

const Scope* scope_ = nullptr;

Scope::Running::Running(const Scope* scope) : before_(std::exchange(scope_, scope)) {}
Scope::Running::~Running() { scope_ = before_; }

Scope::Scope(std::string job, const ScopedTensor* tensors, size_t count) : job_(std::move(job)) {
  const auto begin_of = [](const ScopedTensor& t) { return reinterpret_cast<uint64_t>(t.memory); };
  std::vector<uint64_t> borders;
  for (size_t i = 0; i < count; ++i) {
    if (tensors[i].bytes == 0) continue;
    const uint64_t begin = begin_of(tensors[i]), end = begin + tensors[i].bytes;
    borders.insert(borders.end(), {begin, end});
    if (tensors[i].access != ScopedTensor::Access::none) tensors_.push_back({begin, end, tensors[i].name});
  }
  std::sort(borders.begin(), borders.end());
  std::stable_sort(tensors_.begin(), tensors_.end(), [](const Named& a, const Named& b) { return a.begin < b.begin; });
  // Between two neighbouring borders, the access is the largest of the tensors there: slices may overlap.
  for (size_t b = 0; b + 1 < borders.size(); ++b) {
    const uint64_t begin = borders[b], end = borders[b + 1];
    bool exists = false;
    auto access = ScopedTensor::Access::none;
    for (size_t i = 0; i < count; ++i) {
      if (begin_of(tensors[i]) > begin || end > begin_of(tensors[i]) + tensors[i].bytes) continue;
      exists = true;
      access = std::max(access, tensors[i].access);
    }
    if (begin == end || !exists) continue;
    if (!segments_.empty() && segments_.back().end == begin && segments_.back().access == access)
      segments_.back().end = end;
    else
      segments_.push_back({begin, end, access});
  }
}

void Scope::require(uint64_t address, uint64_t bytes, bool store, int lane) const {
  if (allows(address, bytes, store)) return;
  uint64_t at = address;
  while (allows(at, 1, store)) ++at;
  std::string where = "before its first tensor";
  for (const Named& t : tensors_) {
    if (t.begin > at) break;
    where = at < t.end
                ? fmt::format("at byte {} of {} ({} bytes), which it only reads", at - t.begin, t.name, t.end - t.begin)
                : fmt::format("{} bytes behind the end of {} ({} bytes), in an arena of the tape", at - t.end, t.name,
                              t.end - t.begin);
  }
  fault(fmt::format("a {} of {} bytes by {}, {}", store ? "store" : "load", bytes, job_, where), lane,
        Fault::Kind::address);
}

}  // namespace duet::softgpu
