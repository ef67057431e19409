// SPDX-License-Identifier: Apache-2.0
// Every implementation of the registry on every small and awkward case, against the reference: first on small whole
// numbers, where the answer is exact, then on values. CPU implementations run once on each instruction set that was
// compiled in. duet_op_tests --shard I/N runs a part; all of GoogleTest's own options work.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "core/machine.h"
#include "core/compare.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/gpu.h"
#include "core/process.h"
#include "core/registry.h"
#include "core/session.h"
#include "simt/simt.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int kThreads = 2;

// Inputs and answer of a case, made once and shared by its implementations (in order, so that little stays alive).
struct Truth {
  HostTensors inputs;
  Expected expected;
};
const Truth& truth_of(const Problem& problem, FillMode mode) {
  static std::map<std::string, std::unique_ptr<Truth>> kept;
  static std::string kept_op;
  if (kept_op != problem.name()) {
    kept.clear();
    kept_op = problem.name();
  }
  auto& truth = kept[problem.label() + (mode == FillMode::values ? " values" : " integers")];
  if (!truth) {
    truth = std::make_unique<Truth>();
    truth->inputs = draw_inputs(problem, mode, kSeed);
    truth->expected = Expected::all(problem, truth->inputs);
  }
  return *truth;
}

// Whether whole numbers stay exact: as the op promises, but for a case whose activation leaves them.
bool exact_on_integers(const Problem& problem) {
  for (const Attribute& a : problem.attributes())
    if (a.name == "act" && a.text() == "gelu") return false;
  return problem.op().exact_on_integers;
}

// runs: of one plan; what it keeps must not leak into the next answer.
void check_case(const ProblemCase& c, const Implementation& implementation, Context& context,
                const std::vector<FillMode>& modes, int runs, int& supported) {
  const Problem& problem = c.problem;
  for (const FillMode mode : modes) {
    if (mode == FillMode::integers && problem.has_named_fills()) continue;  // the case is about its values
    const Truth& truth = truth_of(problem, mode);
    Session session(problem, implementation, context, truth.inputs);
    if (!session.supported()) {
      EXPECT_FALSE(session.plan().reason().empty()) << problem.label();
      return;
    }
    ++supported;
    for (int run = 0; run < runs; ++run) {
      session.restore();
      session.poison_outputs();
      context.enter([&] { session.run(); });
      const Check check = session.check(truth.expected, mode == FillMode::integers && exact_on_integers(problem));
      EXPECT_TRUE(check.passed()) << problem.name() << "/" << implementation.name << "/" << problem.label() << " ("
                                  << c.why << "), " << (mode == FillMode::integers ? "integers" : "values") << ", run "
                                  << run << ", " << context.describe() << ": " << check.failure;
      if (!check.passed()) return;
    }
  }
}

class OpTest : public testing::Test {
 public:
  OpTest(const Op& op, const Implementation& implementation) : op_(op), implementation_(implementation) {}

  void TestBody() override {
    int supported = 0;
    const bool exact = op_.exact_on_integers;
    std::vector<FillMode> modes{FillMode::values};
    if (exact) modes.insert(modes.begin(), FillMode::integers);
    if (implementation_.device == Device::cpu) {
      for (const int threads : {1, kThreads}) {
        CpuContext cpu(std::min(threads, usable_threads()));
        for (int64_t targets = simd_targets(); targets; targets &= targets - 1) {
          hwy::SetSupportedTargetsForTest(targets & -targets);
          run(cpu, modes, 2, supported);
          hwy::SetSupportedTargetsForTest(0);
          if (threads == 1) break;  // one thread: the best target is enough
        }
      }
    } else if (implementation_.device == Device::cuda) {
      static std::string reason;
      static const std::unique_ptr<Context> gpu = open_gpu(reason);
      if (!gpu) GTEST_SKIP() << reason;
      run(*gpu, modes, 2, supported);
    } else {
      // Two orders find what ten random ones find; the second time kernels also choose the tiles of a small GPU.
      using Order = SimtOptions::Order;
      for (const SimtOptions& options :
           {SimtOptions{.order = Order::forward}, SimtOptions{.order = Order::reverse, .multiprocessors = 1}}) {
        std::string reason;
        const std::unique_ptr<Context> host = open_simt(reason, options);
        if (!host) GTEST_SKIP() << reason;
        if (options.order == Order::forward)
          run(*host, {exact ? FillMode::integers : FillMode::values}, 2, supported);
        else
          run(*host, {FillMode::values}, 1, supported);
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(supported, 0) << op_.name << " " << implementation_.name << " accepts no test case";
  }

 private:
  void run(Context& context, const std::vector<FillMode>& modes, int runs, int& supported) {
    for (const ProblemCase& c : op_.cases(Scale::test)) {
      if (context.device() == Device::simt && too_long_for_the_host(c.problem)) continue;
      check_case(c, implementation_, context, modes, runs, supported);
      if (HasFailure()) return;
    }
  }
  // Every access is checked, which is slow. Naive kernels have no tiles that only a larger case fills.
  bool too_long_for_the_host(const Problem& problem) const {
    const double accesses = std::max(problem.flops() / 2, static_cast<double>(problem.bytes()) / 4);
    return accesses > (implementation_.name.ends_with(".naive") ? 1e6 : 5e6);
  }
  const Op& op_;
  const Implementation& implementation_;
};

void register_all() {
  for (const auto& [name, op] : ops())
    for (const Implementation* implementation : implementations(name))
      testing::RegisterTest(name.c_str(), implementation->name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [&op = op, implementation]() -> testing::Test* { return new OpTest(op, *implementation); });
}

// Contracts: what every problem promises about its own cases.
TEST(Contracts, CasesAreValidAndNameable) {
  for (const auto& [name, op] : ops()) {
    for (const Scale scale : {Scale::test, Scale::standard, Scale::full}) {
      bool any = false;
      for (const ProblemCase& c : op.cases(scale)) {
        EXPECT_FALSE(c.why.empty()) << c.problem.label();
        EXPECT_NO_THROW(c.problem.validate()) << c.problem.label();
        const std::string label = c.problem.label();
        any = true;
        EXPECT_EQ(parse_case(name, label).label(), label);
        EXPECT_GE(c.problem.flops(), 0);
        EXPECT_TRUE(scale == Scale::test || !c.problem.has_named_fills())
            << name << "/" << label << ": odd data is timed";
      }
      EXPECT_TRUE(any) << name;
    }
  }
}

// Each slot of a problem stands at its own index.
TEST(Contracts, TensorsAreNamedOnce) {
  for (const auto& [name, op] : ops()) {
    std::map<std::string, int> names;
    for (const TensorSpec& t : op.make().tensors()) EXPECT_EQ(names[t.name]++, 0) << name << " " << t.name;
  }
}

}  // namespace
}  // namespace duet

int main(int argc, char** argv) {
  duet::prepare_process(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const std::string value = arg == "--shard" && i + 1 < argc ? argv[++i] : "";
    const size_t slash = value.find('/');
    if (slash == std::string::npos) {
      std::fprintf(stderr, "duet_op_tests: unknown argument %s; --shard I/N and GoogleTest's options are\n",
                   arg.c_str());
      return 2;
    }
    setenv("GTEST_SHARD_INDEX", value.substr(0, slash).c_str(), 1);
    setenv("GTEST_TOTAL_SHARDS", value.substr(slash + 1).c_str(), 1);
  }
  duet::register_all();
  return RUN_ALL_TESTS();
}
