// SPDX-License-Identifier: Apache-2.0
#include "simt/simt.h"

#include "core/build_info.h"
#include "core/error.h"
#include "simt/profile.h"

namespace duet {
namespace {
std::string why_not() { return std::string("this build does not run kernels on the host: ") + build_info().no_simt; }
}  // namespace

std::unique_ptr<Context> open_simt(std::string& reason, const SimtOptions&) {
  reason = why_not();
  return nullptr;
}
std::vector<KernelProfile> profile_kernels(const std::function<void()>&) { throw Error(why_not()); }
std::optional<Occupancy> theoretical_occupancy(int, int, int, int64_t) { return {}; }

}  // namespace duet
