// SPDX-License-Identifier: Apache-2.0
// Ranges that name jobs and phases on a timeline. They go to two listeners: a profiler, by NVTX in the domain "duet",
// where the build found NVTX's headers (nvtx_tool.h), and the recorder of this project, in any build (recorder.h). A
// range costs nanoseconds where neither listens and less than a microsecond where one does: put ranges around
// calls, not into loops of nanoseconds. docs/profiling.md lists the ranges and how they nest.
#pragma once
#include <cstdint>
#include <string>

namespace duet {

// What a profiler shows beside the name of a range.
struct NvtxWork {
  std::string category;  // family of the op; empty: none
  int64_t bytes = 0;     // compulsory traffic of one application
  double flops = 0;      // operations of one application
};

// The name of a range, made once and used often. Profilers give '/', ',' and ':' a meaning of their own, so that '/'
// becomes '.', and ':' is dropped: the job softmax/cpu.tuned/f32/rows:64 is shown as softmax.cpu.tuned.f32.rows64.
class NvtxName {
 public:
  explicit NvtxName(const std::string& id, const NvtxWork& work = {});

 private:
  friend class NvtxRange;
  void* handle_;           // of a profiler
  uint32_t category_ = 0;  // of a profiler
  uint32_t recorded_ = 0;  // of the recorder
  bool has_work_ = false;
  uint64_t bytes_ = 0;
  double flops_ = 0;
};

std::string nvtx_name(const std::string& id);  // as profilers show it

class NvtxRange {
 public:
  explicit NvtxRange(const NvtxName& name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  bool recorded_;  // a recording may start or end meanwhile
};

// The calling thread, for profilers, the recorder and, unless it is the process's first thread, the operating system,
// which keeps 15 characters.
void name_thread(const std::string& name);

bool nvtx_built();  // whether profilers see the ranges

}  // namespace duet
