// SPDX-License-Identifier: Apache-2.0
// gemm_2_4 by the matrix engine (engine.h): where it packs a strip of a, the kept values go to their places and the
// others are 0. The product is then a dense one, as no CPU multiplies such matrices by hardware.
#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/gemm/engine.h"
#include "ops/gemm/gemm_2_4.h"

namespace duet {
namespace {

// The rows of a, from kept values of type T.
template <class T>
class Expanded final : public engine::Operand {
 public:
  Expanded(const T* value, const uint8_t* meta, int64_t k) : value_(value), meta_(meta), k_(k) {}

  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override {
    std::fill_n(to, (k1 - k0) * height, 0.0f);
    for (int64_t i = 0; i < lines; ++i) {
      const T* value = value_ + (line0 + i) * (k_ / 2);
      const uint8_t* meta = meta_ + (line0 + i) * (k_ / 8);
      for (int64_t group = k0 / 4; 4 * group < k1; ++group) {
        const int bits = meta[group / 2] >> (4 * (group % 2)) & 15;
        for (int s = 0; s < 2; ++s) {
          const int64_t p = 4 * group + (bits >> (2 * s) & 3);
          if (p >= k0 && p < k1) to[(p - k0) * height + i] = static_cast<float>(value[2 * group + s]);
        }
      }
    }
  }

 private:
  const T* value_;
  const uint8_t* meta_;
  int64_t k_;
};

template <class T>
Plan plan(const Gemm24& p, CpuContext& cpu) {
  WorkspaceLayout workspace;
  engine::Engine engine(
      cpu, workspace,
      {.m = p.m, .n = p.n, .k = p.k, .result = p.dtype, .a = {.indexed = true}, .b = {.dtype = p.dtype}});
  const std::string algorithm = "expanded, " + engine.describe();
  auto run = [p, engine = std::move(engine)](Args t) {
    const Expanded<T> a(t[Gemm24::value].as<const T>(), t[Gemm24::meta].as<const uint8_t>(), p.k);
    const engine::Matrix b(t[Gemm24::b].data, p.dtype, 1, p.n);
    engine.each(t, [&](int64_t, float* memory) {
      engine.multiply(a, b, {.c = t[Gemm24::c].data, .dtype = p.dtype, .step = p.n}, memory);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

Plan gemm_2_4_tuned(const Gemm24& p, CpuContext& cpu) {
  switch (p.dtype) {
    case DType::f32:
      return plan<float>(p, cpu);
    case DType::bf16:
      return plan<bf16>(p, cpu);
    case DType::f16:
      return plan<f16>(p, cpu);
    default:
      return Unsupported{std::string("dtype ") + name_of(p.dtype)};
  }
}
DUET_REGISTER(gemm_2_4_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
