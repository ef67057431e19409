// SPDX-License-Identifier: Apache-2.0
// A device with its memory: what a Session or a Tape needs to hold tensors and to run plans. CpuContext
// (core/cpu_context.h), cuda::GpuContext (core/cuda/gpu_context.h) and simt::GpuContext (simt/host/context.h) derive
// from it. What only a GPU can do is in core/device_queue.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace duet {

enum class Device : uint8_t { cpu, cuda, simt };
const char* name_of(Device);

// Where a page that no one may access follows or precedes the data of each Buffer, so that a read out of bounds ends
// the process as well. For tests: CpuContext has it.
enum class Fence : uint8_t { none, behind, before };

class Context {
 public:
  virtual ~Context() = default;
  virtual Device device() const = 0;
  virtual std::string describe() const = 0;  // for messages: "CPU, 2 threads, AVX-512"

  virtual Fence fence() const { return Fence::none; }

  // Device memory, aligned to 4 KiB at least. Throws Error naming the size when there is not enough. With a fence,
  // pages of no access lie before the memory and behind its last page.
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

// Owned device memory between guard bands. The memory starts as 0xFF bytes, which are NaN: an element that was never
// written cannot pass a comparison by chance. Each guard band of each buffer holds bytes of its own, which no
// implementation can know, so that any write into it is found.
class Buffer {
 public:
  Buffer() = default;
  // element_bytes: of the tensor's type. 0: memory of mixed types, such as a workspace, aligned to 256 bytes.
  // offset: how many bytes the data begins behind such an address. With Fence::behind its end decides where it begins.
  Buffer(Context& context, int64_t bytes, const std::string& name = "workspace", int64_t element_bytes = 0,
         int64_t offset = 0);
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
  void poison();                                // sets the data to 0xFF
  void add_guard(int64_t first, int64_t last);  // bytes [first, last) of the data become a guard band as well
  // How a guard band has changed, such as "byte 4096 behind its end was overwritten"; "" where none has.
  std::string guard_failure() const;
  bool guards_intact() const { return guard_failure().empty(); }

 private:
  void swap(Buffer& other) noexcept;
  // Bytes from the beginning of the allocation. changed_guard: the first one that differs, or -1.
  std::vector<uint8_t> guard(int64_t first, int64_t count) const;
  void write_guard(int64_t first, int64_t count);
  int64_t changed_guard(int64_t first, int64_t count) const;
  Context* context_ = nullptr;
  void *raw_ = nullptr, *data_ = nullptr;
  int64_t bytes_ = 0, raw_bytes_ = 0;
  uint64_t key_ = 0;                                       // of the guards' bytes
  std::vector<std::pair<int64_t, int64_t>> inner_guards_;  // bytes [first, last) of the data
};

}  // namespace duet
