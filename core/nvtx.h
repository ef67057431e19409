// SPDX-License-Identifier: Apache-2.0
// NVTX ranges in the domain "duet", which name jobs and phases in a profiler. They do nothing where the build found no
// NVTX, and cost nanoseconds where no profiler is attached.
#pragma once
#include <cstdint>
#include <string>

namespace duet {

// A registered name, made once per job. '/' becomes '.' and ':' is dropped, since profilers give both a meaning.
class NvtxName {
 public:
  explicit NvtxName(const std::string& text);
  void* handle() const { return handle_; }

 private:
  void* handle_;
};

class NvtxRange {
 public:
  explicit NvtxRange(const NvtxName& name, uint64_t payload = 0);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

bool nvtx_built();

}  // namespace duet
