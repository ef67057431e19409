// Implicit GEMM. nchw: y (k, pixels) = w (k, c r s) x (c r s, pixels) for each image and group. nhwc: y (pixels, k) =
// x (pixels, r s c) w' for each group, all images at once. The pixels come through an index map: pixels.h.
#include "core/registry.h"
#include "cpu_ref/conv/pixels.h"

namespace duet {
namespace {
using engine::Engine, engine::Matrix, engine::Pixels;

Plan conv2d_tuned(const Conv2d& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  const bool last = p.layout == Layout::nhwc;
  const int64_t size = size_of(p.dtype), terms = p.group_c() * p.r * p.s, pixels = p.ho() * p.wo();
  const engine::Storage filter{.dtype = p.dtype, .along_k = true};
  const engine::Storage image{.dtype = p.dtype, .along_k = last, .indexed = !Pixels::stored_as_matrix(p)};
  Engine engine =
      last ? Engine(cpu, {.m = p.n * pixels, .n = p.group_k(), .k = terms, .result = p.dtype, .a = image, .b = filter},
                    p.groups)
           : Engine(cpu, {.m = p.group_k(), .n = pixels, .k = terms, .result = p.dtype, .a = filter, .b = image},
                    p.n * p.groups);
  const std::string algorithm = "implicit GEMM, " + engine.describe();
  const int64_t workspace = engine.workspace_bytes();
  auto run = [=, engine = std::move(engine)](Args t) {
    const auto* x = static_cast<const char*>(t[Conv2d::x].data);
    const auto* w = static_cast<const char*>(t[Conv2d::filter].data);
    auto* y = static_cast<char*>(t[Conv2d::y].data);
    engine.each([&](int64_t item, float* lane) {
      const int64_t group = item % p.groups, image = item / p.groups;
      const Matrix filter(w + group * p.group_k() * terms * size, p.dtype, terms, 1);
      if (last) {
        const Pixels source(p, x + group * p.group_c() * size);
        engine.multiply(source, filter, {.c = y + group * p.group_k() * size, .dtype = p.dtype, .step = p.k}, lane);
      } else {
        const Pixels source(p, x + (image * p.c + group * p.group_c()) * p.h * p.w * size);
        void* to = y + (image * p.k + group * p.group_k()) * pixels * size;
        engine.multiply(filter, source, {.c = to, .dtype = p.dtype, .step = pixels}, lane);
      }
    });
  };
  return Plan(std::move(run)).with(algorithm, workspace);
}
DUET_REGISTER(conv2d_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
