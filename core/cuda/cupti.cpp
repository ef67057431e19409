// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/cupti.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/cuda/traffic.h"

namespace duet::cuda {
namespace {

#define DUET_CUPTI_PARAMS(type, name) \
  type name{};                        \
  name.structSize = type##_STRUCT_SIZE

std::string reason_of(const CuptiFunctions& f, CUptiResult result, const char* function) {
  const char* text = nullptr;
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "the driver keeps counters for administrators: run as root, or load it with "
             "NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "the GPU is virtual, and its host does not allow counters";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "another profiler uses the GPU's counters";
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
      return "CUPTI counts nothing of a part of a GPU (MIG)";
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return "CUPTI counts nothing in confidential computing";
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
      return "CUPTI counts nothing under WSL";
    default:
      f.result_string(result, &text);
      return fmt::format("{}: {} ({})", function, text ? text : "error", static_cast<int>(result));
  }
}

// Whether a call succeeded; else the reason.
bool succeeded(const CuptiFunctions& f, CUptiResult result, const char* function, std::string& reason) {
  if (result != CUPTI_SUCCESS) reason = reason_of(f, result, function);
  return result == CUPTI_SUCCESS;
}

// Members of `f` are named like the functions: DUET_CUPTI(enable(&p)) is false where it fails.
#define DUET_CUPTI(member, params) succeeded(functions_, functions_.member(params), #member, reason)

// libcupti.so.13: of the toolkit that this was compiled with, whose structures it takes.
std::string library_name() { return fmt::format("libcupti.so.{}", CUDA_VERSION / 1000); }

}  // namespace

std::optional<CuptiFunctions> load_cupti(std::string& reason) {
  void* cupti = dlopen(library_name().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!cupti) cupti = dlopen(DUET_CUPTI_LIBRARY, RTLD_NOW | RTLD_LOCAL);  // where this was configured
  if (!cupti) {
    const char* error = dlerror();
    reason = fmt::format("{} cannot be loaded: {}", library_name(), error ? error : "unknown");
    return std::nullopt;
  }
  CuptiFunctions f;
  bool complete = true;
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(cupti, name));
    complete &= function != nullptr;
  };
  find(f.result_string, "cuptiGetResultString");
  find(f.initialize, "cuptiProfilerInitialize");
  find(f.chip_name, "cuptiDeviceGetChipName");
  find(f.availability, "cuptiProfilerGetCounterAvailability");
  find(f.host_initialize, "cuptiProfilerHostInitialize");
  find(f.host_deinitialize, "cuptiProfilerHostDeinitialize");
  find(f.add_metrics, "cuptiProfilerHostConfigAddMetrics");
  find(f.config_size, "cuptiProfilerHostGetConfigImageSize");
  find(f.config, "cuptiProfilerHostGetConfigImage");
  find(f.passes, "cuptiProfilerHostGetNumOfPasses");
  find(f.evaluate, "cuptiProfilerHostEvaluateToGpuValues");
  find(f.enable, "cuptiRangeProfilerEnable");
  find(f.disable, "cuptiRangeProfilerDisable");
  find(f.data_size, "cuptiRangeProfilerGetCounterDataSize");
  find(f.data_initialize, "cuptiRangeProfilerCounterDataImageInitialize");
  find(f.set_config, "cuptiRangeProfilerSetConfig");
  find(f.start, "cuptiRangeProfilerStart");
  find(f.stop, "cuptiRangeProfilerStop");
  find(f.push, "cuptiRangeProfilerPushRange");
  find(f.pop, "cuptiRangeProfilerPopRange");
  find(f.decode, "cuptiRangeProfilerDecodeData");
  if (!complete) {
    reason = library_name() + " has no range profiler";
    return std::nullopt;
  }
  if (void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    f.current_context = reinterpret_cast<decltype(f.current_context)>(dlsym(driver, "cuCtxGetCurrent"));
  return f;
}

// --- the metric

std::unique_ptr<CuptiMetric> CuptiMetric::make(const CuptiFunctions& functions, const char* chip,
                                               const std::vector<uint8_t>& availability, std::string& reason) {
  const CuptiFunctions& functions_ = functions;
  std::unique_ptr<CuptiMetric> made(new CuptiMetric(functions));
  DUET_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params, host);
  host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  host.pChipName = chip;
  host.pCounterAvailabilityImage = availability.empty() ? nullptr : availability.data();
  if (!DUET_CUPTI(host_initialize, &host)) return nullptr;
  made->host_ = host.pHostObject;

  const char* name = kName;
  DUET_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, metrics);
  metrics.pHostObject = made->host_;
  metrics.ppMetricNames = &name;
  metrics.numMetrics = 1;
  if (!DUET_CUPTI(add_metrics, &metrics)) {  // to go on would crash
    reason = fmt::format("{} has no {} ({})", chip, kName, reason);
    return nullptr;
  }

  DUET_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = made->host_;
  if (!DUET_CUPTI(config_size, &size)) return nullptr;
  made->config_.resize(size.configImageSize);
  DUET_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, image);
  image.pHostObject = made->host_;
  image.configImageSize = made->config_.size();
  image.pConfigImage = made->config_.data();
  if (!DUET_CUPTI(config, &image)) return nullptr;

  DUET_CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, count);
  count.configImageSize = made->config_.size();
  count.pConfigImage = made->config_.data();
  if (!DUET_CUPTI(passes, &count)) return nullptr;
  if (count.numOfPasses == 1) return made;
  reason = fmt::format("{} takes {} passes on {}, and a window has one", kName, count.numOfPasses, chip);
  return nullptr;
}

CuptiMetric::~CuptiMetric() {
  if (!host_) return;
  DUET_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, params);
  params.pHostObject = host_;
  functions_.host_deinitialize(&params);
}

std::optional<double> CuptiMetric::evaluate(const std::vector<uint8_t>& data, std::string& reason) const {
  const char* name = kName;
  double value = 0;
  DUET_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, params);
  params.pHostObject = host_;
  params.pCounterDataImage = data.data();
  params.counterDataImageSize = data.size();
  params.rangeIndex = 0;
  params.ppMetricNames = &name;
  params.numMetrics = 1;
  params.pMetricValues = &value;
  return DUET_CUPTI(evaluate, &params) ? std::optional(value) : std::nullopt;
}

// --- a window

std::unique_ptr<CuptiTraffic> CuptiTraffic::open(const CuptiFunctions& functions, int device, std::string& reason) {
  const CuptiFunctions& functions_ = functions;
  DUET_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params, profiler);
  if (!DUET_CUPTI(initialize, &profiler)) return nullptr;
  DUET_CUPTI_PARAMS(CUpti_Device_GetChipName_Params, chip);
  chip.deviceIndex = static_cast<size_t>(device);
  if (!DUET_CUPTI(chip_name, &chip)) return nullptr;
  DUET_CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, available);  // of the current context
  if (!DUET_CUPTI(availability, &available)) return nullptr;
  std::vector<uint8_t> image(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = image.data();
  if (!DUET_CUPTI(availability, &available)) return nullptr;
  auto metric = CuptiMetric::make(functions, chip.pChipName, image, reason);
  return metric ? std::unique_ptr<CuptiTraffic>(new CuptiTraffic(functions, std::move(metric))) : nullptr;
}

CuptiTraffic::~CuptiTraffic() { disable(); }

void CuptiTraffic::disable() {
  if (!profiler_) return;
  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, params);
  params.pRangeProfilerObject = std::exchange(profiler_, nullptr);
  functions_.disable(&params);
}

bool CuptiTraffic::start(std::string& reason) {
  const bool prepared = prepare(reason);
  if (!prepared) disable();
  return prepared;
}

bool CuptiTraffic::prepare(std::string& reason) {
  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params, enabled);
  if (!functions_.current_context || functions_.current_context(&enabled.ctx) != CUDA_SUCCESS || !enabled.ctx) {
    reason = "the driver names no context of this thread";
    return false;
  }
  if (!DUET_CUPTI(enable, &enabled)) return false;
  profiler_ = enabled.pRangeProfilerObject;

  const char* name = CuptiMetric::kName;
  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
  size.pRangeProfilerObject = profiler_;
  size.pMetricNames = &name;
  size.numMetrics = 1;
  size.maxNumOfRanges = 1;
  size.maxNumRangeTreeNodes = 1;
  if (!DUET_CUPTI(data_size, &size)) return false;
  data_.assign(size.counterDataSize, 0);
  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, image);
  image.pRangeProfilerObject = profiler_;
  image.counterDataSize = data_.size();
  image.pCounterData = data_.data();
  if (!DUET_CUPTI(data_initialize, &image)) return false;

  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params, config);
  config.pRangeProfilerObject = profiler_;
  config.configSize = metric_->config().size();
  config.pConfig = metric_->config().data();
  config.counterDataImageSize = data_.size();
  config.pCounterDataImage = data_.data();
  config.range = CUPTI_UserRange;
  config.replayMode = CUPTI_UserReplay;
  config.maxRangesPerPass = 1;
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.targetNestingLevel = 1;
  if (!DUET_CUPTI(set_config, &config)) return false;

  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params, started);
  started.pRangeProfilerObject = profiler_;
  if (!DUET_CUPTI(start, &started)) return false;
  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_PushRange_Params, range);
  range.pRangeProfilerObject = profiler_;
  range.pRangeName = "window";
  return DUET_CUPTI(push, &range);
}

std::optional<double> CuptiTraffic::stop(std::string& reason) {
  if (!profiler_) return std::nullopt;  // start() has failed, and said why
  std::optional<double> bytes;
  if (finish(reason)) bytes = metric_->evaluate(data_, reason);
  disable();
  return bytes;
}

bool CuptiTraffic::finish(std::string& reason) {
  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_PopRange_Params, range);
  range.pRangeProfilerObject = profiler_;
  if (!DUET_CUPTI(pop, &range)) return false;
  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params, stopped);
  stopped.pRangeProfilerObject = profiler_;
  if (!DUET_CUPTI(stop, &stopped)) return false;
  DUET_CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decoded);
  decoded.pRangeProfilerObject = profiler_;
  if (!DUET_CUPTI(decode, &decoded)) return false;
  if (stopped.isAllPassSubmitted && decoded.numOfRangeDropped == 0) return true;
  reason = "CUPTI has dropped the window";
  return false;
}

std::unique_ptr<GpuTraffic> open_traffic(int device, std::string& reason) {
  const std::optional<CuptiFunctions> functions = load_cupti(reason);
  return functions ? CuptiTraffic::open(*functions, device, reason) : nullptr;
}

}  // namespace duet::cuda
