// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: one oneTBB arena of a fixed number of threads, huge-page memory, flushed denormals.
#pragma once
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "core/context.h"

namespace duet {

class CpuContext final : public Context {
 public:
  static constexpr Device kDevice = Device::cpu;

  explicit CpuContext(int threads);  // 1 .. hardware threads; throws Error otherwise

  int threads() const { return threads_; }

  // body(first, last) over [0, n) in pieces of at least `grain`, shared by the arena's threads. Call it from inside
  // enter(): sessions and tapes do. Work of one piece, or one thread, runs in place without a fork.
  template <class Body>
  void parallel_for(int64_t n, int64_t grain, const Body& body) const {
    if (n <= 0) return;
    grain = grain < 1 ? 1 : grain;
    if (threads_ == 1 || n <= grain) return body(int64_t{0}, n);
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, n, static_cast<size_t>(grain)),
                      [&](const tbb::blocked_range<int64_t>& r) { body(r.begin(), r.end()); });
  }

  Device device() const override { return kDevice; }
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
  int threads_;
  mutable tbb::task_arena arena_;
};

// Denormals are zero and results flush to zero on this thread while it lives.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();

 private:
  unsigned saved_;
};

const char* simd_target();  // the instruction set that Highway dispatches to here: "AVX3", "AVX2", ...

}  // namespace duet
