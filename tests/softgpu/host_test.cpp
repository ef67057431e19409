// SPDX-License-Identifier: Apache-2.0
// Host code of the GPU side, by what it asks of the CUDA device in software.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/sampler.h"
#include "core/context.h"
#include "core/device_queue.h"
#include "core/gpu.h"
#include "models/tape.h"
#include "ops/elementwise/relu.h"
#include "softgpu/device.h"

namespace duet {
namespace {

// Runs beyond the length of the launch queue are recorded as a graph, and that takes the host a while: not behind the
// kernel that blocks the queue, which gives up after a second.
TEST(DeviceTime, RecordsAGraphWhileNothingIsEnqueued) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  ASSERT_EQ(softgpu::Device::get().streams.size(), 1u);
  const softgpu::Stream& stream = **softgpu::Device::get().streams.begin();
  const Buffer word(*gpu, 4);
  constexpr int kBatch = 600;
  int runs = 0, recorded = 0;
  size_t enqueued = 0;
  const std::function<void()> run = [&] {
    ++runs;
    if (stream.capture) {
      ++recorded;
      enqueued = std::max(enqueued, stream.queue.size());
    }
    gpu->fill_bytes(word.data(), 0, word.bytes());
  };
  for (int sample = 0; sample < 2; ++sample) {
    bool synchronises = true;
    EXPECT_GT(device_queue(*gpu)->device_time(run, kBatch, synchronises), 0);
    EXPECT_FALSE(synchronises);
  }
  EXPECT_EQ(runs, 1 + 2 * kBatch) << "and a first one, which is not timed";
  EXPECT_EQ(recorded, 2 * (kBatch - 500));
  EXPECT_EQ(enqueued, 0u) << "work enqueued before a recording";
}

// y = x by a copy within the device, and then an x that no later application must see.
class CopyAndSpoil final : public bench::Runner {
 public:
  explicit CopyAndSpoil(Context& gpu) : gpu_(gpu), x_(gpu, kBytes, "x"), y_(gpu, kBytes, "y") {
    gpu.fill_bytes(x_.data(), 7, kBytes);
  }
  Context& context() override { return gpu_; }
  void run(int) override {
    gpu_.copy_within(y_.data(), x_.data(), kBytes);
    gpu_.fill_bytes(x_.data(), 9, kBytes);
  }
  void evict() override {}
  Check verify(bool) override { return {}; }
  std::vector<std::pair<void*, int64_t>> uploads() const override { return {{x_.data(), kBytes}}; }
  std::vector<std::pair<void*, int64_t>> downloads() const override { return {{y_.data(), kBytes}}; }
  std::vector<uint8_t> y() const {
    std::vector<uint8_t> bytes(kBytes);
    gpu_.download(bytes.data(), y_.data(), kBytes);
    return bytes;
  }
  static constexpr int64_t kBytes = 64;

 private:
  Context& gpu_;
  Buffer x_, y_;
};

TEST(EndToEnd, UploadsTheInputsBeforeEachApplication) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  CopyAndSpoil runner(*gpu);
  bench::Sampler sampler(runner, bench::Scope::end_to_end, bench::Cache::warm, 1e-8);
  sampler.calibrate(1e-4, 1);
  EXPECT_GT(sampler.sample(), 0);
  EXPECT_EQ(runner.y(), std::vector<uint8_t>(CopyAndSpoil::kBytes, 7));
}

// The first launch gets a pointer behind its output, which in the arena is the place of another tensor.
void run_with_moved_output(const std::string& slot_of, bool as_graph) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  Tape tape(*gpu, {"cuda.tuned"});
  const Var x = tape.input("x", DType::f32, {64});
  const Var y = tape.add(Relu{.n = 64}, {x}), z = tape.add(Relu{.n = 64}, {y});
  tape.output("z", z);
  tape.plan();
  tape.fill_inputs(1);
  const auto from = reinterpret_cast<uint64_t>(tape.tensor(y).data);
  const auto to = slot_of == "y" ? from + 256 : reinterpret_cast<uint64_t>(tape.tensor(x).data);
  softgpu::Device::get().plant.launch = [=, first = true](softgpu::Launch& l) mutable {
    for (size_t at = 0; first && at + 8 <= l.parameters.size(); at += 8)
      if (std::memcmp(l.parameters.data() + at, &from, 8) == 0) std::memcpy(l.parameters.data() + at, &to, 8);
    first = false;
  };
  try {
    std::unique_ptr<RecordedGraph> graph;
    gpu->enter([&] {
      if (as_graph)
        graph = record_graph(
            *gpu, [&] { tape.run_phase(0); }, reason);
      as_graph ? graph->replay() : tape.run();
    });
    gpu->synchronize();
    std::fprintf(stderr, "nothing was reported\n");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  std::_Exit(0);
}

// Each in a process of its own, since a fault loses the device.
TEST(TapeScope, NamesANodeThatWritesIntoAnotherTensor) {
  for (const bool as_graph : {false, true})
    EXPECT_EXIT(run_with_moved_output("y", as_graph), testing::ExitedWithCode(0),
                "by relu/cuda.tuned/.*, 0 bytes behind the end of y");
}
TEST(TapeScope, NamesANodeThatWritesIntoItsInput) {
  EXPECT_EXIT(run_with_moved_output("x", false), testing::ExitedWithCode(0), "at byte 0 of x .*, which it only reads");
}

}  // namespace
}  // namespace duet
