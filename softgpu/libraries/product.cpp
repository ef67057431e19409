// SPDX-License-Identifier: Apache-2.0
#include "softgpu/libraries/product.h"

namespace duet::softgpu {

std::optional<Element> element_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_64F:
      return Element::f64;
    case CUDA_R_32F:
      return Element::f32;
    case CUDA_R_16BF:
      return Element::bf16;
    case CUDA_R_16F:
      return Element::f16;
    case CUDA_R_32I:
      return Element::i32;
    case CUDA_R_8I:
      return Element::i8;
    case CUDA_R_8F_E4M3:
      return Element::e4m3;
    default:
      return std::nullopt;
  }
}

std::string Product::invalid() const {
  for (const auto& [matrix, name] : {std::pair{&a, "a"}, {&b, "b"}, {&c, "c"}, {&d, "d"}}) {
    if (!element_of(matrix->type)) return fmt::format("{}: the type of {}", call, name);
    if (matrix->rows <= 0 || matrix->cols <= 0)
      return fmt::format("{}: {} has {} rows and {} columns", call, name, matrix->rows, matrix->cols);
    if (matrix->ld < matrix->rows)
      return fmt::format("{}: the leading dimension {} of {} is less than its {} rows", call, matrix->ld, name,
                         matrix->rows);
    if (!matrix->data) return fmt::format("{}: {} is null", call, name);
  }
  const int64_t k_of_b = transpose_b ? b.cols : b.rows;
  if (k() != k_of_b) return fmt::format("{}: op(a) has {} columns, op(b) {} rows", call, k(), k_of_b);
  if (d.rows != m() || d.cols != n() || c.rows != m() || c.cols != n())
    return fmt::format("{}: a result of {} x {} for a product of {} x {}", call, d.rows, d.cols, m(), n());
  return batches < 1 ? fmt::format("{}: {} batches", call, batches) : "";
}

void Product::run(const Epilogue& epilogue) const {
  const auto elements = [&](const Matrix& m, const char* name) {
    return Elements(m.data, *element_of(m.type), call + ", " + name);
  };
  const Elements from_a = elements(a, "a"), from_b = elements(b, "b"), from_c = elements(c, "c");
  Elements to = elements(d, "d");
  const int64_t inner = k();
  std::vector<double> left(static_cast<size_t>(m() * inner)), right(static_cast<size_t>(inner));
  const auto factor = [&](double value) { return tf32 ? tf32_of(value) : value; };
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t i = 0; i < m(); ++i)
      for (int64_t l = 0; l < inner; ++l)
        left[static_cast<size_t>(i * inner + l)] =
            factor(from_a.load(batch * a.stride + (transpose_a ? l + i * a.ld : i + l * a.ld)));
    for (int64_t j = 0; j < n(); ++j) {
      for (int64_t l = 0; l < inner; ++l)
        right[static_cast<size_t>(l)] =
            factor(from_b.load(batch * b.stride + (transpose_b ? j + l * b.ld : l + j * b.ld)));
      for (int64_t i = 0; i < m(); ++i) {
        const double* row = left.data() + i * inner;
        double sum = 0;
        for (int64_t l = 0; l < inner; ++l) sum += row[l] * right[static_cast<size_t>(l)];
        sum *= alpha;
        if (beta != 0) sum += beta * from_c.load(batch * c.stride + i + j * c.ld);
        to.store(batch * d.stride + i + j * d.ld, epilogue ? epilogue(i, j, sum) : sum);
      }
    }
  }
}

}  // namespace duet::softgpu
