// SPDX-License-Identifier: Apache-2.0
// How steps are verified on the GPU side, by what that asks of the CUDA device in software.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/context.h"
#include "core/digest.h"
#include "core/gpu.h"
#include "models/model.h"
#include "models/step.h"
#include "softgpu/device.h"

namespace duet {
namespace {

// A digest is computed on the device, for each size of an element: it tells every element and its place from others,
// and what is not finite.
TEST(DigestOfATensor, TellsWhatItHoldsAndDownloadsNothing) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  constexpr int64_t kElements = 1031;
  for (const DType dtype : kDTypes) {
    const int64_t bytes = kElements * size_of(dtype);
    const Buffer buffer(*gpu, bytes, "x", size_of(dtype));
    std::vector<char> values(static_cast<size_t>(bytes));
    const auto digest_of = [&](const std::function<void()>& change) {
      for (int64_t i = 0; i < kElements; ++i) store_double(values.data(), dtype, i, static_cast<double>(i % 127));
      change();
      gpu->upload(buffer.data(), values.data(), bytes);
      return digest(*gpu, buffer.data(), dtype, kElements);
    };
    const auto set = [&](int64_t i, double value) { store_double(values.data(), dtype, i, value); };
    const uint64_t before = softgpu::Device::get().bytes_to_host;
    const Digest same = digest_of([] {});
    EXPECT_TRUE(same.finite) << name_of(dtype);
    EXPECT_EQ(digest_of([] {}).checksum, same.checksum) << name_of(dtype);
    for (const int64_t i : {int64_t{0}, int64_t{1}, kElements / 2, kElements - 1}) {
      EXPECT_NE(digest_of([&] { set(i, 77); }).checksum, same.checksum) << name_of(dtype) << " " << i;
      EXPECT_TRUE(digest_of([&] { set(i, 77); }).finite) << name_of(dtype) << " " << i;
      if (!is_float(dtype)) continue;
      for (const double value : {double{NAN}, double{INFINITY}, -double{INFINITY}})
        EXPECT_FALSE(digest_of([&] { set(i, value); }).finite) << name_of(dtype) << " " << i << " " << value;
      EXPECT_TRUE(digest_of([&] { set(i, largest(dtype)); }).finite) << name_of(dtype) << " " << i;
    }
    const auto exchange = [&] {
      set(3, 4);
      set(4, 3);
    };
    EXPECT_NE(digest_of(exchange).checksum, same.checksum) << name_of(dtype) << ": two elements exchanged";
    EXPECT_LT(softgpu::Device::get().bytes_to_host - before, 64u * 32) << "a few bytes for each digest";
  }
}

// What timed steps left is compared with the same steps run again: after the first series, where the tensors are.
TEST(TimedStepOnTheGpu, DownloadsItsTensorsOnlyInTheFirstSeries) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  Step step(find_model("mlp").with_words("batch:8"), *gpu, {"cuda.tuned", "cuda.naive"});
  ASSERT_TRUE(step.supported()) << step.reason();
  for (const uint64_t series : {1, 2}) {
    step.draw_inputs(series);
    step.keep_state();
    gpu->enter([&] {
      for (int i = 0; i < 3; ++i) step.run();
    });
    const uint64_t before = softgpu::Device::get().bytes_to_host;
    EXPECT_EQ(step.changed_input(), "");
    const Check check = step.replay_kept(3);
    EXPECT_TRUE(check.passed()) << check.failure;
    const uint64_t bytes = softgpu::Device::get().bytes_to_host - before;
    if (series == 1)
      EXPECT_GT(bytes, static_cast<uint64_t>(step.memory_bytes()));
    else  // guard bands, and digests
      EXPECT_LT(bytes, static_cast<uint64_t>(step.memory_bytes()) / 4);
  }
}

}  // namespace
}  // namespace duet
