#include "simt/simt.h"

#include "core/build_info.h"

namespace duet {

std::unique_ptr<Context> open_simt(std::string& reason, const SimtOptions&) {
  reason = std::string("this build does not run kernels on the host: ") + build_info().no_simt;
  return nullptr;
}

}  // namespace duet
