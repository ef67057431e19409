// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: one oneTBB arena of a fixed number of threads, huge-page memory, flushed denormals.
#pragma once
#include <algorithm>
#include <memory>

#include "core/context.h"

namespace duet {

class CpuContext final : public Context {
 public:
  static constexpr Device kDevice = Device::cpu;

  explicit CpuContext(int threads);  // 1 .. hardware threads; throws Error otherwise
  ~CpuContext() override;

  int threads() const { return threads_; }

  // body(first, last) over [0, n) in pieces of at least `grain`, shared by the arena's threads. Call it from inside
  // enter(): sessions and tapes do. Work of one piece, or one thread, runs in place without a fork.
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
  struct Arena;  // oneTBB's, whose headers take a second to compile
  void fork(int64_t n, int64_t grain, void (*run)(const void*, int64_t, int64_t), const void* body) const;

  int threads_;
  std::unique_ptr<Arena> arena_;
};

// Denormals are zero and results flush to zero on this thread while it lives.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();

 private:
  unsigned saved_;
};

int64_t simd_targets();     // Highway's bits of the instruction sets that are both compiled in and supported here
const char* simd_target();  // the instruction set that Highway dispatches to here: "AVX3", "AVX2", ...

}  // namespace duet
