// SPDX-License-Identifier: Apache-2.0
// What a GPU can do beyond a Context: time work by its own clock, and transfer while the host goes on. cuda::GpuContext
// implements it; the samplers of bench/ and the counters of a Tape use it.
#pragma once
#include <cstdint>
#include <functional>

#include "core/context.h"

namespace duet {

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // Seconds of device time for one of `batch` runs, by events. `synchronises` is set when run() waited for the device
  // itself, so that nothing could be queued ahead.
  virtual double device_time(const std::function<void()>& run, int batch, bool& synchronises) = 0;

  // Host memory that the device reads and writes by itself, and transfers from and to it, which are only enqueued.
  virtual void* allocate_pinned(int64_t bytes) = 0;
  virtual void release_pinned(void* memory) noexcept = 0;
  virtual void upload_async(void* to, const void* from, int64_t bytes) = 0;
  virtual void download_async(void* to, const void* from, int64_t bytes) = 0;
};

DeviceQueue* device_queue(Context& context);  // null where the context is not a GPU's

// Host memory for transfers to and from a context's device: pinned, with transfers that are only enqueued, where the
// device has a queue. Otherwise it is ordinary memory, and a transfer is complete on return.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(Context& context, int64_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedBuffer();

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // `bytes` bytes from `offset` of this buffer to the device, or from the device to there.
  void upload(void* device, int64_t offset, int64_t bytes) const;
  void download(const void* device, int64_t offset, int64_t bytes) const;

 private:
  void swap(PinnedBuffer& other) noexcept;
  Context* context_ = nullptr;
  DeviceQueue* queue_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace duet
