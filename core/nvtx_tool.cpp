// SPDX-License-Identifier: Apache-2.0
#include "core/nvtx_tool.h"

#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <map>
#include <mutex>

namespace duet::nvtx_tool {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("duet");
  return handle;
}

// Two numbers with names and units, where headers and profiler know such payloads; 0 where they do not.
#ifdef NVTX_PAYLOAD_TYPE_EXT
uint64_t work_schema() {
  static const uint64_t id = [] {
    nvtxPayloadSchemaEntry_t entries[2]{};
    entries[0].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64;
    entries[0].name = "bytes";
    entries[0].description = "compulsory traffic of one application";
    entries[0].offset = offsetof(Payload, bytes);
    entries[1].type = NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE;
    entries[1].name = "flops";
    entries[1].description = "operations of one application";
    entries[1].offset = offsetof(Payload, flops);
    nvtxPayloadSchemaAttr_t schema{};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = "work";
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries;
    schema.numEntries = 2;
    schema.payloadStaticSize = sizeof(Payload);
    return nvtxPayloadSchemaRegister(domain(), &schema);
  }();
  return id;
}
#endif

}  // namespace

void* register_string(const std::string& text) { return nvtxDomainRegisterStringA(domain(), text.c_str()); }

uint32_t category(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, uint32_t> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(name, static_cast<uint32_t>(known.size()) + 1);
  if (is_new) nvtxDomainNameCategoryA(domain(), at->second, name.c_str());
  return at->second;
}

void push(void* text, uint32_t category, const Payload* payload) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = category;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = static_cast<nvtxStringHandle_t>(text);
  if (payload) {  // a profiler without such payloads is told the bytes
    event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    event.payload.ullValue = payload->bytes;
  }
#ifdef NVTX_PAYLOAD_TYPE_EXT
  nvtxPayloadData_t data{};
  if (payload && work_schema() != 0) {
    data.schemaId = work_schema();
    data.size = sizeof *payload;
    data.payload = payload;
    event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    event.reserved0 = 1;  // so many payloads
    event.payload.ullValue = reinterpret_cast<uintptr_t>(&data);
  }
#endif
  nvtxDomainRangePushEx(domain(), &event);
}

void pop() { nvtxDomainRangePop(domain()); }

void name_thread(const std::string& name) {
  nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), name.c_str());
}

bool built() { return true; }

}  // namespace duet::nvtx_tool
