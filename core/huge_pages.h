// SPDX-License-Identifier: Apache-2.0
// Vectors for large data on the host: in huge pages, whose first touch is several times as fast, and without zeros that
// are overwritten at once.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

namespace duet {

template <class T>
struct HugePageAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the name that std::vector asks for
  HugePageAllocator() = default;
  template <class Other>
  HugePageAllocator(const HugePageAllocator<Other>&) {}

  T* allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    if (bytes < kHugePage) return static_cast<T*>(::operator new(bytes));
    void* const memory = std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage);
    if (!memory) throw std::bad_alloc();
    madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t n) {
    if (n * sizeof(T) < kHugePage)
      ::operator delete(memory);
    else
      std::free(memory);
  }
  // resize() leaves the elements as they are.
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    if constexpr (sizeof...(Args) == 0)
      ::new (static_cast<void*>(at)) U;
    else
      ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
  bool operator==(const HugePageAllocator&) const { return true; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
};

template <class T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace duet
