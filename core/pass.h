// SPDX-License-Identifier: Apache-2.0
// What a limit of a device is measured with: passes over arrays for a bandwidth, multiply-adds in registers for an
// arithmetic peak. The ceilings of a run and the roof beside a row (bench/roof_probe.h) are timings of the same passes.
// bench/cpu_pass.h has those of the CPU, core/cuda/gpu_pass.cu those of a GPU.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/context.h"

namespace duet {

// Call run() and evict() inside the context's enter(). On a GPU they only enqueue.
class Pass {
 public:
  Pass() = default;
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  virtual ~Pass() = default;
  virtual void run() = 0;
  virtual void evict() {}  // what it touches, from the caches
  // The same loop over another footprint, divided in the same way; null where a pass has no footprint.
  virtual std::unique_ptr<Pass> resized(int64_t /*footprint*/) const { return nullptr; }

  double amount = 0;            // bytes that are moved, or operations, of one run
  std::string ceiling;          // name of the ceiling that it measures: "cpu.copy", "gpu.fma.f32"
  int64_t footprint_bytes = 0;  // of a bandwidth
  // run(), by which a GPU's queue knows the pass (DeviceQueue::device_time).
  const std::function<void()> run_function{[this] { run(); }};
};

// Arrays for passes over memory, grown on demand and shared by them: one pass runs at a time.
class PassMemory {
 public:
  explicit PassMemory(Context& context) : context_(context) {}
  char* at_least(int64_t bytes);

 private:
  Context& context_;
  Buffer buffer_;
};

// The passes of one device. Call memory() and compute() inside the context's enter(), too.
class Passes {
 public:
  virtual ~Passes() = default;
  // Over arrays of `footprint` bytes together, every way there is. patterns: read, write, clear, copy, update or triad,
  // or several joined by '|'.
  virtual std::vector<std::unique_ptr<Pass>> memory(std::string_view patterns, int64_t footprint) = 0;
  // Multiply-adds of a dtype ("f32/tf32": in that math mode); none where the device has no unit for it. A pass is long,
  // or has about max_operations where these are fewer.
  virtual std::vector<std::unique_ptr<Pass>> compute(const std::string& dtype, double max_operations) = 0;
  virtual int64_t cache_bytes() const = 0;  // of the last level
  // Until the device has the speed that it can have, as far as waiting helps. Before times are taken.
  virtual void wait_for_speed() {}
};

// Whether a footprint is so far beyond a cache that nothing of it is still there at the next pass.
bool far_beyond(int64_t footprint, int64_t cache_bytes);

// Whether `pattern` is one of `patterns`, which are joined by '|'.
bool serves(std::string_view patterns, std::string_view pattern);

// Null where the context is not a GPU's.
std::unique_ptr<Passes> gpu_passes(Context& gpu);

}  // namespace duet
