// SPDX-License-Identifier: Apache-2.0
// The GPU as a device: one stream, library handles bound to it, a memory pool, transfers and device time. Kernel files
// know it as GpuContext, through simt/launch.h; programs get one from open_gpu() in core/gpu.h.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/context.h"
#include "core/device_queue.h"
#include "core/gpu.h"

struct cublasContext;
struct cublasLtContext;
struct cudnnContext;

namespace duet::cuda {

class Nvml;

class GpuContext final : public Context, public DeviceQueue {
 public:
  static constexpr Device kDevice = Device::cuda;

  explicit GpuContext(int device = 0);  // throws Error
  ~GpuContext() override;
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  cudaStream_t stream() const;
  // Library handles bound to that stream, made at first use. f32 is IEEE: TF32 is used only when a call asks for it,
  // and partial sums of bf16 and f16 are added in f32.
  cublasContext* cublas();      // cublasHandle_t
  cublasLtContext* cublaslt();  // cublasLtHandle_t
  cudnnContext* cudnn();        // cudnnHandle_t

  int multiprocessors() const { return multiprocessors_; }
  int64_t l2_bytes() const { return l2_bytes_; }
  int64_t shared_bytes() const { return shared_bytes_; }  // the maximum of a block
  int64_t memory_bytes() const { return memory_bytes_; }
  int capability() const { return capability_; }  // 90 for 9.0
  const std::string& name() const { return name_; }
  std::string pci_bus() const;  // "00000000:01:00.0", as NVML knows it

  const Nvml* nvml() const { return nvml_.get(); }  // null where there is none

  int64_t available_bytes() const;  // free on the device, or unused in the memory pool
  // See record_graph() in core/gpu.h.
  std::unique_ptr<RecordedGraph> record(const std::function<void()>& run, std::string& reason);

  Device device() const override { return kDevice; }
  std::string describe() const override;

  void* allocate(int64_t bytes) override;
  void release(void* memory, int64_t bytes) noexcept override;
  void fill_bytes(void* to, uint8_t value, int64_t bytes) override;
  void upload(void* to, const void* from, int64_t bytes) override;
  void download(void* to, const void* from, int64_t bytes) override;
  void copy_within(void* to, const void* from, int64_t bytes) override;
  void synchronize() override;
  void evict(const void* memory, int64_t bytes) override;  // evicts everything, by reading a buffer of twice the L2

  double device_time(const std::function<void()>& run, int batch, bool& synchronises) override;
  void* allocate_pinned(int64_t bytes) override;
  void release_pinned(void* memory) noexcept override;
  void upload_async(void* to, const void* from, int64_t bytes) override;
  void download_async(void* to, const void* from, int64_t bytes) override;

 private:
  struct State;  // stream, events, pool, the blocker's flag
  bool capture(const std::function<void()>& run, int times, std::string& reason);
  void enqueue_batch(const std::function<void()>& run, int batch);

  int device_ = 0, multiprocessors_ = 0, capability_ = 0;
  int64_t l2_bytes_ = 0, shared_bytes_ = 0, memory_bytes_ = 0;
  std::string name_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Nvml> nvml_;
  std::shared_ptr<void> cublas_, cublaslt_, cudnn_;  // declared last: destroyed before the stream they use
};

}  // namespace duet::cuda
