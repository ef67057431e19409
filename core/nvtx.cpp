// SPDX-License-Identifier: Apache-2.0
#include "core/nvtx.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/nvtx_tool.h"
#include "core/recorder.h"

namespace duet {

std::string nvtx_name(const std::string& id) {
  std::string name;
  for (const char c : id)
    if (c != ':') name += c == '/' ? '.' : c;
  return name;
}

NvtxName::NvtxName(const std::string& id, const NvtxWork& work)
    : handle_(nvtx_tool::register_string(nvtx_name(id))),
      category_(work.category.empty() ? 0 : nvtx_tool::category(work.category)),
      recorded_(recorder::register_name(id, work)),
      has_work_(work.bytes > 0 || work.flops > 0),
      bytes_(static_cast<uint64_t>(work.bytes)),
      flops_(work.flops) {}

NvtxRange::NvtxRange(const NvtxName& name) : recorded_(recorder::is_on()) {
  if (name.has_work_) {
    const nvtx_tool::Payload payload{name.bytes_, name.flops_};
    nvtx_tool::push(name.handle_, name.category_, &payload);
  } else {
    nvtx_tool::push(name.handle_, name.category_, nullptr);
  }
  if (recorded_) recorder::begin(name.recorded_);
}

NvtxRange::~NvtxRange() {
  if (recorded_) recorder::end();
  nvtx_tool::pop();
}

void name_thread(const std::string& name) {
  const bool is_first = syscall(SYS_gettid) == getpid();  // whose name is the program's
  if (!is_first) pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  nvtx_tool::name_thread(name);
  recorder::name_thread(name);
}

bool nvtx_built() { return nvtx_tool::built(); }

}  // namespace duet
