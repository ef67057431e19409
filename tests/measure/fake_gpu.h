// SPDX-License-Identifier: Apache-2.0
// A context that bench/ and core/ take for a GPU's, for tests of what they ask it to do. Its memory is the host's.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "core/cpu_context.h"
#include "core/device_queue.h"

namespace duet {

class FakeGpu final : public Context, public DeviceQueue {
 public:
  Device device() const override { return Device::cuda; }
  std::string describe() const override { return "a fake"; }
  void* allocate(int64_t bytes) override { return cpu_.allocate(bytes); }
  void release(void* memory, int64_t bytes) noexcept override { cpu_.release(memory, bytes); }
  void fill_bytes(void* to, uint8_t value, int64_t bytes) override { cpu_.fill_bytes(to, value, bytes); }
  void upload(void* to, const void* from, int64_t bytes) override { cpu_.upload(to, from, bytes); }
  void download(void* to, const void* from, int64_t bytes) override { cpu_.download(to, from, bytes); }
  void copy_within(void* to, const void* from, int64_t bytes) override { cpu_.copy_within(to, from, bytes); }
  void synchronize() override { ++waits_for_device; }
  void evict(const void*, int64_t) override { ++evictions; }

  double device_time(const std::function<void()>& run, int batch, bool& synchronises) override {
    inside_device_time = true;
    for (int i = 0; i < batch; ++i) run();
    inside_device_time = false;
    last_run = &run;
    synchronises = waits;
    return device_s;
  }
  void* allocate_pinned(int64_t bytes) override { return cpu_.allocate(bytes); }
  void release_pinned(void*) noexcept override {}
  void upload_async(void*, const void*, int64_t) override {}
  void download_async(void*, const void*, int64_t) override {}

  const std::function<void()>* last_run = nullptr;
  double device_s = 200e-6;  // of a run, by the device's clock
  int evictions = 0, waits_for_device = 0;
  bool waits = false, inside_device_time = false;

 private:
  CpuContext cpu_{1};
};

}  // namespace duet
