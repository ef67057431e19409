// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: one oneTBB arena with a fixed number of threads, memory in huge pages, flushed denormals. The
// implementations in cpu_ref/ use its parallel_for.
#pragma once
#include <algorithm>
#include <memory>

#include "core/context.h"

namespace duet {

class CpuContext final : public Context {
 public:
  static constexpr Device kDevice = Device::cpu;

  explicit CpuContext(int threads, Fence fence = Fence::none);  // 1 .. hardware threads; throws Error otherwise
  ~CpuContext() override;

  int threads() const { return threads_; }

  // Calls body(first, last) for chunks of [0, n) of at least `grain`, on the arena's threads. Call it inside enter(),
  // as sessions and tapes do. A single chunk, or a single thread, runs in the calling thread without a fork.
  template <class Body>
  void parallel_for(int64_t n, int64_t grain, const Body& body) const {
    if (n <= 0) return;
    if (threads_ == 1 || n <= std::max<int64_t>(1, grain)) return body(int64_t{0}, n);
    fork(
        n, grain, [](const void* b, int64_t first, int64_t last) { (*static_cast<const Body*>(b))(first, last); },
        &body);
  }
  // The calling thread's number in its arena, 0 to threads() - 1; 0 outside.
  static int thread_index();

  Device device() const override { return kDevice; }
  Fence fence() const override { return fence_; }
  std::string describe() const override;
  void* allocate(int64_t bytes) override;
  void release(void* memory, int64_t bytes) noexcept override;
  void fill_bytes(void* to, uint8_t value, int64_t bytes) override;
  void upload(void* to, const void* from, int64_t bytes) override;
  void download(void* to, const void* from, int64_t bytes) override;
  void copy_within(void* to, const void* from, int64_t bytes) override;
  void synchronize() override {}
  void enter(const std::function<void()>& work) override;
  void evict(const void* memory, int64_t bytes) override;

 private:
  struct Arena;  // of oneTBB; defined in the source file, because its headers take a second to compile
  void* allocate_fenced(int64_t bytes);
  void fork(int64_t n, int64_t grain, void (*run)(const void*, int64_t, int64_t), const void* body) const;

  int threads_;
  Fence fence_;
  std::unique_ptr<Arena> arena_;
};

// While it lives, this thread reads denormals as zero and flushes results to zero.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();

 private:
  unsigned saved_;
};

int64_t simd_targets();     // Highway's bits of the instruction sets that are both compiled in and supported here
const char* simd_target();  // the instruction set that Highway dispatches to here: "AVX-512", "AVX2", ...

}  // namespace duet
