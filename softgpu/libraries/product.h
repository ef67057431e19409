// SPDX-License-Identifier: Apache-2.0
// A product of matrices in device memory, for cublas.cpp and cublaslt.cpp.
#pragma once
#include <cublas_v2.h>

#include <functional>
#include <optional>

#include "softgpu/libraries/elements.h"

namespace duet::softgpu {

// A column-major matrix of batches; rows and cols as it lies in memory.
struct Matrix {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  int64_t rows = 0, cols = 0, ld = 0, stride = 0;
};

std::optional<Element> element_of(cudaDataType type);  // none where no stand-in knows it

struct Product {
  std::string call;  // for messages
  bool transpose_a = false, transpose_b = false, tf32 = false;
  double alpha = 1, beta = 0;
  int64_t batches = 1;
  Matrix a, b, c, d;  // d = alpha op(a) op(b) + beta c

  int64_t m() const { return transpose_a ? a.cols : a.rows; }
  int64_t n() const { return transpose_b ? b.rows : b.cols; }
  int64_t k() const { return transpose_a ? a.rows : a.cols; }
  std::string invalid() const;  // "" where the arguments fit each other

  // Of (row, col) and a sum in double: what is stored in d.
  using Epilogue = std::function<double(int64_t, int64_t, double)>;
  void run(const Epilogue& epilogue = {}) const;
};

}  // namespace duet::softgpu
