// SPDX-License-Identifier: Apache-2.0
#include "core/recorder.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/profile_tables.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/machine.h"

namespace duet {
namespace {

using profile::Trace;
using profile::TraceRange;
using testing::HasSubstr;

namespace fs = std::filesystem;

class Recorder : public testing::Test {
 protected:
  Recorder() {
    std::string name = (fs::temp_directory_path() / "recorder.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Recorder() override {
    recorder::finish();
    fs::remove_all(folder_);
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  Trace written(const std::vector<std::string>& parts) const {
    recorder::write_trace(parts, at("trace.json"), {{"command", "a \"test\""}});
    return profile::parse_trace(profile::read_text(at("trace.json")), "trace");
  }
  static const TraceRange& named(const Trace& trace, const std::string& id) {
    for (const TraceRange& r : trace.ranges)
      if (r.id == id) return r;
    ADD_FAILURE() << "no range " << id;
    return trace.ranges.at(0);
  }
  fs::path folder_;
};

TEST_F(Recorder, WritesNestedRangesOfAllThreads) {
  const NvtxName job("gemm/cpu.tuned/f32/m:8", {.category = "gemm", .bytes = 768, .flops = 1024}), phase("measure");
  recorder::start(at("part"), "program");
  {
    const NvtxRange outer(job);
    for (int i = 0; i < 2; ++i) const NvtxRange inner(phase);
    std::thread([&] {
      name_thread("other");
      const NvtxRange elsewhere(phase);
    }).join();
  }
  EXPECT_EQ(recorder::finish(), "");
  { const NvtxRange after(job); }  // is not recorded

  const Trace trace = written({at("part")});
  ASSERT_EQ(trace.ranges.size(), 4U);
  EXPECT_EQ(trace.incomplete, "");
  const TraceRange& outer = named(trace, "gemm/cpu.tuned/f32/m:8");
  EXPECT_EQ(outer.depth, 0);
  EXPECT_EQ(outer.category, "gemm");
  EXPECT_EQ(outer.bytes, 768);
  EXPECT_EQ(outer.flops, 1024);
  int inside = 0;
  for (const TraceRange& r : trace.ranges)
    if (r.id == "measure" && r.thread == outer.thread) {
      ++inside;
      EXPECT_EQ(r.depth, 1);
      EXPECT_GE(r.begin_s, outer.begin_s);
      EXPECT_LE(r.begin_s + r.time_s, outer.begin_s + outer.time_s + 1e-9);
    }
  EXPECT_EQ(inside, 2);

  const auto json = nlohmann::json::parse(profile::read_text(at("trace.json")));
  std::vector<std::string> threads, names;
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") threads.push_back(event["args"]["name"]);
    names.push_back(event["name"]);
  }
  EXPECT_THAT(threads, testing::Contains("other"));
  EXPECT_THAT(names, testing::Contains("gemm.cpu.tuned.f32.m8")) << "as profilers show it";
  EXPECT_EQ(json["otherData"]["command"], "a \"test\"");
}

TEST_F(Recorder, WithoutARangeTheTraceOfBeforeStays) {
  std::ofstream(at("trace.json")) << "of before";
  recorder::start(at("part"), "program");
  recorder::finish();
  EXPECT_EQ(recorder::write_trace({at("part")}, at("trace.json"), {}), 0);
  EXPECT_EQ(profile::read_text(at("trace.json")), "of before");
}

TEST_F(Recorder, NamesTheThreadsOfTheCpu) {
  if (usable_threads() < 2) GTEST_SKIP() << "one thread";
  CpuContext cpu(2);
  recorder::start(at("part"), "program");
  std::atomic<int> arrived = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  cpu.enter([&] {
    cpu.parallel_for(2, 1, [&](int64_t, int64_t) {  // neither thread can take both
      ++arrived;
      while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    });
  });
  recorder::finish();
  EXPECT_EQ(arrived, 2);
  EXPECT_THAT(profile::read_text(at("part")), HasSubstr("\"named\":\"duet worker "));
}

TEST_F(Recorder, KeepsWhatAKilledProcessRecorded) {
  const NvtxName job("add/cpu.tuned/f32/n:1"), setup("setup"), measure("measure");
  const pid_t child = fork();
  if (child == 0) {
    recorder::start(at("part"), "worker");
    const NvtxRange outer(job);
    { const NvtxRange done(setup); }
    const NvtxRange open(measure);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const Trace trace = written({at("no such part"), at("part")});
  ASSERT_EQ(trace.ranges.size(), 3U);
  EXPECT_FALSE(named(trace, "setup").unfinished);
  EXPECT_TRUE(named(trace, "measure").unfinished);
  EXPECT_TRUE(named(trace, "add/cpu.tuned/f32/n:1").unfinished);
  EXPECT_THAT(trace.incomplete, HasSubstr("worker"));
}

TEST_F(Recorder, LeavesOutALineThatWasCut) {
  std::ofstream(at("part")) << R"({"process":"p","pid":1}
{"name":0,"id":"a"}
{"b":0,"t":1,"ns":1000}
{"e":1,"ns":3000}
{"b":0,"t":1,"n)";
  const Trace trace = written({at("part")});
  ASSERT_EQ(trace.ranges.size(), 1U);
  EXPECT_NEAR(trace.ranges[0].time_s, 2e-6, 1e-12);
}

TEST_F(Recorder, GrowsBeyondItsFirstWindow) {
  const NvtxName name("x");
  recorder::start(at("part"), "program");
  constexpr int kRanges = 100000;  // some 6 MB
  for (int i = 0; i < kRanges; ++i) const NvtxRange range(name);
  EXPECT_EQ(recorder::finish(), "");
  EXPECT_EQ(recorder::write_trace({at("part")}, at("trace.json"), {}), kRanges);
}

TEST_F(Recorder, SaysThatTheDiskIsFull) {
  const pid_t child = fork();  // the limit stays with it
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &none);
    try {
      recorder::start(at("part"), "program");
      _exit(1);
    } catch (const std::runtime_error& e) {
      _exit(std::string(e.what()).find("File too large") != std::string::npos && !fs::exists(at("part")) ? 0 : 2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THROW(recorder::start("/nonexistent/part", "program"), Error);
  EXPECT_FALSE(recorder::is_on());
}

TEST_F(Recorder, EndsWhenTheDiskFillsUpAndTheProgramGoesOn) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit few{6 << 20, 6 << 20};  // one window
    setrlimit(RLIMIT_FSIZE, &few);
    recorder::start(at("part"), "program");
    const NvtxName name("x");
    for (int i = 0; i < 200000; ++i) const NvtxRange range(name);
    _exit(!recorder::is_on() && recorder::finish().find("File too large") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const Trace trace = written({at("part")});
  EXPECT_GT(trace.ranges.size(), 1000U);
  EXPECT_NE(trace.incomplete, "");
}

}  // namespace
}  // namespace duet
