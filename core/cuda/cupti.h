// SPDX-License-Identifier: Apache-2.0
// CUPTI's range profiler, loaded at run time: one range over all kernels of a window, in one pass, of one metric, the
// bytes that the memory reads and writes. It runs no kernel again. open_traffic() (traffic.h) is what programs call.
#pragma once
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/gpu_counters.h"

namespace duet::cuda {

// What is used of CUPTI and of the driver; null where a library lacks it. Tests fill it themselves.
struct CuptiFunctions {
  CUresult (*current_context)(CUcontext*) = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  decltype(&cuptiProfilerInitialize) initialize = nullptr;
  decltype(&cuptiDeviceGetChipName) chip_name = nullptr;
  decltype(&cuptiProfilerGetCounterAvailability) availability = nullptr;
  // Of the host: which counters a metric needs, and its value from them.
  decltype(&cuptiProfilerHostInitialize) host_initialize = nullptr;
  decltype(&cuptiProfilerHostDeinitialize) host_deinitialize = nullptr;
  decltype(&cuptiProfilerHostConfigAddMetrics) add_metrics = nullptr;
  decltype(&cuptiProfilerHostGetConfigImageSize) config_size = nullptr;
  decltype(&cuptiProfilerHostGetConfigImage) config = nullptr;
  decltype(&cuptiProfilerHostGetNumOfPasses) passes = nullptr;
  decltype(&cuptiProfilerHostEvaluateToGpuValues) evaluate = nullptr;
  // Of the device.
  decltype(&cuptiRangeProfilerEnable) enable = nullptr;
  decltype(&cuptiRangeProfilerDisable) disable = nullptr;
  decltype(&cuptiRangeProfilerGetCounterDataSize) data_size = nullptr;
  decltype(&cuptiRangeProfilerCounterDataImageInitialize) data_initialize = nullptr;
  decltype(&cuptiRangeProfilerSetConfig) set_config = nullptr;
  decltype(&cuptiRangeProfilerStart) start = nullptr;
  decltype(&cuptiRangeProfilerStop) stop = nullptr;
  decltype(&cuptiRangeProfilerPushRange) push = nullptr;
  decltype(&cuptiRangeProfilerPopRange) pop = nullptr;
  decltype(&cuptiRangeProfilerDecodeData) decode = nullptr;
};
// Null with `reason` where libcupti cannot be loaded, or is too old. It stays loaded.
std::optional<CuptiFunctions> load_cupti(std::string& reason);

// What the range profiler needs to know of a chip.
class CuptiMetric {
 public:
  static constexpr const char* kName = "dram__bytes.sum";
  // availability: of the counters, as the device reports them; empty: all that the chip has.
  static std::unique_ptr<CuptiMetric> make(const CuptiFunctions& functions, const char* chip,
                                           const std::vector<uint8_t>& availability, std::string& reason);
  ~CuptiMetric();
  CuptiMetric(const CuptiMetric&) = delete;
  CuptiMetric& operator=(const CuptiMetric&) = delete;
  const std::vector<uint8_t>& config() const { return config_; }
  std::optional<double> evaluate(const std::vector<uint8_t>& data, std::string& reason) const;

 private:
  explicit CuptiMetric(const CuptiFunctions& functions) : functions_(functions) {}
  CuptiFunctions functions_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  std::vector<uint8_t> config_;
};

class CuptiTraffic final : public GpuTraffic {
 public:
  static std::unique_ptr<CuptiTraffic> open(const CuptiFunctions& functions, int device, std::string& reason);
  ~CuptiTraffic() override;
  CuptiTraffic(const CuptiTraffic&) = delete;
  CuptiTraffic& operator=(const CuptiTraffic&) = delete;
  bool start(std::string& reason) override;
  std::optional<double> stop(std::string& reason) override;

 private:
  CuptiTraffic(const CuptiFunctions& functions, std::unique_ptr<CuptiMetric> metric)
      : functions_(functions), metric_(std::move(metric)) {}
  bool prepare(std::string& reason);
  bool finish(std::string& reason);
  void disable();
  CuptiFunctions functions_;
  std::unique_ptr<CuptiMetric> metric_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;  // while a range is open
  std::vector<uint8_t> data_;
};

}  // namespace duet::cuda
