// SPDX-License-Identifier: Apache-2.0
// Which architectures have a ceiling for tensor cores, and what a sustained ceiling is.
#include "core/cuda/ceilings.h"

#include <gtest/gtest.h>

namespace duet::cuda {
namespace {

TEST(Ceilings, NoTensorCeilingWhereTcgen05IsFasterThanWhatIsMeasured) {
  for (const int capability : {80, 86, 89, 90, 120, 121}) EXPECT_TRUE(has_tensor_ceiling(capability)) << capability;
  for (const int capability : {100, 101, 103, 110}) EXPECT_FALSE(has_tensor_ceiling(capability)) << capability;
}

// Lowers its clock after 0.4 seconds of work, as a power limit makes it.
class ThrottledQueue final : public DeviceQueue {
 public:
  double device_time(const std::function<void()>&, int batch, bool&) override {
    const double run_s = busy_s < 0.4 ? 200e-6 : 250e-6;
    busy_s += run_s * batch;
    return run_s;
  }
  void* allocate_pinned(int64_t) override { return nullptr; }
  void release_pinned(void*) noexcept override {}
  void upload_async(void*, const void*, int64_t) override {}
  void download_async(void*, const void*, int64_t) override {}
  double busy_s = 0;
};

TEST(Ceilings, SustainedSamplesAreThoseAfterTheClockFell) {
  ThrottledQueue queue;
  const auto run = [] {};
  const std::vector<double> seconds = sustained_samples(queue, run, 200e-6);
  EXPECT_GE(queue.busy_s, 1);
  EXPECT_GE(seconds.size(), 10u);
  for (const double s : seconds) EXPECT_EQ(s, 250e-6);
}

}  // namespace
}  // namespace duet::cuda
