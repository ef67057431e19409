// SPDX-License-Identifier: Apache-2.0
// The host as a GPU: what `GpuContext` means in kernel files that g++ compiles.
#pragma once
#include <string>

#include "core/context.h"
#include "core/grid.h"
#include "simt/simt.h"

namespace duet::simt {

// Of a block (CUDA Programming Guide, technical specifications).
constexpr int64_t max_shared_bytes(int capability) { return (capability >= 90 ? 227 : 163) * int64_t{1024}; }

class GpuContext final : public Context {
 public:
  static constexpr Device kDevice = Device::simt;
  explicit GpuContext(const SimtOptions& options) : options_(options) {}

  CUstream_st* stream() const { return nullptr; }
  int multiprocessors() const { return options_.multiprocessors; }
  int64_t l2_bytes() const { return int64_t{50} << 20; }
  int64_t shared_bytes() const { return max_shared_bytes(options_.capability); }
  int64_t memory_bytes() const { return int64_t{1} << 32; }
  int capability() const { return options_.capability; }

  Device device() const override { return kDevice; }
  std::string describe() const override;
  void* allocate(int64_t bytes) override;
  void release(void* memory, int64_t bytes) noexcept override;
  void declare(void* memory, int64_t bytes, int64_t element_bytes, const std::string& name) override;
  void fill_bytes(void* to, uint8_t value, int64_t bytes) override;  // 0xFF is poison: it counts as not written
  void upload(void* to, const void* from, int64_t bytes) override;
  void download(void* to, const void* from, int64_t bytes) override;
  void copy_within(void* to, const void* from, int64_t bytes) override { upload(to, from, bytes); }
  void synchronize() override {}
  void enter(const std::function<void()>& work) override;
  void evict(const void*, int64_t) override {}

 private:
  SimtOptions options_;
};

}  // namespace duet::simt
