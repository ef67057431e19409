// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_context.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "core/error.h"
#include "core/machine.h"
#include "core/nvtx.h"

namespace duet {
namespace {
constexpr unsigned kFlush = 0x8040;  // FTZ and DAZ in MXCSR
constexpr int64_t kPage = 4096, kHugePage = int64_t{2} << 20;
constexpr int64_t kCheckAbove = int64_t{64} << 20;  // bytes
constexpr int64_t kCacheLine = 64;

int64_t mapped_size(int64_t bytes) {
  const int64_t unit = bytes >= kHugePage ? kHugePage : kPage;
  return (bytes + unit - 1) / unit * unit;
}
int64_t fenced_size(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }  // between the two fences

// Profilers show oneTBB's threads by these names. A thread gets its own with its first chunk of work.
inline void name_worker() {
  thread_local bool named = false;
  if (named) return;
  named = true;
  static std::atomic<int> count = 0;
  if (CpuContext::thread_index() > 0) name_thread(fmt::format("duet worker {}", ++count));  // 0: who called enter()
}
}  // namespace

ScopedFlushDenormals::ScopedFlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlush); }
ScopedFlushDenormals::~ScopedFlushDenormals() { _mm_setcsr(saved_); }

struct CpuContext::Arena {
  tbb::task_arena arena;
};

CpuContext::CpuContext(int threads, Fence fence) : threads_(threads), fence_(fence), arena_(std::make_unique<Arena>()) {
  const int max_threads = usable_threads();
  if (threads < 1 || threads > max_threads)
    throw Error("--threads {} is not within 1 .. {}, the CPUs that this process may use (affinity and quota)", threads,
                max_threads);
  const ScopedFlushDenormals flush;  // oneTBB runs an arena's work in the floating-point mode at its initialisation
  arena_->arena.initialize(threads, 1);
}

CpuContext::~CpuContext() = default;

void CpuContext::fork(int64_t n, int64_t grain, void (*run)(const void*, int64_t, int64_t), const void* body) const {
  const auto chunk = static_cast<size_t>(std::max<int64_t>(1, grain));
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, n, chunk), [&](const tbb::blocked_range<int64_t>& r) {
    name_worker();
    run(body, r.begin(), r.end());
  });
}

int CpuContext::thread_index() { return std::max(0, tbb::this_task_arena::current_thread_index()); }

std::string CpuContext::describe() const { return fmt::format("CPU, {} thread(s), {}", threads_, simd_target()); }

void CpuContext::enter(const std::function<void()>& work) {
  const ScopedFlushDenormals flush;
  arena_->arena.execute(work);
}

// Memory is mapped, not malloc'ed: it is aligned to a huge page, returned to the system at once, and independent of the
// layout of other allocations.
void* CpuContext::allocate(int64_t bytes) {
  if (fence_ != Fence::none) return allocate_fenced(bytes);
  const int64_t size = mapped_size(bytes);
  const int64_t slack = size >= kHugePage ? kHugePage : 0;
  // A case that is refused here becomes a row with its reason; without the check, the kernel would kill the process at
  // the first touch. Small sizes are not checked, since reading the machine's state takes longer than mapping them.
  const int64_t available = size < kCheckAbove ? size : allocatable_bytes(read_machine_state());
  void* map = size > available ? MAP_FAILED
                               : mmap(nullptr, static_cast<size_t>(size + slack), PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) throw Error("not enough memory on the CPU for {} bytes; {} are available", bytes, available);
  if (!slack) return map;
  char* begin = static_cast<char*>(map);
  char* aligned = begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (aligned > begin) munmap(begin, static_cast<size_t>(aligned - begin));
  char* end = begin + size + slack;
  if (end > aligned + size) munmap(aligned + size, static_cast<size_t>(end - aligned - size));
  madvise(aligned, static_cast<size_t>(size), MADV_HUGEPAGE);
  return aligned;
}

void* CpuContext::allocate_fenced(int64_t bytes) {
  const int64_t size = fenced_size(bytes);
  void* map = mmap(nullptr, static_cast<size_t>(size + 2 * kPage), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const begin = static_cast<char*>(map) + kPage;
  if (map == MAP_FAILED || mprotect(begin, static_cast<size_t>(size), PROT_READ | PROT_WRITE) != 0)
    throw Error("not enough memory on the CPU for {} bytes between pages of no access", bytes);
  return begin;
}

void CpuContext::release(void* memory, int64_t bytes) noexcept {
  if (memory && fence_ != Fence::none)
    munmap(static_cast<char*>(memory) - kPage, static_cast<size_t>(fenced_size(bytes) + 2 * kPage));
  else if (memory)
    munmap(memory, static_cast<size_t>(mapped_size(bytes)));
}

// The first touch of a buffer, by the threads that will use it.
void CpuContext::fill_bytes(void* to, uint8_t value, int64_t bytes) {
  arena_->arena.execute([&] {
    parallel_for(bytes, kHugePage, [&](int64_t first, int64_t last) {
      std::memset(static_cast<char*>(to) + first, value, static_cast<size_t>(last - first));
    });
  });
}

void CpuContext::copy_within(void* to, const void* from, int64_t bytes) {
  arena_->arena.execute([&] {
    parallel_for(bytes, kHugePage, [&](int64_t first, int64_t last) {
      std::memcpy(static_cast<char*>(to) + first, static_cast<const char*>(from) + first,
                  static_cast<size_t>(last - first));
    });
  });
}
void CpuContext::upload(void* to, const void* from, int64_t bytes) { copy_within(to, from, bytes); }
void CpuContext::download(void* to, const void* from, int64_t bytes) { copy_within(to, from, bytes); }

__attribute__((target("clflushopt"))) static void flush_lines(const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kCacheLine) _mm_clflushopt(const_cast<char*>(from + i));
  _mm_mfence();
}
static void flush_lines_sse2(const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kCacheLine) _mm_clflush(from + i);
  _mm_mfence();
}

void CpuContext::evict(const void* memory, int64_t bytes) {
  const bool optimised =
      __builtin_cpu_supports("avx512f") || __builtin_cpu_supports("avx512vl");  // such CPUs have clflushopt
  (optimised ? flush_lines : flush_lines_sse2)(static_cast<const char*>(memory), bytes);
}

int64_t simd_targets() { return hwy::SupportedTargets() & HWY_TARGETS; }

const char* simd_target() {
  const int64_t usable = simd_targets();
  const int64_t best = usable & -usable;  // targets are ordered: the lowest bit is the best
  // Highway calls its targets for AVX-512 AVX3, AVX3_DL (Ice Lake's extensions) and AVX3_ZEN4.
  return best <= HWY_AVX3 ? "AVX-512" : hwy::TargetName(best);
}

}  // namespace duet
