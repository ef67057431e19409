// SPDX-License-Identifier: Apache-2.0
// Workspaces: how a plan's pieces lie, what happens to a plan that leaves them, and that no plan depends on where its
// workspace is or on what it holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "core/cpu_context.h"
#include "core/error.h"
#include "core/session.h"
#include "ops/elementwise/relu.h"

namespace duet {
namespace {
using testing::HasSubstr;

TEST(Workspace, PiecesAreAlignedAndApart) {
  WorkspaceLayout workspace;
  EXPECT_EQ(workspace.bytes(), 0);
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t i = 0; i < 40; ++i) {
    const auto piece = workspace.add<float>(1 + i * 100);
    EXPECT_EQ(piece.bytes(), 4 * (1 + i * 100));
    pieces.emplace_back(piece.offset, piece.offset + piece.bytes());
    EXPECT_EQ(piece.offset % WorkspaceLayout::kAlignment, 0);
    EXPECT_EQ(workspace.bytes(), pieces.back().second);
    if (i > 0) {
      EXPECT_GE(pieces[static_cast<size_t>(i)].first, pieces[static_cast<size_t>(i - 1)].second + 256);
      EXPECT_NE(piece.offset % 4096, pieces[static_cast<size_t>(i - 1)].first % 4096) << "4K aliasing";
    }
  }
  const auto gaps = workspace.gaps();
  ASSERT_EQ(gaps.size(), pieces.size() - 1);
  for (size_t i = 0; i < gaps.size(); ++i) EXPECT_EQ(gaps[i], std::pair(pieces[i].second, pieces[i + 1].first));

  const int64_t before = workspace.bytes();
  EXPECT_EQ(workspace.add<double>(0).bytes(), 0);
  EXPECT_EQ(workspace.add_bytes(0).bytes(), 0);
  EXPECT_EQ(workspace.bytes(), before) << "a piece of no values takes no memory";
  EXPECT_THROW(workspace.add<double>(-1), Error);
}

TEST(Workspace, APlanWithinAPlanKeepsItsGaps) {
  WorkspaceLayout inner, outer;
  const auto a = inner.add<float>(10), b = inner.add<float>(10);
  outer.add<float>(1);
  const auto part = outer.add(inner);
  EXPECT_EQ(part.bytes(), inner.bytes());
  EXPECT_EQ(outer.add(WorkspaceLayout()).bytes(), 0);
  ASSERT_EQ(outer.gaps().size(), 2u);
  EXPECT_EQ(outer.gaps()[1], std::pair(part.offset + a.bytes(), part.offset + b.offset));
}

TEST(Workspace, AnArgumentIsWithinWhatWasBrought) {
  alignas(WorkspaceLayout::kAlignment) char memory[1024];
  WorkspaceLayout workspace;
  const auto first = workspace.add<float>(4);
  const Args args(nullptr, memory, workspace.bytes());
  EXPECT_EQ(static_cast<void*>(args.workspace(first)), memory);
  EXPECT_EQ(args.workspace(workspace.add<float>(0)), nullptr);
  const auto later = workspace.add<float>(4);  // the plan stated the layout too early
  EXPECT_THROW(args.workspace(later), Error);
  EXPECT_THROW(Args(nullptr).workspace(first), Error);
}

constexpr int64_t kElements = 64;
std::function<void(char* first, char* second)> planted_write;

// relu by way of a workspace of two pieces; planted_write may overwrite what it likes.
Plan relu_planted(registration::PlanFunction::Any, const void*, Context&) {
  WorkspaceLayout workspace;
  const auto copy = workspace.add<float>(kElements);
  const auto other = workspace.add_bytes(5);
  return Plan([=](Args t) {
           float* to = t.workspace(copy);
           std::memcpy(to, t[Relu::x].data, kElements * sizeof(float));
           std::memset(t.workspace(other), 0, 5);
           if (planted_write) planted_write(reinterpret_cast<char*>(to), static_cast<char*>(t.workspace(other)));
           for (int64_t i = 0; i < kElements; ++i) t[Relu::y].as<float>()[i] = std::max(0.0f, to[i]);
         })
      .with("by a copy", workspace);
}

Check check_of(std::function<void(char* first, char* second)> write) {
  planted_write = std::move(write);
  CpuContext cpu(1);
  const Problem problem = Problem::of(Relu{kElements});
  const HostTensors inputs = draw_inputs(problem, FillMode::values, 1);
  Session session(problem, {"relu", "cpu.planted", Device::cpu, {nullptr, relu_planted}}, cpu, inputs);
  EXPECT_EQ(session.plan().algorithm, "by a copy");
  EXPECT_GE(session.plan().workspace_bytes(), kElements * 4 + 5);
  cpu.enter([&] { session.run(); });
  return session.check(Expected::all(problem, inputs), false);
}

// The bytes of a guard are random, so that a write of any one value may change nothing: this one always does.
void invert(char& byte) { byte = static_cast<char>(~byte); }

TEST(Workspace, AWriteOutsideIsSeen) {
  EXPECT_EQ(check_of(nullptr).failure, "");
  const auto failure = HasSubstr("workspace was overwritten");
  EXPECT_THAT(check_of([](char* first, char*) { invert(first[-1]); }).failure, failure) << "before it";
  EXPECT_THAT(check_of([](char*, char* second) { invert(second[5]); }).failure, failure) << "after it";
  EXPECT_THAT(check_of([](char* first, char*) { invert(first[64 * 4]); }).failure, failure) << "after the first piece";
  EXPECT_THAT(check_of([](char*, char* second) { invert(second[-1]); }).failure, failure) << "before the second piece";
}

// The outputs of one run with a workspace that lies at `workspace` and holds `content`.
HostTensors outputs_of(Plan& plan, const HostTensors& inputs, CpuContext& cpu, const Buffer& workspace,
                       uint8_t content) {
  cpu.fill_bytes(workspace.data(), content, workspace.bytes());
  std::vector<Buffer> memory;
  std::vector<Tensor> tensors;
  for (size_t s = 0; s < inputs.size(); ++s) {
    const TensorSpec& spec = inputs.specs()[s];
    memory.emplace_back(cpu, spec.bytes());
    if (spec.role != Role::out) cpu.upload(memory[s].data(), inputs.data(s), spec.bytes());
    tensors.push_back({memory[s].data(), spec.dtype, spec.role});
  }
  cpu.enter([&] { plan(Args(tensors.data(), workspace.data(), workspace.bytes())); });
  HostTensors got(inputs.specs());
  for (size_t s = 0; s < got.size(); ++s) {
    got.allocate(s);
    cpu.download(got.data(s), memory[s].data(), got.specs()[s].bytes());
  }
  return got;
}

// Every implementation on the CPU that has a workspace, on its smaller cases: a workspace of NaN here, one of numbers
// there.
TEST(Workspace, NeitherItsAddressNorItsContentMatters) {
  constexpr double kFlops = 3e6;  // of a case: more take too long
  CpuContext cpu(1);
  int64_t plans = 0;
  for (const auto& [name, op] : ops())
    for (const Implementation* implementation : implementations(name)) {
      if (implementation->device != Device::cpu) continue;
      for (const ProblemCase& c : op.cases(Scale::test)) {
        if (c.problem.flops() > kFlops) continue;
        Plan plan = Unsupported{""};
        cpu.enter([&] { plan = implementation->plan(c.problem, cpu); });
        if (!plan || plan.workspace_bytes() == 0) continue;
        ++plans;
        const HostTensors inputs = draw_inputs(c.problem, FillMode::values, 1);
        const Buffer here(cpu, plan.workspace_bytes()), there(cpu, plan.workspace_bytes());
        const HostTensors first = outputs_of(plan, inputs, cpu, here, 0xFF);
        const HostTensors second = outputs_of(plan, inputs, cpu, there, 0x3D);
        for (size_t s = 0; s < first.size(); ++s) {
          const auto bytes = static_cast<size_t>(first.specs()[s].bytes());
          if (bytes == 0) continue;  // no memory: memcmp takes no null pointers
          EXPECT_EQ(std::memcmp(first.data(s), second.data(s), bytes), 0)
              << name << "/" << implementation->name << "/" << c.problem.label() << ": " << first.specs()[s].name;
        }
      }
    }
  EXPECT_GT(plans, 100);
}

}  // namespace
}  // namespace duet
