// SPDX-License-Identifier: Apache-2.0
// simt.h and profile.h for builds that cannot run kernels on the host: every call gives the reason.
#include "simt/simt.h"

#include "core/build_info.h"
#include "core/error.h"
#include "simt/profile.h"

namespace duet {
namespace {
std::string unavailable_reason() {
  return std::string("this build does not run kernels on the host: ") + build_info().no_simt;
}
}  // namespace

std::unique_ptr<Context> open_simt(std::string& reason, const SimtOptions&) {
  reason = unavailable_reason();
  return nullptr;
}
std::vector<KernelProfile> profile_kernels(const std::function<void()>&) { throw Error(unavailable_reason()); }
std::optional<Occupancy> theoretical_occupancy(int, int, int, int64_t) { return {}; }

}  // namespace duet
