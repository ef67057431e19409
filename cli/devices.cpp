// SPDX-License-Identifier: Apache-2.0
#include "cli/devices.h"

#include <set>

#include "core/build_info.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/gpu.h"
#include "simt/simt.h"

namespace duet {

Context* Devices::open(Device device, std::string& reason) {
  if (device == Device::cpu) {
    if (!cpu_) cpu_ = std::make_unique<CpuContext>(threads_.value_or(usable_threads()));
    return cpu_.get();
  }
  if (device == Device::simt) {
    if (!simt_ && no_simt_.empty()) simt_ = open_simt(no_simt_);
    reason = no_simt_;
    return simt_.get();
  }
  if (!gpu_ && no_gpu_.empty()) gpu_ = open_gpu(no_gpu_);
  reason = no_gpu_;
  return gpu_.get();
}

std::vector<std::string> known_implementations(const std::string& op) {
  std::set<std::string> names;
  for (const Implementation* i : implementations(op)) names.insert(i->name);
  for (const GoldenLine& g : registry_golden())
    if (g.op == op) names.insert(g.implementation);
  return {names.begin(), names.end()};
}

std::string not_built_reason(const std::string& implementation) {
  const Device device = device_of(implementation);
  const std::string no_cuda = build_info().no_cuda, no_simt = build_info().no_simt;
  if (device == Device::cuda && !no_cuda.empty()) return "not built here: no CUDA (" + no_cuda + ")";
  if (device == Device::simt && !no_simt.empty())
    return "not built here: kernels do not run on the host (" + no_simt + ")";
  if (implementation.starts_with("cpu.onednn")) return "not built here: no oneDNN (tools/setup --with-onednn adds it)";
  return "not built here";
}

Device device_of(const std::string& implementation) {
  return implementation.starts_with("cpu.")    ? Device::cpu
         : implementation.starts_with("simt.") ? Device::simt
                                               : Device::cuda;
}

std::string backward_of(const std::string& op) {
  const std::string name = op + "_backward";
  return ops().contains(name) ? name : "";
}

std::string unavailable_reason(const Problem& problem, const std::string& name, Devices& devices) {
  const Implementation* implementation = find_implementation(problem.name(), name);
  if (!implementation) return not_built_reason(name);
  std::string reason;
  Context* context = devices.open(implementation->device, reason);
  if (!context) return reason;
  try {  // whether an implementation serves a case is known only by making its plan
    context->enter([&] {
      if (const Plan plan = implementation->plan(problem, *context); !plan) reason = plan.reason();
    });
  } catch (const std::exception& e) {
    reason = e.what();
  }
  return reason;
}

}  // namespace duet
