// SPDX-License-Identifier: Apache-2.0
// Vectors for large data on the host: without zeros that are overwritten at once, and from 2 MiB on in huge pages,
// whose first touch is several times as fast.
#pragma once
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace duet {

// Memory of kLargeBlock bytes and more. What is released is kept for the next request of its size: the kernel clears
// what is touched for the first time, which takes as long as the use of it. At most a sixteenth of the memory that
// was available at first, 4 GiB and 1000 blocks are kept, and nothing where a request would fail.
constexpr size_t kLargeBlock = size_t{64} << 10;
void* allocate_large(size_t bytes);  // throws std::bad_alloc
void release_large(void* memory, size_t bytes) noexcept;

template <class T>
struct HugePageAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the name that std::vector asks for
  HugePageAllocator() = default;
  template <class Other>
  HugePageAllocator(const HugePageAllocator<Other>&) {}

  T* allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    return static_cast<T*>(bytes < kLargeBlock ? ::operator new(bytes) : allocate_large(bytes));
  }
  void deallocate(T* memory, size_t n) {
    n * sizeof(T) < kLargeBlock ? ::operator delete(memory) : release_large(memory, n * sizeof(T));
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
};

template <class T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace duet
