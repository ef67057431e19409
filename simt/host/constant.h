// SPDX-License-Identifier: Apache-2.0
// Constant memory where kernels run on the host: device memory that kernels may not write. What a copy does not bring
// counts as not written, so that a read of what an earlier, longer copy left behind is reported.
#pragma once
#include <cstdint>

#include "simt/host/words.h"

namespace duet::simt::host {

// The memory of a variable, which exists from its first use to the end of the program.
void* constant_memory(const void* variable, const char* name, int64_t count, int64_t element_bytes);
void fill_constant(void* memory, const void* from, int64_t bytes);  // throws Report

template <class T, int64_t kCount>
class Constant {
  static_assert(kCount * int64_t{sizeof(T)} <= 64 << 10, "a GPU has 64 KiB of constant memory");

 public:
  constexpr explicit Constant(const char* name) : name_(name) {}
  DUET_UNCHECKED operator const T*() const { return static_cast<const T*>(memory()); }
  DUET_UNCHECKED void fill(const T* from, int64_t count) const {
    fill_constant(memory(), from, count * int64_t{sizeof(T)});
  }

 private:
  DUET_UNCHECKED void* memory() const { return constant_memory(this, name_, kCount, sizeof(T)); }
  const char* name_;
};

}  // namespace duet::simt::host
