// SPDX-License-Identifier: Apache-2.0
// Device memory on the host: pages from one reserved range, given to allocations and reused by number of pages.
#include "simt/host/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.h"

namespace duet::simt::host {
namespace {
constexpr size_t kMaxKeptBytes = size_t{1} << 20;  // larger allocations return their pages to the system
constexpr size_t kMaxHeapBytes = size_t{4} << 20;  // more cells are mapped

char* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw Error("simt: no {} bytes of address space (see ulimit -v)", bytes);
  return static_cast<char*>(p);
}
}  // namespace

// Zeroed memory: from the heap, or where there is much of it pages that the system provides once they are touched.
Cells::Cells(size_t count) : count_(count) {
  cells_ = static_cast<Cell*>(bytes() > kMaxHeapBytes ? reserve(bytes())
                                                      : std::calloc(std::max<size_t>(1, count), sizeof(Cell)));
  if (!cells_) throw Error("simt: no memory for what is known of {} cells", count);
}
Cells::~Cells() {
  if (bytes() > kMaxHeapBytes)
    munmap(cells_, bytes());
  else
    std::free(cells_);
}

void Region::refine(unsigned to) {
  const unsigned parts = shift - to;
  Cells finer(cells.size() << parts);
  for (size_t i = 0; i < finer.size(); ++i) finer[i] = cells[i >> parts];
  cells = std::move(finer);
  shift = to;
}

constinit Memory* the_memory = nullptr;

Memory::Memory()
    : range_(reserve(kRange)), owner_(reinterpret_cast<uint32_t*>(reserve(kRange / kPage * sizeof(uint32_t)))) {}

Region& Memory::allocate(size_t bytes, std::string name, bool shared, size_t element, unsigned shift) {
  const size_t pages = (bytes + kPage - 1) / kPage + 1;
  const auto kept = std::find_if(free_.begin(), free_.end(), [&](const auto& f) { return f.first == pages; });
  char* base = range_ + used_;
  if (kept != free_.end()) {
    base = kept->second;
    free_.erase(kept);
  } else {
    if (pages > (kRange - used_) / kPage) throw Error("simt: no room for {} bytes of device memory", bytes);
    used_ += pages * kPage;
  }
  auto* region = new Region{base,   bytes,   std::move(name),
                            shared, element, 0,
                            bytes,  shift,   Cells((bytes + (size_t{1} << shift) - 1) >> shift),
                            false};
  if (free_indices_.empty()) {
    free_indices_.push_back(static_cast<uint32_t>(regions_.size()));
    regions_.push_back(nullptr);
  }
  const uint32_t index = free_indices_.back();
  free_indices_.pop_back();
  regions_[index] = region;
  // The page after the allocation belongs to it as well, so that a report of an overrun has its name.
  std::fill_n(owner_ + offset(base) / kPage, pages, index + 1);
  return *region;
}

void Memory::release(void* base) {
  Region* region = find(base);
  if (!region) return;
  const size_t pages = (region->bytes + kPage - 1) / kPage + 1;
  uint32_t* owners = owner_ + offset(base) / kPage;
  const uint32_t index = *owners - 1;
  std::fill_n(owners, pages, 0);
  const bool large = region->bytes > kMaxKeptBytes;
  if (large) madvise(base, pages * kPage, MADV_DONTNEED);
  free_.emplace_back(pages, region->base);
  regions_[index] = nullptr;
  free_indices_.push_back(index);
  delete region;
  // What is free at the end of the range in use serves allocations of any size: large ones seldom have the same.
  const auto is_last = [&](const auto& f) { return f.second + f.first * kPage == range_ + used_; };
  for (auto last = free_.begin(); large; free_.erase(last)) {
    last = std::find_if(free_.begin(), free_.end(), is_last);
    if (last == free_.end()) break;
    used_ -= last->first * kPage;
  }
}

void mark(void* to, int64_t bytes, bool written) {
  Region* r = device_memory().find(to);
  if (!r || bytes <= 0 || (!written && !r->touched)) return;
  r->touched = true;
  const auto first = static_cast<size_t>(static_cast<char*>(to) - r->base),
             last = first + static_cast<size_t>(bytes) - 1;
  r->fit(first | (last + 1));
  for (size_t i = first >> r->shift; i <= last >> r->shift; ++i) {
    r->cells[i] = {};
    r->cells[i].written = written;
  }
}

}  // namespace duet::simt::host
