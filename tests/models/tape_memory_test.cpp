// SPDX-License-Identifier: Apache-2.0
// The memory of a tape: views, tensors written in pieces, workspaces, too little memory, and no allocation during a
// step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "core/machine.h"
#include "core/cpu_context.h"
#include "core/gpu.h"
#include "core/nvtx.h"
#include "models/step.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/linear.h"

// --- counts the calls of operator new while `counting` is set
// ------------------------------------------------------------

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

void* counted(size_t bytes, size_t alignment) {
  if (counting) ++allocations;
  void* memory = nullptr;
  if (alignment <= sizeof(void*) * 2)
    memory = std::malloc(bytes ? bytes : 1);
  else if (posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0)
    memory = nullptr;
  if (!memory) throw std::bad_alloc();
  return memory;
}
}  // namespace

// Below -O2 GCC inlines `delete` and not `new`, and warns that the two do not match.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t n) { return counted(n, 1); }
void* operator new[](size_t n) { return counted(n, 1); }
void* operator new(size_t n, std::align_val_t a) { return counted(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, std::align_val_t a) { return counted(n, static_cast<size_t>(a)); }
// The overloads that do not throw, too: memory from a sanitizer's own would be freed by the wrong allocator.
void* operator new(size_t n, const std::nothrow_t&) noexcept { return counted(n, 1); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return counted(n, 1); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace duet {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(TapeMemory, IsNotAllocatedWhileAStepRuns) {
  for (const int threads : {1, std::min(2, usable_threads())}) {
    CpuContext cpu(threads);
    for (const ModelCase& c : model_cases(Scale::test)) {
      Step step(c.model, cpu, Tape::preferences_for(Device::cpu));
      ASSERT_TRUE(step.supported()) << step.reason();
      const std::function<void()> twice = [&] {
        step.run();
        step.run();
      };
      cpu.enter(twice);  // the first run may allocate
      allocations = 0;
      counting = true;
      cpu.enter(twice);
      counting = false;
      EXPECT_EQ(allocations, 0) << c.model.name() << ", " << threads << " thread(s)";
      if (allocations == 0) continue;
      for (size_t node = 0; node < step.nodes().size(); ++node) {  // find the node that allocates
        allocations = 0;
        counting = true;
        cpu.enter([&] { step.run_node(node); });
        counting = false;
        EXPECT_EQ(allocations, 0) << step.nodes()[node].job;
      }
    }
  }
}

TEST(TapeMemory, CountsEveryNew) {
  allocations = 0;
  counting = true;
  const std::vector<int> some(100);
  counting = false;
  EXPECT_EQ(allocations, 1);
}

// A worker of oneTBB may get its first chunk of work, and with it its name, in the middle of a step.
TEST(TapeMemory, NamingAThreadAllocatesNothing) {
  name_thread("first");  // what a program allocates once
  std::atomic<bool> begin = false;
  const std::string name = "duet worker 100";
  std::thread worker([&] {
    begin.wait(false);
    name_thread(name);
  });
  allocations = 0;
  counting = true;
  begin = true;
  begin.notify_one();
  worker.join();
  counting = false;
  EXPECT_EQ(allocations, 0);
}

// y = relu(x) of 3 rows of 4; the middle row and then its second half through views, a gradient written in two pieces.
TEST(TapeMemory, ViewsAreTheirParentsMemory) {
  for (const char* preference : {"reference", "cpu.tuned"}) {
    CpuContext cpu(1);
    Tape tape(cpu, {preference});
    const Var x = tape.input("x", DType::f32, {3, 8});
    const Var y = tape.add(Relu{24}, {x});
    const Var row = tape.slice(y, 8, {8}), half = tape.slice(row, 4, {4});
    const Var other = tape.add(Relu{24}, {x});  // live at the same time as y, which is last read through a view
    const Var from_row = tape.add(Relu{8}, {row}), from_half = tape.add(Relu{4}, {half});
    const Var last = tape.slice(x, 16, {8});
    const Var joined = tape.pieces("joined", DType::f32, {16});
    tape.add(Relu{8}, {last}, {{Relu::y, tape.slice(joined, 0, {8})}});
    tape.add(Relu{8}, {from_row}, {{Relu::y, tape.slice(joined, 8, {8})}});
    const Var all = tape.add(Relu{16}, {joined});
    for (const auto& [name, var] : {std::pair("row", from_row), std::pair("half", from_half), std::pair("all", all),
                                    std::pair("other", other), std::pair("view", half)})
      tape.output(name, var);
    tape.plan();
    std::vector<float> values(24);
    for (size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
    tape.upload(x, std::span<const float>(values));
    cpu.enter([&] { tape.run(); });
    EXPECT_THAT(tape.download(from_row), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
    EXPECT_THAT(tape.download(from_half), ElementsAre(12, 13, 14, 15));
    EXPECT_THAT(tape.download(half), ElementsAre(12, 13, 14, 15)) << "an output's parent is kept";
    EXPECT_THAT(tape.download(all), ElementsAre(16, 17, 18, 19, 20, 21, 22, 23, 8, 9, 10, 11, 12, 13, 14, 15));
    EXPECT_EQ(tape.download(other)[13], 13);
    EXPECT_EQ(tape.shape(half), Shape{4});
    EXPECT_TRUE(tape.guards_intact());
  }
}

TEST(TapeMemory, AParentLivesAsLongAsItsViewsAreUsed) {
  CpuContext cpu(1);
  Tape tape(cpu, {"reference"});
  const Var x = tape.input("x", DType::f32, {1024});
  const Var y = tape.add(Relu{1024}, {x}), view = tape.slice(y, 512, {512});
  for (int i = 0; i < 4; ++i) tape.add(Relu{1024}, {x});  // each may take the place of y if y counts as dead
  tape.output("view", tape.add(Relu{512}, {view}));
  tape.plan();
  tape.upload(x, std::span<const float>(std::vector<float>(1024, 3)));
  tape.fill_inputs(1);
  const std::vector<double> in = tape.download(x);
  cpu.enter([&] {
    tape.begin_step();
    for (size_t p = 0; p < tape.nodes().size(); ++p) {
      if (p >= 1 && p <= 4) {  // these nodes must not write to the memory of y
        const Tensor t = tape.tensor(tape.nodes()[p].slots[1]);
        std::memset(t.data, 0, 1024 * sizeof(double));
      } else {
        tape.run_node(p);
      }
    }
  });
  const std::vector<double> out = tape.download(tape.find("view"));
  for (size_t i = 0; i < 512; ++i) EXPECT_EQ(out[i], std::max(0., in[512 + i]));
}

// The plans of a tape run one after the other, so their workspaces lie among the temporaries, apart from what the plan
// itself reads and writes. That they do not overlap tensors that are live across the node is tested by the comparisons
// of the models, which look at every output.
TEST(TapeMemory, WorkspacesLieInTheArena) {
  CpuContext cpu(1);
  int64_t workspaces = 0;
  for (const ModelCase& c : model_cases(Scale::test)) {
    const int64_t before = cpu.held_bytes();
    Tape tape(cpu, Tape::preferences_for(Device::cpu));
    c.model.train(tape);
    tape.plan();
    int64_t arenas = 0;
    for (const auto& [memory, bytes] : tape.memory()) arenas += bytes;
    EXPECT_EQ(tape.memory_bytes(), arenas) << c.model.name() << ": plans keep memory of their own";
    EXPECT_EQ(cpu.held_bytes() - before, arenas);
    const auto [temporaries, size] = tape.memory().back();
    for (const Tape::Node& node : tape.nodes()) {
      const int64_t bytes = node.plan->workspace_bytes();
      if (bytes == 0) continue;
      workspaces += bytes;
      const char *begin = static_cast<char*>(tape.workspace(node)), *end = begin + bytes;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(begin) % WorkspaceLayout::kAlignment, 0u) << node.job();
      EXPECT_TRUE(begin >= temporaries && end <= static_cast<char*>(temporaries) + size) << node.job();
      for (const Var slot : node.slots) {
        const char* tensor = static_cast<char*>(tape.tensor(slot).data);
        EXPECT_TRUE(tensor >= end || tensor + tape.bytes(slot) <= begin) << node.job() << ", " << tape.name(slot);
      }
    }
  }
  EXPECT_GT(workspaces, 0);
}

TEST(TapeMemory, RefusesViewsThatCannotBe) {
  CpuContext cpu(1);
  Tape tape(cpu, {"reference"});
  const Var x = tape.input("x", DType::f32, {3, 8});
  EXPECT_THAT(error_of([&] { tape.slice(x, 20, {8}); }), HasSubstr("elements 20 to 28 are not within its 24"));
  EXPECT_THAT(error_of([&] { tape.slice(x, -4, {4}); }), HasSubstr("-4"));
  EXPECT_THAT(error_of([&] { tape.slice(x, 2, {4}); }), HasSubstr("multiple of 16 bytes"));
  EXPECT_THAT(error_of([&] { tape.slice(tape.slice(x, 8, {8}), 4, {8}); }), HasSubstr("within its 8"));
  const Var joined = tape.pieces("joined", DType::f32, {16});
  EXPECT_THAT(error_of([&] { tape.add(Relu{16}, {joined}); }), HasSubstr("joined was never written"));
  tape.add(Relu{8}, {tape.slice(x, 0, {8})}, {{Relu::y, tape.slice(joined, 4, {8})}});
  EXPECT_THAT(error_of([&] { tape.add(Relu{16}, {joined}); }),
              HasSubstr("elements 0 to 4 of joined were never written"));
  EXPECT_THAT(error_of([&] { tape.add(Relu{8}, {tape.slice(joined, 8, {8})}); }), HasSubstr("elements 12 to 16"));
  EXPECT_EQ(error_of([&] { tape.add(Relu{4}, {tape.slice(joined, 8, {4})}); }), "no error");
}

TEST(TapeMemory, AStepThatDoesNotFitIsRefusedBeforeItBegins) {
  CpuContext cpu(1);
  Tape tape(cpu, {"cpu.tuned"});
  constexpr int64_t kHuge = int64_t{1} << 46;
  const Var x = tape.input("x", DType::f32, {kHuge});
  tape.output("y", tape.add(Relu{kHuge}, {x}));
  EXPECT_THAT(error_of([&] { tape.plan(); }),
              AllOf(HasSubstr("the step needs 5629499534"), HasSubstr(std::to_string(4 * kHuge) + " inputs and states"),
                    HasSubstr("available on CPU")));
  const Step step(find_model("lenet").with("batch", "1048576"), cpu, Tape::preferences_for(Device::cpu));
  EXPECT_THAT(step.reason(), HasSubstr("the step needs")) << "a skip with its reason, not a failure";
  EXPECT_LE(available_bytes(cpu), int64_t{1} << 50);
  EXPECT_GT(available_bytes(cpu), 1 << 20);
}

TEST(TapeMemory, AGraphNeedsADeviceThatHasThem) {
  CpuContext cpu(1);
  const Step step(find_model("mlp"), cpu, Tape::preferences_for(Device::cpu), 1, Step::Form::graph);
  EXPECT_FALSE(step.supported());
  EXPECT_THAT(step.reason(), AllOf(HasSubstr("CPU"), HasSubstr("no graphs")));
  EXPECT_EQ(step_job_name(find_model("mlp"), "gpu.graph"), "step/mlp/gpu.graph/f32/batch:32");
}

}  // namespace
}  // namespace duet
