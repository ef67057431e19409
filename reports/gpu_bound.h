// SPDX-License-Identifier: Apache-2.0
// What a GPU that was not measured could bring at most: the roofline of its data sheet (gpu_table.h) against the CPU's
// measured times. An upper bound of the speedup, never a measurement; no ratio of measured rows takes part.
//
//   resident     max(flops / peak of the dtype, bytes / bandwidth) + launch
//   with copies  the same + copied bytes / one direction of PCIe: of an op each tensor crosses the link at least once,
//                of a training step its inputs and its loss
//
// What is certain is less: warm bytes may lie in the L2, and copies may overlap the kernel and each other.
//
//   resident     max(flops / peak, (bytes - L2 if warm) / bandwidth) + launch; of a step flops / peak + launch
//   with copies  max(that work, the larger of input and output / one direction of PCIe) + launch: of an op the larger
//                one has at least half of the footprint
//
// `duet project` and the report of a run without a GPU show it (sections_gpu_bound.cpp, gpu_bound_json.cpp).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reports/analysis.h"
#include "reports/document.h"
#include "reports/gpu_table.h"

namespace duet::reports {

// Whether the GPU can be faster than the CPU was.
//   cannot    certain, given the launch: even the part of the bound that nothing can undercut takes longer
//   doubtful  the bound takes longer, but data that stay in the GPU's L2, or fused kernels, might undercut it
//   might     the bound is shorter
enum class Outlook : uint8_t { cannot, doubtful, might };
const char* to_text(Outlook outlook);

struct GpuTimeBound {
  double time_s = 0;      // the bound
  double certain_s = 0;   // no run can take less: see above
  bool undercut = false;  // data in the L2 or fused kernels could be faster than `time_s`
  Outlook outlook = Outlook::cannot;
  double ratio = 0;  // CPU / bound: the speedup is at most this
  // Of a run on this GPU: its time, and bound / time. Above 1 the bound was undercut.
  std::optional<double> measured_s, reached;
};

struct GpuBoundRow {
  std::string case_name, family;
  Choice cpu;
  std::string no_bound_reason = {};                             // then there is no bound
  std::optional<GpuTimeBound> resident = {}, with_copies = {};  // older run files lack what steps copy
  const char* limit = "";  // compute, memory, launch: the largest part of `resident`
  bool weak_cpu = false;
  std::string measured_impl = {};
};

// The size from which the GPU might be ahead, by the measured sizes of a sweep.
struct GpuBreakEven {
  enum class Kind : uint8_t {
    unknown,   // no size has a bound
    never,     // at every measured size it cannot
    doubtful,  // not ahead at the largest size, without certainty
    from_smallest,
    between  // not ahead at `below`, ahead from `from`
  } kind = Kind::unknown;
  int64_t below = 0, from = 0, largest = 0;
};
std::string to_text(const GpuBreakEven& at, const std::string& size_name);

struct GpuBreakEvenRow {
  const Sweep* sweep;
  GpuBreakEven resident, with_copies;
};

struct GpuBound {
  const GpuFigures* gpu;
  std::vector<GpuBoundRow> rows;  // by the resident ratio, largest first; those without a bound last
  std::vector<GpuBreakEvenRow> break_evens;
  std::string measured_device;  // where a run of this GPU was given
  size_t count(Outlook outlook, std::optional<GpuTimeBound> GpuBoundRow::*bound) const;
  // Median ratio of the rows where the GPU might be ahead.
  std::optional<double> median_ratio(std::optional<GpuTimeBound> GpuBoundRow::*bound) const;
};

// `measured`: a run of this GPU, or null. Pointers point into `run` and `gpu`.
GpuBound gpu_bound(const Run& run, const GpuFigures& gpu, double launch_s, const Run* measured = nullptr);

// --- as text (sections_gpu_bound.cpp, gpu_bound_json.cpp)

struct GpuBoundShown {
  size_t max_rows = 1000000;  // of the table of cases
  bool fold_cases = false;
};
std::string gpu_bound_sentence(const GpuBound& bound);
Section gpu_bound_section(const std::vector<GpuBound>& bounds, const GpuTable& table, const GpuBoundShown& shown);
std::string gpu_bound_console(const Run& run, const std::vector<GpuBound>& bounds, const GpuTable& table);
std::string gpu_bound_json(const Run& run, const std::vector<GpuBound>& bounds, const GpuTable& table);
// The page of `duet project`.
Document gpu_bound_document(const Run& run, const std::vector<GpuBound>& bounds, const GpuTable& table);
// For a report: the section of a run without a GPU, for GPUs that are common.
void add_gpu_bound(const Run& run, const Analysis& analysis, Document& document);

}  // namespace duet::reports
