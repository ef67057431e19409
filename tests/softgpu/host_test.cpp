// SPDX-License-Identifier: Apache-2.0
// Host code of the GPU side, by what it asks of the CUDA device in software.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/case_timer.h"
#include "bench/roof.h"
#include "bench/sampler.h"
#include "core/context.h"
#include "core/cpu_context.h"
#include "core/device_queue.h"
#include "core/gpu.h"
#include "core/pass.h"
#include "models/tape.h"
#include "ops/elementwise/relu.h"
#include "results/rules.h"
#include "softgpu/device.h"
#include "tests/results/fixture.h"

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
  void* x() const { return x_.data(); }
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

// Large copies pass through two page-locked buffers in turn: several chunks, the last shorter; and small ones do not.
TEST(Transfers, BringEachByteOfPageableMemoryThereAndBack) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  for (const int64_t bytes : {int64_t{1}, int64_t{8} << 20, (int64_t{50} << 20) + 7}) {
    std::vector<uint8_t> there(static_cast<size_t>(bytes)), back(there.size());
    for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
    const Buffer on_gpu(*gpu, bytes, "x");
    gpu->upload(on_gpu.data(), there.data(), bytes);
    gpu->download(back.data(), on_gpu.data(), bytes);
    EXPECT_TRUE(there == back) << bytes;
  }
}

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

// Two batches, of which each application has the other one copied meanwhile: what an application reads was uploaded
// before, and no copy meets the memory that is read from. The software GPU reports work of two streams that no event
// orders.
TEST(Overlapped, ReadsTheBatchThatWasCopiedDuringTheLastApplication) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  CopyAndSpoil runner(*gpu);
  bench::Sampler sampler(runner, bench::Scope::overlapped, bench::Cache::warm, 1e-8);
  sampler.calibrate(1e-4, 1);
  EXPECT_GT(sampler.sample(), 0);
  EXPECT_EQ(runner.y(), std::vector<uint8_t>(CopyAndSpoil::kBytes, 7));
  gpu->fill_bytes(runner.x(), 5, CopyAndSpoil::kBytes);  // another batch
  sampler.refresh_uploads();
  sampler.apply(3);
  EXPECT_EQ(runner.y(), std::vector<uint8_t>(CopyAndSpoil::kBytes, 5));
}

// --- passes, and roofs beside rows

// Launches while it exists: names and parameters.
class Launches {
 public:
  Launches() {
    softgpu::Device::get().plant.launch = [this](softgpu::Launch& l) {
      all_.push_back({l.kernel->name, l.parameters});
    };
  }
  Launches(const Launches&) = delete;
  ~Launches() { softgpu::Device::get().plant.launch = {}; }
  struct Seen {
    std::string kernel;
    std::vector<uint8_t> parameters;
    template <class T>
    T at(size_t byte) const {
      T value;
      std::memcpy(&value, parameters.data() + byte, sizeof value);
      return value;
    }
  };
  // The last one of a kernel whose name contains this.
  const Seen* last(const std::string& part) const {
    for (auto seen = all_.rbegin(); seen != all_.rend(); ++seen)
      if (seen->kernel.find(part) != std::string::npos) return &*seen;
    return nullptr;
  }

 private:
  std::vector<Seen> all_;
};

TEST(GpuPass, MovesAllOfItsFootprint) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  const std::unique_ptr<Passes> passes = gpu_passes(*gpu);
  float before = 0;
  std::memset(&before, 0x11, sizeof before);
  struct Expected {
    int arrays, moves;
    float after;
  };
  const std::map<std::string, Expected> patterns{{"read", {1, 1, 0}},
                                                 {"write", {1, 1, 1}},
                                                 {"copy", {2, 2, before}},
                                                 {"update", {1, 2, 0}},
                                                 {"triad", {3, 3, 2 * before}}};
  for (const auto& [pattern, expected] : patterns) {
    const auto ways = passes->memory(pattern, 3 * 65536);
    EXPECT_EQ(ways.size(), 2u) << pattern;
    for (const auto& pass : ways) {
      EXPECT_EQ(pass->ceiling, "gpu." + pattern);
      EXPECT_EQ(pass->footprint_bytes, 3 * 65536);
      EXPECT_EQ(pass->amount, 3.0 * 65536 * expected.moves / expected.arrays) << pattern;
      const Launches launches;
      pass->run();
      const Launches::Seen* launch = launches.last("stream_kernel");
      ASSERT_TRUE(launch);
      std::vector<float> a(static_cast<size_t>(pass->footprint_bytes / expected.arrays) / sizeof(float));
      const auto bytes = static_cast<int64_t>(a.size() * sizeof(float));
      auto* const of_device = launch->at<void*>(0);
      gpu->fill_bytes(of_device, 0, bytes);
      pass->run();
      gpu->download(a.data(), of_device, bytes);
      EXPECT_THAT(a, testing::Each(expected.after)) << pattern;
    }
  }
  EXPECT_EQ(passes->memory("update|read", 4096).size(), 4u) << "both patterns, each in two ways";
  const auto smaller = passes->memory("copy", 65536)[0]->resized(320);
  EXPECT_EQ(smaller->footprint_bytes, 320);
  smaller->run();
  gpu->synchronize();
}

TEST(GpuPass, ComputesInEachDtypeAsMuchAsIsAskedFor) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  ASSERT_TRUE(gpu) << reason;
  const std::unique_ptr<Passes> passes = gpu_passes(*gpu);
  for (const char* dtype : {"f32", "bf16", "f16", "f32/tf32", "i8", "f8e4m3"}) {
    const auto ways = passes->compute(dtype, 1e6);
    ASSERT_EQ(ways.size(), 1u) << dtype;
    EXPECT_GE(ways[0]->amount, 1e6) << dtype;
    ways[0]->run();
    gpu->synchronize();
  }
  // Blocks of 256 threads, each 16 multiply-adds in 8 steps: 16 of them.
  EXPECT_EQ(passes->compute("f32", 1e6)[0]->amount, 16 * 256 * 16 * 2 * 8);
  EXPECT_GT(passes->compute("f32", 1e7)[0]->amount, 1e7);
  EXPECT_TRUE(passes->compute("f64", 1e6).empty());
}

// The jobs of cuda.tuned as bench_all makes them, with these ceilings.
std::vector<results::Job> timed_beside_its_roof(const std::string& text, const std::vector<Ceiling>& ceilings) {
  bench::Options options;
  options.cpu = false;
  options.repetitions = 2;
  options.min_time_s = 1e-3;
  options.implementations = {"cuda.tuned"};
  options.cases = bench::read_named_cases({text});
  bench::Devices devices;
  devices.gpu = open_gpu(devices.no_gpu);
  bench::CaseTimer timer(options, devices, ceilings);
  std::vector<results::Job> jobs;
  for (const auto& c : bench::select_cases(options)) {
    std::erase_if(c->sides, [](const bench::Side& s) { return s.implementation != "cuda.tuned"; });
    for (results::Job& job : timer.measure(*c)) {
      bench::annotate_roof(ceilings, job);
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

void expect_paired_roof(const results::Job& job, results::Bound bound, const std::string& ceiling) {
  ASSERT_EQ(job.status, results::Status::ok) << job.reason;
  ASSERT_EQ(job.series.size(), 3u) << "kernel, call, end to end";
  for (const results::Series& s : job.series) {
    const bool has_roof = !results::has_copies(s.scope);
    for (const results::Repetition& r : s.repetitions) EXPECT_EQ(r.roof_s.size(), has_roof ? r.samples_s.size() : 0u);
    ASSERT_EQ(s.roof.has_value(), has_roof);
    if (!has_roof) continue;
    EXPECT_EQ(s.roof->source, results::RoofSource::adjacent);
    EXPECT_EQ(s.roof->bound, bound);
    EXPECT_EQ(s.roof->ceiling, ceiling);
  }
  results::Run run = results::testing::make_run({job});
  const results::Run again = results::testing::load(results::run_text(run));
  EXPECT_EQ(again.jobs.at(0).series[0].roof->source, results::RoofSource::adjacent);
  EXPECT_EQ(again.jobs.at(0).series[0].repetitions[0].roof_s.size(), job.series[0].repetitions[0].samples_s.size());
}

std::vector<Ceiling> invented_ceilings(double bandwidth, double f32, double bf16) {
  using results::testing::make_ceiling;
  std::vector<Ceiling> all{make_ceiling("gpu.fma.f32", f32, "FLOP/s"), make_ceiling("gpu.mma.bf16", bf16, "FLOP/s")};
  for (const char* name : {"gpu.read", "gpu.write", "gpu.copy", "gpu.update", "gpu.triad"})
    all.push_back(make_ceiling(name, bandwidth, "B/s", 1 << 23));
  return all;
}

TEST(RoofBesideAGpuRow, OfARowBoundByMemoryIsAStreamOfItsFootprint) {
  const Launches launches;
  const auto jobs = timed_beside_its_roof("relu n:1000", invented_ceilings(1e6, 1e12, 1e12));
  ASSERT_EQ(jobs.size(), 1u);
  expect_paired_roof(jobs[0], results::Bound::memory, "gpu.copy");
  const Launches::Seen* stream = launches.last("stream_kernel");
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->at<int64_t>(24), 1000 * 4 / 16) << "vectors of 16 bytes of each array, of which there are two";
  EXPECT_FALSE(launches.last("fma_f32_kernel"));
}

TEST(RoofBesideAGpuRow, OfARowBoundByArithmeticIsOfItsDtype) {
  const Launches launches;
  auto jobs = timed_beside_its_roof("gemm m:16 n:16 k:16", invented_ceilings(1e12, 1e6, 1e12));
  ASSERT_EQ(jobs.size(), 1u);
  expect_paired_roof(jobs[0], results::Bound::compute, "gpu.fma.f32");
  EXPECT_TRUE(launches.last("fma_f32_kernel"));
  EXPECT_FALSE(launches.last("mma_kernel"));
  EXPECT_FALSE(launches.last("stream_kernel"));
  jobs = timed_beside_its_roof("gemm m:16 n:16 k:16 dtype:bf16", invented_ceilings(1e12, 1e12, 1e6));
  ASSERT_EQ(jobs.size(), 1u);
  expect_paired_roof(jobs[0], results::Bound::compute, "gpu.mma.bf16");
  EXPECT_TRUE(launches.last("mma_kernel"));
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
