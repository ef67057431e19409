// SPDX-License-Identifier: Apache-2.0
// cuSPARSELt: its functions, loaded when the first plan asks for them. The library has 240 MB and is linked by no
// program.
#pragma once
#include <cusparseLt.h>

#include <string>

#include "core/cuda/cusparse.h"

namespace duet::cuda {

struct CusparseLt {
  decltype(&cusparseLtGetProperty) get_property = nullptr;
  decltype(&cusparseLtInit) init = nullptr;
  decltype(&cusparseLtDestroy) destroy = nullptr;
  decltype(&cusparseLtDenseDescriptorInit) dense_descriptor_init = nullptr;
  decltype(&cusparseLtStructuredDescriptorInit) structured_descriptor_init = nullptr;
  decltype(&cusparseLtMatDescriptorDestroy) mat_descriptor_destroy = nullptr;
  decltype(&cusparseLtMatmulDescriptorInit) matmul_descriptor_init = nullptr;
  decltype(&cusparseLtMatmulAlgSelectionInit) matmul_alg_selection_init = nullptr;
  decltype(&cusparseLtMatmulAlgSelectionDestroy) matmul_alg_selection_destroy = nullptr;
  decltype(&cusparseLtMatmulAlgGetAttribute) matmul_alg_get_attribute = nullptr;
  decltype(&cusparseLtMatmulPlanInit) matmul_plan_init = nullptr;
  decltype(&cusparseLtMatmulPlanDestroy) matmul_plan_destroy = nullptr;
  decltype(&cusparseLtMatmulGetWorkspace) matmul_get_workspace = nullptr;
  decltype(&cusparseLtMatmulSearch) matmul_search = nullptr;
  decltype(&cusparseLtSpMMACompressedSize) compressed_size = nullptr;
  decltype(&cusparseLtSpMMACompress) compress = nullptr;
  decltype(&cusparseLtMatmul) matmul = nullptr;
};

// Null where the library cannot be loaded or is of another release than the headers, with the reason.
const CusparseLt* cusparselt(std::string& reason);

}  // namespace duet::cuda
