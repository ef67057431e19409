// SPDX-License-Identifier: Apache-2.0
// Recurrent layers as a composition of OpenBLAS's products and plain loops. Each thread takes a slice of the sequences
// through all steps, with products of its own: OpenBLAS's threads would meet at the end of every product, and wait
// there for one that has no core. bf16 and f16 are widened first. Nothing of cpu.tuned but its names is used (layer.h),
// so that core/coverage.h can compare each of the two with the other, element by element. What both passes share is
// here; recurrent_openblas.cpp and recurrent_backward_openblas.cpp have a pass each.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "cpu_ref/chunks.h"
#include "cpu_ref/gemm/openblas.h"
#include "cpu_ref/recurrent/layer.h"

namespace duet::recurrent::by_openblas {

struct Matrix {
  const float* data;
  int64_t pitch;  // floats from row to row
  bool transposed = false;
};

// c (m, n) = a (m, k) b (k, n), plus c where `add` is set. With k = 0, OpenBLAS would leave c as it is.
inline void multiply(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t pitch,
                     bool add = false) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t i = 0; i < m && !add; ++i) std::fill_n(c + i * pitch, n, 0.0f);
    return;
  }
  using openblas::step;
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
              step(m), step(n), step(k), 1, a.data, step(a.pitch), b.data, step(b.pitch), add ? 1 : 0, c, step(pitch));
}

// A tensor in f32: itself, or a copy in the workspace.
struct Wide {
  int64_t count = 0;
  WorkspacePiece<float> copy = {};
};
class Widening {
 public:
  Widening(const Layer& p, CpuContext& cpu) : dtype_(p.dtype), cpu_(&cpu) {}
  Wide add(int64_t count, WorkspaceLayout& workspace) const {
    return {count, workspace.add<float>(dtype_ == DType::f32 ? 0 : count)};
  }
  const float* read(const Wide& w, const void* tensor, Args t) const {
    if (dtype_ == DType::f32) return static_cast<const float*>(tensor);
    float* to = t.workspace(w.copy);
    parallel_chunks(*cpu_, w.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) to[i] = static_cast<float>(load_as_double(tensor, dtype_, i));
    });
    return to;
  }
  // Where an output is computed, and what makes the output of it afterwards.
  float* target(const Wide& w, void* tensor, Args t) const {
    return dtype_ == DType::f32 ? static_cast<float*>(tensor) : t.workspace(w.copy);
  }
  void write(const Wide& w, const float* from, void* tensor) const {
    if (dtype_ == DType::f32) return;
    parallel_chunks(*cpu_, w.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) store_double(tensor, dtype_, i, static_cast<double>(from[i]));
    });
  }

 private:
  DType dtype_;
  CpuContext* cpu_;
};

// Copies `n` floats from `row` to `to`; zeros where there is no row.
inline void copy_row(const float* row, int64_t n, float* to) {
  if (row)
    std::copy_n(row, n, to);
  else
    std::fill_n(to, n, 0.0f);
}
// The steps of sequence b.
inline int64_t steps_of(const Layer& p, const int32_t* lengths, int64_t b) {
  return lengths ? p.length_of(lengths[b]) : p.T;
}

inline float logistic(float v) { return 1 / (1 + std::exp(-v)); }

inline std::string unsupported_reason(const Layer& p) {
  if (!is_simd_dtype(p.dtype)) return kNotSimdDtype;
  if (!openblas::fits({p.T * p.B, p.G() * p.H, p.I, p.D() * p.H})) return "a dimension over 2^31 - 1";
  return "";
}

// Sequences [first, last) of slice i are those of one task.
struct Slices {
  int64_t B, count;
  int threads;  // of OpenBLAS
  Slices(const Layer& p, const CpuContext& cpu, int64_t floats_of_slice) : B(p.B) {
    constexpr int64_t kMinRows = 4, kMaxFloats = int64_t{64} << 20;  // of all slices
    count = std::min(ceil_div(B, kMinRows), kMaxFloats / std::max<int64_t>(1, floats_of_slice));
    count = std::clamp<int64_t>(count, 1, cpu.threads());
    threads = count == 1 ? cpu.threads() : 1;
  }
  int64_t row(int64_t slice) const { return B * slice / count; }
  // Calls body(i, first, last) for each slice.
  void run(const CpuContext& cpu, const auto& body) const {
    openblas::use_threads(threads);
    if (count == 1) return body(0, 0, B);
    cpu.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i, row(i), row(i + 1));
    });
  }
};

// Plan of a forward or backward pass: Pass is what computes it, Tensors are those it runs on.
template <class Pass, class Tensors, class P>
Plan plan_of(const P& problem, CpuContext& cpu, const char* algorithm) {
  const Layer p(problem);
  if (const std::string why = unsupported_reason(p); !why.empty()) return Unsupported{why};
  WorkspaceLayout workspace;
  const Pass pass(p, cpu, workspace);
  return Plan([pass](Args t) { pass.run(Tensors::template of<P>(pass.p, t), t); })
      .with(algorithm, std::move(workspace));
}

}  // namespace duet::recurrent::by_openblas
