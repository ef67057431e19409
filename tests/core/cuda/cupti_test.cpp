// SPDX-License-Identifier: Apache-2.0
// CUPTI's range profiler with functions of our own in its place; and its host half, which needs no GPU, as it is.
#include "core/cuda/cupti.h"

#include <gmock/gmock.h>

#include <cstring>

namespace duet::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The libraries' state: which calls were made, and which one fails.
struct FakeCupti {
  std::vector<std::string> calls;
  std::string failing;
  CUptiResult error = CUPTI_ERROR_UNKNOWN;
  size_t passes = 1, dropped = 0;
  bool has_context = true;
  CUptiResult called(const std::string& name) {
    calls.push_back(name);
    return name == failing ? error : CUPTI_SUCCESS;
  }
} library;
int a_context, a_host, a_profiler;
template <class T>
T* handle(int& object) {
  return reinterpret_cast<T*>(&object);
}

CuptiFunctions fake() {
  library = {};
  CuptiFunctions f;
  f.current_context = [](CUcontext* context) {
    *context = library.has_context ? handle<CUctx_st>(a_context) : nullptr;
    return CUDA_SUCCESS;
  };
  f.result_string = [](CUptiResult, const char** text) {
    *text = "CUPTI_ERROR_FAKE";
    return CUPTI_SUCCESS;
  };
  f.initialize = [](CUpti_Profiler_Initialize_Params* p) {
    EXPECT_EQ(p->structSize, CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
    return library.called("initialize");
  };
  f.chip_name = [](CUpti_Device_GetChipName_Params* p) {
    p->pChipName = p->deviceIndex == 0 ? "GH100" : "none";
    return library.called("chip_name");
  };
  f.availability = [](CUpti_Profiler_GetCounterAvailability_Params* p) {
    p->counterAvailabilityImageSize = 3;
    if (p->pCounterAvailabilityImage) p->pCounterAvailabilityImage[2] = 7;
    return library.called("availability");
  };
  f.host_initialize = [](CUpti_Profiler_Host_Initialize_Params* p) {
    EXPECT_STREQ(p->pChipName, "GH100");
    EXPECT_EQ(p->pCounterAvailabilityImage[2], 7);
    EXPECT_EQ(p->profilerType, CUPTI_PROFILER_TYPE_RANGE_PROFILER);
    p->pHostObject = handle<CUpti_Profiler_Host_Object>(a_host);
    return library.called("host_initialize");
  };
  f.host_deinitialize = [](CUpti_Profiler_Host_Deinitialize_Params*) { return library.called("host_deinitialize"); };
  f.add_metrics = [](CUpti_Profiler_Host_ConfigAddMetrics_Params* p) {
    EXPECT_EQ(p->numMetrics, 1u);
    EXPECT_STREQ(p->ppMetricNames[0], "dram__bytes.sum");
    return library.called("add_metrics");
  };
  f.config_size = [](CUpti_Profiler_Host_GetConfigImageSize_Params* p) {
    p->configImageSize = 5;
    return library.called("config_size");
  };
  f.config = [](CUpti_Profiler_Host_GetConfigImage_Params* p) {
    std::memset(p->pConfigImage, 9, p->configImageSize);
    return library.called("config");
  };
  f.passes = [](CUpti_Profiler_Host_GetNumOfPasses_Params* p) {
    p->numOfPasses = library.passes;
    return library.called("passes");
  };
  f.evaluate = [](CUpti_Profiler_Host_EvaluateToGpuValues_Params* p) {
    EXPECT_EQ(p->counterDataImageSize, 11u);
    EXPECT_EQ(p->rangeIndex, 0u);
    p->pMetricValues[0] = 1e9;
    return library.called("evaluate");
  };
  f.enable = [](CUpti_RangeProfiler_Enable_Params* p) {
    EXPECT_EQ(p->ctx, handle<CUctx_st>(a_context));
    p->pRangeProfilerObject = handle<CUpti_RangeProfiler_Object>(a_profiler);
    return library.called("enable");
  };
  f.disable = [](CUpti_RangeProfiler_Disable_Params* p) {
    EXPECT_EQ(p->pRangeProfilerObject, handle<CUpti_RangeProfiler_Object>(a_profiler));
    return library.called("disable");
  };
  f.data_size = [](CUpti_RangeProfiler_GetCounterDataSize_Params* p) {
    p->counterDataSize = 11;
    return library.called("data_size");
  };
  f.data_initialize = [](CUpti_RangeProfiler_CounterDataImage_Initialize_Params* p) {
    EXPECT_EQ(p->counterDataSize, 11u);
    return library.called("data_initialize");
  };
  f.set_config = [](CUpti_RangeProfiler_SetConfig_Params* p) {
    EXPECT_EQ(p->range, CUPTI_UserRange);
    EXPECT_EQ(p->replayMode, CUPTI_UserReplay) << "no kernel is to run again";
    EXPECT_EQ(p->configSize, 5u);
    return library.called("set_config");
  };
  f.start = [](CUpti_RangeProfiler_Start_Params*) { return library.called("start"); };
  f.stop = [](CUpti_RangeProfiler_Stop_Params* p) {
    p->isAllPassSubmitted = 1;
    return library.called("stop");
  };
  f.push = [](CUpti_RangeProfiler_PushRange_Params*) { return library.called("push"); };
  f.pop = [](CUpti_RangeProfiler_PopRange_Params*) { return library.called("pop"); };
  f.decode = [](CUpti_RangeProfiler_DecodeData_Params* p) {
    p->numOfRangeDropped = library.dropped;
    return library.called("decode");
  };
  return f;
}

TEST(Cupti, AWindowIsOneRangeInOnePass) {
  std::string reason;
  {
    const auto traffic = CuptiTraffic::open(fake(), 0, reason);
    ASSERT_TRUE(traffic) << reason;
    for (int window = 0; window < 2; ++window) {
      library.calls.clear();
      ASSERT_TRUE(traffic->start(reason)) << reason;
      EXPECT_EQ(traffic->stop(reason), 1e9) << reason;
      EXPECT_THAT(library.calls, ElementsAre("enable", "data_size", "data_initialize", "set_config", "start", "push",
                                             "pop", "stop", "decode", "evaluate", "disable"));
    }
    ASSERT_TRUE(traffic->start(reason));
    library.calls.clear();
  }
  EXPECT_THAT(library.calls, ElementsAre("disable", "host_deinitialize")) << "also where a window was left open";
}

TEST(Cupti, WhatFailsWhenItIsOpenedHasAReason) {
  for (const std::string name : {"initialize", "chip_name", "availability", "host_initialize", "add_metrics",
                                 "config_size", "config", "passes"}) {
    const CuptiFunctions functions = fake();
    library.failing = name;
    std::string reason;
    EXPECT_FALSE(CuptiTraffic::open(functions, 0, reason)) << name;
    EXPECT_THAT(reason, HasSubstr(name + ": CUPTI_ERROR_FAKE (999)"));
    EXPECT_EQ(library.calls.back(),
              name == "initialize" || name == "chip_name" || name == "availability" || name == "host_initialize"
                  ? name
                  : "host_deinitialize");
  }
  const CuptiFunctions functions = fake();
  library.passes = 2;
  std::string reason;
  EXPECT_FALSE(CuptiTraffic::open(functions, 0, reason));
  EXPECT_THAT(reason, HasSubstr("takes 2 passes on GH100"));
}

TEST(Cupti, WhatFailsInAWindowHasAReasonAndLeavesNothingEnabled) {
  for (const std::string name :
       {"enable", "data_size", "data_initialize", "set_config", "start", "push", "pop", "stop", "decode", "evaluate"}) {
    std::string reason;
    const auto traffic = CuptiTraffic::open(fake(), 0, reason);
    ASSERT_TRUE(traffic);
    library.calls.clear();
    library.failing = name;
    const bool started = traffic->start(reason);
    EXPECT_FALSE(traffic->stop(reason)) << name;
    EXPECT_EQ(reason, name + ": CUPTI_ERROR_FAKE (999)");
    EXPECT_EQ(started, name == "pop" || name == "stop" || name == "decode" || name == "evaluate");
    EXPECT_EQ(library.calls.back(), name == "enable" ? "enable" : "disable");
  }
  std::string reason;
  const auto traffic = CuptiTraffic::open(fake(), 0, reason);
  library.dropped = 1;
  ASSERT_TRUE(traffic->start(reason));
  EXPECT_FALSE(traffic->stop(reason));
  EXPECT_THAT(reason, HasSubstr("dropped"));
  library.has_context = false;
  EXPECT_FALSE(traffic->start(reason));
  EXPECT_THAT(reason, HasSubstr("no context"));
}

TEST(Cupti, RefusalsSayWhatToDo) {
  const std::vector<std::pair<CUptiResult, const char*>> refusals{
      {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "NVreg_RestrictProfilingToAdminUsers=0"},
      {CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "virtual"},
      {CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, "virtual"},
      {CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "another profiler"},
      {CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED, "MIG"}};
  for (const auto& [error, part] : refusals) {
    const CuptiFunctions functions = fake();
    library.failing = "availability";
    library.error = error;
    std::string reason;
    EXPECT_FALSE(CuptiTraffic::open(functions, 0, reason));
    EXPECT_THAT(reason, HasSubstr(part));
  }
}

TEST(Cupti, TheLibraryCountsTheMetricInOnePassOnChipsOfToday) {
  std::string reason;
  const auto functions = load_cupti(reason);
  if (!functions) GTEST_SKIP() << reason;
  for (const char* chip : {"TU102", "GA100", "GA102", "AD102", "GH100", "GB100", "GB202"}) {
    const auto metric = CuptiMetric::make(*functions, chip, {}, reason);
    ASSERT_TRUE(metric) << chip << ": " << reason;
    EXPECT_GT(metric->config().size(), 0u) << chip;
  }
  EXPECT_FALSE(CuptiMetric::make(*functions, "GA10B", {}, reason)) << "its memory is the host's";
  EXPECT_THAT(reason, HasSubstr("GA10B has no dram__bytes.sum"));
  EXPECT_FALSE(CuptiMetric::make(*functions, "XY999", {}, reason));
  EXPECT_THAT(reason, HasSubstr("host_initialize"));
}

}  // namespace
}  // namespace duet::cuda
