// SPDX-License-Identifier: Apache-2.0
// What a piece of work may touch of memory that many tensors share: the arenas of a tape (core/device_scope.h). Memory
// outside of them is left to the other checks. Kernels (access.h), copies, fills and the stand-ins for libraries ask
// it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/device_scope.h"

namespace duet::softgpu {

class Scope {
 public:
  Scope(std::string job, const ScopedTensor* tensors, size_t count);

  bool allows(uint64_t address, uint64_t bytes, bool store) const {
    const auto need = store ? ScopedTensor::Access::write : ScopedTensor::Access::read;
    for (const Segment& s : segments_) {
      if (s.end <= address) continue;
      if (s.begin >= address + bytes) break;
      if (s.access < need) return false;
    }
    return true;
  }
  // Throws Fault where the access is not allowed. lane: of a kernel's warp, or kNone.
  void require(uint64_t address, uint64_t bytes, bool store, int lane) const;

  // While it lives, `scope` is that of the work that runs; null allows all.
  class Running {
   public:
    explicit Running(const Scope* scope);
    ~Running();
    Running(const Running&) = delete;

   private:
    const Scope* before_;
  };

 private:
  struct Segment {
    uint64_t begin, end;
    ScopedTensor::Access access;
  };
  struct Named {
    uint64_t begin, end;
    std::string name;
  };
  std::string job_;
  std::vector<Segment> segments_;  // in order; neighbours that touch have different accesses
  std::vector<Named> tensors_;     // in order of their begin
};

extern const Scope* scope_;  // of the work that runs; null where it has none

}  // namespace duet::softgpu
