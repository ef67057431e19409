// SPDX-License-Identifier: Apache-2.0
// NVTX ranges in the domain "duet"; nothing where the build found no NVTX. A range costs nanoseconds without a tool.
#pragma once
#include <cstdint>
#include <string>

namespace duet {

// A registered name: make it once per job. '/' becomes '.' and ':' is dropped, since profilers give both a meaning.
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
