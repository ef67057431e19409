// SPDX-License-Identifier: Apache-2.0
#include "core/nvtx.h"

#include <nvtx3/nvToolsExt.h>

namespace duet {
namespace {
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("duet");
  return handle;
}
}  // namespace

NvtxName::NvtxName(const std::string& text) {
  std::string name;
  for (const char c : text)
    if (c != ':') name += c == '/' ? '.' : c;
  handle_ = nvtxDomainRegisterStringA(domain(), name.c_str());
}

NvtxRange::NvtxRange(const NvtxName& name, uint64_t payload) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = static_cast<nvtxStringHandle_t>(name.handle());
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = payload;
  nvtxDomainRangePushEx(domain(), &event);
}
NvtxRange::~NvtxRange() { nvtxDomainRangePop(domain()); }

bool nvtx_built() { return true; }

}  // namespace duet
