// SPDX-License-Identifier: Apache-2.0
// What a profiler sees of NvtxRange: this program is one. NVTX calls the two functions at the end at its first use,
// since they are linked into the same program, and this file puts its own functions in place of those that do nothing.
#define NVTX_NO_IMPL                // declarations only: this file calls no NVTX
#define NVTX_STATIC_INJECTION_IMPL  // it defines the symbols that NVTX declares weak
#include <gmock/gmock.h>
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif

#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/nvtx.h"

namespace duet {
namespace {

using testing::ElementsAre;

struct Seen {
  std::string name, category;
  int level = 0;
  bool registered = false;
  std::optional<uint64_t> bytes;
  std::optional<double> flops;
};

struct Tool {
  std::list<std::string> strings, domains;
  std::map<uint32_t, std::string> categories, threads;
  std::map<std::thread::id, int> depth;
  std::vector<Seen> pushed;
  int popped = 0, unbalanced = 0;
};
Tool& tool() {
  static Tool instance;
  return instance;
}

constexpr uint64_t kSchema = 77;

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(&tool().domains.emplace_back(name));
}
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(&tool().strings.emplace_back(text));
}
void NVTX_API name_category(nvtxDomainHandle_t, uint32_t id, const char* name) { tool().categories[id] = name; }
void NVTX_API name_os_thread(uint32_t id, const char* name) { tool().threads[id] = name; }

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* e) {
  EXPECT_EQ(*reinterpret_cast<const std::string*>(domain), "duet");
  Seen seen;
  seen.registered = e->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  if (seen.registered) seen.name = *reinterpret_cast<const std::string*>(e->message.registered);
  if (e->category != 0) seen.category = tool().categories[e->category];
  seen.level = tool().depth[std::this_thread::get_id()]++;
#ifdef NVTX_PAYLOAD_TYPE_EXT
  if (e->payloadType == NVTX_PAYLOAD_TYPE_EXT) {
    EXPECT_EQ(e->reserved0, 1);
    const auto* data = reinterpret_cast<const nvtxPayloadData_t*>(e->payload.ullValue);
    EXPECT_EQ(data->schemaId, kSchema);
    EXPECT_EQ(data->size, 16U);
    seen.bytes.emplace();
    seen.flops.emplace();
    std::memcpy(&*seen.bytes, data->payload, 8);
    std::memcpy(&*seen.flops, static_cast<const char*>(data->payload) + 8, 8);
  }
#endif
  if (e->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64) seen.bytes = e->payload.ullValue;
  tool().pushed.push_back(seen);
  return seen.level;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  int& depth = tool().depth[std::this_thread::get_id()];
  if (depth == 0) ++tool().unbalanced;
  ++tool().popped;
  return --depth;
}

#ifdef NVTX_PAYLOAD_TYPE_EXT
uint64_t NVTX_API register_schema(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t* schema) {
  EXPECT_EQ(schema->numEntries, 2U);
  EXPECT_STREQ(schema->entries[0].name, "bytes");
  EXPECT_EQ(schema->entries[1].type, static_cast<uint64_t>(NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE));
  EXPECT_EQ(schema->entries[1].offset, 8U);
  return kSchema;
}
#endif

int attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  const auto set = [&](NvtxCallbackModule module, unsigned id, auto* function) {
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (callbacks->GetModuleFunctionTable(module, &table, &size) && id < size)
      *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  set(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  set(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePop, pop);
  set(NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_NameOsThreadA, name_os_thread);
  return 1;
}

#ifdef NVTX_PAYLOAD_TYPE_EXT
int attach_extension(nvtxExtModuleInfo_t* module) {
  module->segments->functionSlots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] =
      reinterpret_cast<intptr_t>(register_schema);
  return 1;
}
#endif

TEST(NvtxTool, SeesRegisteredNestedRangesWithCategoryAndWork) {
  tool().pushed.clear();
  tool().popped = 0;
  const NvtxName job("softmax/cpu.tuned/f32/rows:64/call/warm/threads:2",
                     {.category = "norm", .bytes = 800, .flops = 1.5});
  const NvtxName phase("measure");
  {
    const NvtxRange outer(job);
    const NvtxRange inner(phase);
  }
  ASSERT_EQ(tool().pushed.size(), 2U);
  EXPECT_EQ(tool().popped, 2);
  EXPECT_EQ(tool().unbalanced, 0);
  EXPECT_THAT(tool().domains, ElementsAre("duet"));
  const Seen &outer = tool().pushed[0], &inner = tool().pushed[1];
  EXPECT_EQ(outer.name, "softmax.cpu.tuned.f32.rows64.call.warm.threads2");
  EXPECT_TRUE(outer.registered && inner.registered) << "nsys and ncu find ranges by registered strings";
  EXPECT_EQ(outer.category, "norm");
  EXPECT_EQ(outer.bytes, 800U);
#ifdef NVTX_PAYLOAD_TYPE_EXT
  EXPECT_EQ(outer.flops, 1.5);
#endif
  EXPECT_EQ(inner.name, "measure");
  EXPECT_EQ(inner.category, "");
  EXPECT_FALSE(inner.bytes);
  EXPECT_EQ(outer.level, 0);
  EXPECT_EQ(inner.level, 1);
}

TEST(NvtxTool, SeesTheNamesOfThreads) {
  std::thread([] { name_thread("duet worker 1"); }).join();
  bool found = false;
  for (const auto& [id, name] : tool().threads) found |= name == "duet worker 1";
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace duet

extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = duet::attach;
#ifdef NVTX_PAYLOAD_TYPE_EXT
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = duet::attach_extension;
#endif
}
