// SPDX-License-Identifier: Apache-2.0
// A large cuBLAS product of random data. Beside the peak of the arithmetic units it shows what a product reaches in
// practice.
#include <random>

#include "core/cuda/ceilings.h"
#include "core/cuda/cublas.h"

namespace duet::cuda {

std::vector<Ceiling> measure_library_ceilings(GpuContext& gpu, bool quick) {
  const int n = quick ? 4096 : 8192;
  const int64_t elements = int64_t{n} * n, bytes = elements * 4;
  const DeviceMemory a = device_memory(bytes), b = device_memory(bytes), c = device_memory(bytes);
  // 2^20 random elements, uniform in [-1, 1), repeated: they draw as much power as all random data and are quick to
  // make.
  constexpr int64_t kRandom = 1 << 20;
  std::vector<unsigned char> image(static_cast<size_t>(kRandom) * 4);

  std::vector<Ceiling> all;
  struct Kind {
    const char *name, *label;
    DType dtype;
    Math math;
  };
  for (const Kind& kind :
       {Kind{"gpu.gemm.f32", "f32", DType::f32, Math::ieee}, Kind{"gpu.gemm.tf32", "f32/tf32", DType::f32, Math::tf32},
        Kind{"gpu.gemm.bf16", "bf16", DType::bf16, Math::ieee}, Kind{"gpu.gemm.f16", "f16", DType::f16, Math::ieee}}) {
    std::mt19937 draw(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < kRandom; ++i) store_double(image.data(), kind.dtype, i, uniform(draw));
    const int64_t piece = kRandom * size_of(kind.dtype), total = elements * size_of(kind.dtype);
    for (const DeviceMemory* m : {&a, &b})
      for (int64_t at = 0; at < total; at += piece)
        gpu.upload(static_cast<char*>(m->get()) + at, image.data(), std::min(piece, total - at));
    const auto type = cublas_dtype(kind.dtype);
    const auto run = [&] {
      const float one = 1, zero = 0;
      DUET_CUBLAS(cublasGemmEx(gpu.cublas(), CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a.get(), type, n, b.get(), type,
                               n, &zero, c.get(), type, n, cublas_compute(kind.math), CUBLAS_GEMM_DEFAULT));
    };
    add_rates(gpu, gpu_ceiling(kind.name, "FLOP/s", "", kind.label, 3 * total), 2.0 * n * n * n,
              device_samples(gpu, run, quick), run, quick, all);
  }
  return all;
}

}  // namespace duet::cuda
