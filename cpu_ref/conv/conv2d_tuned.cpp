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
  const bool f32 = p.dtype == DType::f32, last = p.layout == Layout::nhwc;
  const int64_t size = size_of(p.dtype), terms = p.group_c() * p.r * p.s, pixels = p.ho() * p.wo();
  const bool pixels_plain = Pixels(p, nullptr).k_step != 0 && f32 && p.r == 1 && p.s == 1 && p.stride_h == 1 &&
                            p.stride_w == 1 && p.pad_h == 0 && p.pad_w == 0;
  Engine engine = last ? Engine(cpu, {.m = p.n * pixels, .n = p.group_k(), .k = terms, .result = p.dtype,
                                      .plain_a = pixels_plain, .a_along_k = true, .plain_b = f32, .b_along_k = true},
                                p.groups)
                       : Engine(cpu, {.m = p.group_k(), .n = pixels, .k = terms, .result = p.dtype, .plain_a = f32,
                                      .a_along_k = true, .plain_b = pixels_plain},
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
