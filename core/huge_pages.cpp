// SPDX-License-Identifier: Apache-2.0
#include "core/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <mutex>
#include <new>

#include "core/machine.h"

namespace duet {
namespace {
constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
constexpr size_t kMaxKept = size_t{4} << 30;
constexpr size_t kShare = 16;        // of the memory that is available at first, at most one part is kept
constexpr size_t kMaxBlocks = 1000;  // that are searched for a size
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeeps = false;  // the sanitizer is to see every use of released memory
#else
constexpr bool kKeeps = true;
#endif

// Of 2 MiB and more in whole huge pages, aligned to them.
size_t rounded(size_t bytes) {
  const size_t page = bytes < kHugePage ? kPage : kHugePage;
  return (bytes + page - 1) / page * page;
}
bool is_huge(size_t rounded_bytes) { return rounded_bytes >= kHugePage; }

size_t limit_of_kept() {
  if (!kKeeps) return 0;
  return std::min(static_cast<size_t>(allocatable_bytes(read_machine_state())) / kShare, kMaxKept);
}

struct Block {
  size_t bytes;
  void* memory;
};
// Released blocks, the latest first. Never destroyed: vectors with static storage release theirs at the end.
struct Kept {
  std::mutex mutex;
  std::list<Block> blocks;
  size_t bytes = 0;
  const size_t limit = limit_of_kept();
  void* take(size_t wanted) {  // null where none has this size
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) { return b.bytes == wanted; });
    if (found == blocks.end()) return nullptr;
    void* const memory = found->memory;
    bytes -= found->bytes;
    blocks.erase(found);
    return memory;
  }
  void release_oldest() {
    std::free(blocks.back().memory);
    bytes -= blocks.back().bytes;
    blocks.pop_back();
  }
  void release_all() {
    const std::lock_guard lock(mutex);
    while (!blocks.empty()) release_oldest();
  }
};
Kept& kept() {
  static Kept* const all = new Kept;
  return *all;
}
}  // namespace

void* allocate_large(size_t bytes) {
  const size_t wanted = rounded(bytes);
  if (void* const memory = kept().take(wanted)) return memory;
  const size_t alignment = is_huge(wanted) ? kHugePage : kPage;
  void* memory = std::aligned_alloc(alignment, wanted);
  if (!memory) {
    kept().release_all();
    memory = std::aligned_alloc(alignment, wanted);
  }
  if (!memory) throw std::bad_alloc();
  if (is_huge(wanted)) madvise(memory, wanted, MADV_HUGEPAGE);
  return memory;
}

void release_large(void* memory, size_t bytes) noexcept {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  try {
    k.blocks.push_front({rounded(bytes), memory});
  } catch (const std::bad_alloc&) {
    return std::free(memory);
  }
  k.bytes += rounded(bytes);
  while (k.bytes > k.limit || k.blocks.size() > kMaxBlocks) k.release_oldest();
}

}  // namespace duet
