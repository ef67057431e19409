// SPDX-License-Identifier: Apache-2.0
// A device with its memory: what a Session or a Tape needs to hold tensors and to run plans. CpuContext
// (core/cpu_context.h), cuda::GpuContext (core/cuda/gpu_context.h) and simt::GpuContext (simt/host/context.h) derive
// from it. What only a GPU can do is in core/device_queue.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace duet {

enum class Device : uint8_t { cpu, cuda, simt };
const char* name_of(Device);

class Context {
 public:
  virtual ~Context() = default;
  virtual Device device() const = 0;
  virtual std::string describe() const = 0;  // for messages: "CPU, 2 threads, AVX3"

  // Device memory, aligned to 4 KiB at least. Throws Error naming the size when there is not enough.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* memory, int64_t bytes) noexcept = 0;
  // Names a part of an allocation: kernels may touch only these bytes of it. Devices that check every access use it.
  virtual void declare(void* /*memory*/, int64_t /*bytes*/, int64_t /*element_bytes*/, const std::string& /*name*/) {}
  virtual void fill_bytes(void* to, uint8_t value, int64_t bytes) = 0;
  virtual void upload(void* to, const void* from, int64_t bytes) = 0;       // host to device, complete on return
  virtual void download(void* to, const void* from, int64_t bytes) = 0;     // device to host, complete on return
  virtual void copy_within(void* to, const void* from, int64_t bytes) = 0;  // enqueued
  virtual void synchronize() = 0;

  // Runs `work` as plans expect to be run: on the CPU inside the thread arena with denormals flushed.
  virtual void enter(const std::function<void()>& work) { work(); }
  virtual void evict(const void* memory, int64_t bytes) = 0;  // from every cache, before a cold sample

  int64_t held_bytes() const { return held_bytes_; }  // in all Buffers, without their guard bands

 private:
  friend class Buffer;
  int64_t held_bytes_ = 0;
};

// Owned device memory between guard bands. Memory and guards start as 0xFF bytes, which are NaN: an element that was
// never written cannot pass a comparison by chance, and a write outside of the memory is found.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Context& context, int64_t bytes, const std::string& name = "workspace", int64_t element_bytes = 1);
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }
  void poison();                                      // sets the data to 0xFF
  bool guards_intact() const;                         // false: something wrote outside of the data
  bool untouched(int64_t first, int64_t last) const;  // whether bytes [first, last) of the data are still 0xFF

 private:
  void swap(Buffer& other) noexcept;
  Context* context_ = nullptr;
  void *raw_ = nullptr, *data_ = nullptr;
  int64_t bytes_ = 0, raw_bytes_ = 0;
};

}  // namespace duet
