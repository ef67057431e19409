// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/cusparselt.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace duet::cuda {
namespace {

struct Loaded {
  CusparseLt functions;
  std::string reason;  // why there are none
};

Loaded load(const std::string& name) {
  Loaded all;
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* error = dlerror();
    all.reason = fmt::format("{} cannot be loaded: {}", name, error ? error : "unknown");
    return all;
  }
  const auto find = [&]<class F>(F*& function, const char* of) {
    function = reinterpret_cast<F*>(dlsym(library, of));
    if (!function && all.reason.empty()) all.reason = fmt::format("{} has no {}", name, of);
  };
  CusparseLt& f = all.functions;
  find(f.get_property, "cusparseLtGetProperty");
  find(f.init, "cusparseLtInit");
  find(f.destroy, "cusparseLtDestroy");
  find(f.dense_descriptor_init, "cusparseLtDenseDescriptorInit");
  find(f.structured_descriptor_init, "cusparseLtStructuredDescriptorInit");
  find(f.mat_descriptor_destroy, "cusparseLtMatDescriptorDestroy");
  find(f.matmul_descriptor_init, "cusparseLtMatmulDescriptorInit");
  find(f.matmul_alg_selection_init, "cusparseLtMatmulAlgSelectionInit");
  find(f.matmul_alg_selection_destroy, "cusparseLtMatmulAlgSelectionDestroy");
  find(f.matmul_alg_get_attribute, "cusparseLtMatmulAlgGetAttribute");
  find(f.matmul_plan_init, "cusparseLtMatmulPlanInit");
  find(f.matmul_plan_destroy, "cusparseLtMatmulPlanDestroy");
  find(f.matmul_get_workspace, "cusparseLtMatmulGetWorkspace");
  find(f.matmul_search, "cusparseLtMatmulSearch");
  find(f.compressed_size, "cusparseLtSpMMACompressedSize");
  find(f.compress, "cusparseLtSpMMACompress");
  find(f.matmul, "cusparseLtMatmul");
  if (!all.reason.empty()) return all;
  int major = -1, minor = -1;  // releases below 1.0 promise no common layout of the structs
  f.get_property(MAJOR_VERSION, &major);
  f.get_property(MINOR_VERSION, &minor);
  if (major != CUSPARSELT_VER_MAJOR || minor != CUSPARSELT_VER_MINOR)
    all.reason = fmt::format("{} is of release {}.{}, and this was built for {}.{}", name, major, minor,
                             CUSPARSELT_VER_MAJOR, CUSPARSELT_VER_MINOR);
  return all;
}

}  // namespace

const CusparseLt* cusparselt(std::string& reason) {
  static const Loaded all = [] {
    Loaded by_name = load(fmt::format("libcusparseLt.so.{}", CUSPARSELT_VER_MAJOR));
    if (by_name.reason.empty()) return by_name;
    Loaded configured = load(DUET_CUSPARSELT_LIBRARY);  // where it was when this was configured
    return configured.reason.empty() ? configured : by_name;
  }();
  reason = all.reason;
  return reason.empty() ? &all.functions : nullptr;
}

}  // namespace duet::cuda
