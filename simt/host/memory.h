// SPDX-License-Identifier: Apache-2.0
// Device memory on the host: one reserved range of addresses, in which every allocation has pages of its own, so that
// the allocation of an address is one look-up. Used by the context (allocations) and the checker (what is known of each
// cell).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "simt/host/lines.h"

namespace duet::simt::host {

// What is known of a few bytes; zeros where nothing is. Accesses are dated by barrier intervals (checker.cpp): an
// interval is never used twice, so it also identifies block and launch.
struct Cell {
  uint32_t write_interval = 0, write_clock = 0;
  Pc write_pc = 0;
  uint32_t read_interval = 0;          // of the latest read
  uint32_t earlier_read_interval = 0;  // of the latest read before that by another block
  Pc read_pc = 0, earlier_read_pc = 0;
  int32_t readers = 0;  // in read_interval: first of a list in the checker; 0: none
  uint16_t writer = 0;  // thread
  bool written = false, flag_write = false, in_flight = false;
  // The threads whose further reads leave `readers` as it is: 0 none, kAll all, else those of warp complete_for - 1.
  uint16_t complete_for = 0;
  static constexpr uint16_t kAll = UINT16_MAX;
};

// Cells of a region. Many of them cost memory only once they are touched.
class Cells {
 public:
  Cells() = default;
  explicit Cells(size_t count);
  Cells(Cells&& other) noexcept { swap(other); }
  Cells& operator=(Cells&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Cells();
  size_t size() const { return count_; }
  Cell& operator[](size_t i) { return cells_[i]; }

 private:
  void swap(Cells& other) noexcept {
    std::swap(cells_, other.cells_);
    std::swap(count_, other.count_);
  }
  size_t bytes() const { return count_ * sizeof(Cell); }
  Cell* cells_ = nullptr;
  size_t count_ = 0;
};

struct Region {
  char* base = nullptr;
  size_t bytes = 0;
  std::string name;
  bool shared = false;
  size_t element = 4;         // bytes of an element, for messages
  size_t first = 0, end = 0;  // the bytes that kernels may access; guard bands lie around them
  unsigned shift = 2;         // a cell is 2^shift bytes
  Cells cells;
  bool all_written = false;  // the host wrote all of it, without a mark in each cell
  bool touched = false;      // a cell may have been changed since the allocation
  bool constant = false;     // constant memory: kernels only read it
  bool read_only = false;    // an input of the op
  // Makes cells so small that none lies across a boundary of accesses at `offsets` (several, joined by |).
  void fit(size_t offsets) {
    if (offsets & ((size_t{1} << shift) - 1)) refine(offsets % 2 == 0 ? 1 : 0);
  }
  void refine(unsigned shift);
  std::string place(size_t offset) const { return "'" + name + "'[" + std::to_string(index(offset)) + "]"; }
  int64_t index(size_t offset) const {
    return (static_cast<int64_t>(offset) - static_cast<int64_t>(first)) / static_cast<int64_t>(element);
  }
};

class Memory {
 public:
  Memory();
  // Page-aligned, and followed by a page that no other allocation uses. Throws Error when the range is full. shift: of
  // its cells at first; smaller ones cost more.
  Region& allocate(size_t bytes, std::string name, bool shared, size_t element, unsigned shift = 2);
  void release(void* base);
  Region* find(const void* address) const {  // null where no allocation has the address
    if (!holds(address)) return nullptr;
    const uint32_t owner = owner_[offset(address) / kPage];
    return owner ? regions_[owner - 1] : nullptr;
  }
  bool holds(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(range_) < kRange;
  }
  uint64_t offset(const void* address) const {
    return static_cast<uint64_t>(static_cast<const char*>(address) - range_);
  }

 private:
  static constexpr size_t kRange = size_t{256} << 30, kPage = 4096;  // of addresses: a page costs memory once touched
  char* range_;
  size_t used_ = kPage;
  uint32_t* owner_;  // of each page: index in regions_ plus 1
  std::vector<Region*> regions_;
  std::vector<uint32_t> free_indices_;
  std::vector<std::pair<size_t, char*>> free_;  // pages, address
};

extern constinit Memory* the_memory;  // made by the first context
inline Memory& device_memory() { return *the_memory; }
void mark(void* to, int64_t bytes, bool written);  // as written by the host, or as not written

}  // namespace duet::simt::host
