// SPDX-License-Identifier: Apache-2.0
// Every implementation of the registry on every small and awkward case, against the reference: first on small whole
// numbers, where the answer is exact, then on values; with every tensor aligned, with outputs in the memory of inputs
// where the contract allows it, and with tensors that begin at any element, where our own CUDA code runs as a graph.
// CPU implementations run once on each instruction set that was compiled in. duet_op_tests --shard I/N runs a part; all
// of GoogleTest's own options work. On a GPU in software each access is checked, which is slow: --passes first and
// --passes next choose what is enough there, as for simt.*.
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "core/alignment.h"
#include "core/compare.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/gpu.h"
#include "core/machine.h"
#include "core/op_traits.h"
#include "core/process.h"
#include "core/registry.h"
#include "core/session.h"
#include "simt/simt.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int kThreads = 2;
constexpr int64_t kOffsets[] = {2, 4, 8, 16};                       // bytes; the largest element has 8
constexpr double kSmall = 1 << 15;                                  // accesses of a case on which every variant is run
constexpr int64_t kPack = 8, kLongRow = 1000, kVeryLongRow = 8000;  // elements
// Accesses of the largest cases that kernels in software run: each access is checked, which is slow. Naive kernels have
// no tiles that only a larger case fills.
constexpr double kMaxNaive = 1e6, kMaxTuned = 5e6, kMaxShuffled = 1e5;

bool is_half(const Problem& problem) {
  const DType dtype = problem.tensors().front().dtype;
  return dtype == DType::f16 || dtype == DType::bf16;
}

// Where a library's answer differs in a case that is about values, and is as good.
bool differs_by_design(const Problem& problem, const Implementation& implementation) {
  // Of a row without outcomes cuDNN's softmax is 0 (on an H100), by the formula it is NaN.
  return problem.name() == "softmax" && implementation.name == "cuda.cudnn" &&
         problem.label().find("x=-inf") != std::string::npos;
}

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

// Whether whole numbers stay exact: as the op promises, but for a case whose activation leaves them, and for libraries
// and separate ops that round a product of halves before a bias or c is added to it, as the contracts allow.
bool exact_on_integers(const Problem& problem, const Implementation& implementation) {
  const bool rounds_twice = problem.name() == "linear" || problem.name() == "gemm_acc";
  const bool by_itself = implementation.name.find("cublas") != std::string::npos ||  // the product
                         implementation.name.ends_with(".unfused");
  if (rounds_twice && by_itself && is_half(problem)) return false;
  for (const Attribute& a : problem.attributes())
    if (a.name == "act" && a.text() == "gelu") return false;
  return problem.op().exact_on_integers;
}

// A run's place of the tensors, and its words in a message.
struct Variant {
  Placement placement;
  std::string aliasing;  // such as "dx is dy"; empty where each tensor has memory of its own
  std::string text;
};

// The ways in which outputs from slot `s` on may have the memory of inputs, no two outputs that of the same.
void add_aliasings(const std::vector<TensorSpec>& tensors, size_t s, const Variant& so_far, std::vector<Variant>& all) {
  if (s == tensors.size()) {
    if (!so_far.aliasing.empty()) all.push_back(so_far);
    return;
  }
  add_aliasings(tensors, s + 1, so_far, all);
  const std::vector<int>& taken = so_far.placement.memory_of;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[s].may_be(tensors[i], i) || std::count(taken.begin(), taken.end(), static_cast<int>(i))) continue;
    Variant variant = so_far;
    variant.placement.memory_of[s] = static_cast<int>(i);
    variant.aliasing +=
        fmt::format("{}{} is {}", so_far.aliasing.empty() ? "" : ", ", tensors[s].name, tensors[i].name);
    variant.text = variant.aliasing;
    add_aliasings(tensors, s + 1, variant, all);
  }
}

// Every way to place a problem's tensors that differs for an implementation: outputs in the memory of inputs; one of
// them off 16 bytes by an element, which an implementation may have forgotten; all off alike; each differently.
std::vector<Variant> variants_of(const Problem& problem) {
  const std::vector<TensorSpec> tensors = problem.tensors();
  std::vector<Variant> all;
  add_aliasings(tensors, 0, {{.memory_of = std::vector<int>(tensors.size(), -1), .offset_bytes = {}}, "", ""}, all);
  const auto add_offsets = [&](const std::string& text, const std::function<int64_t(size_t)>& offset_of) {
    Variant variant{{}, "", text};
    for (size_t s = 0; s < tensors.size(); ++s) variant.placement.offset_bytes.push_back(offset_of(s));
    all.push_back(std::move(variant));
  };
  const auto element = [&](size_t s) { return size_of(tensors[s].dtype); };
  for (size_t one = 0; one < tensors.size(); ++one)
    add_offsets(fmt::format("{} off by an element", tensors[one].name),
                [&](size_t s) { return s == one ? element(s) : 0; });
  for (const int64_t bytes : kOffsets)
    add_offsets(fmt::format("all off by {} bytes, or by an element", bytes),
                [&](size_t s) { return std::max(bytes, element(s)); });
  add_offsets("each off by other bytes",
              [&](size_t s) { return std::max(element(s), kOffsets[s % std::size(kOffsets)]); });
  return all;
}

// How much of an implementation one pass over the cases tries.
struct Pass {
  std::vector<FillMode> modes;
  bool moved;  // a second run of the same plan, on tensors in other places: it must not keep what belongs to a run
  bool all_variants;  // on small cases; else one of them on each case, in turn
  double max_accesses = INFINITY;
  bool parts = false;  // only plans with a workspace: sums of parts, whose number depends on the size of the GPU
  double max_f16_accesses = INFINITY;  // of cases of f16, of whose kernels those of bf16 are the same template
  bool only_half_products = false;     // cases of bf16 or f16 that are products
};

// Which passes a GPU takes: all of them, or what is enough for one in software.
enum class Passes : uint8_t { all, first, next };
Passes passes_of_gpu = Passes::all;

class OpTest : public testing::Test {
 public:
  OpTest(const Op& op, const Implementation& implementation) : op_(op), implementation_(implementation) {}

  void TestBody() override {
    const bool exact = op_.exact_on_integers;
    std::vector<FillMode> modes{FillMode::values};
    if (exact) modes.insert(modes.begin(), FillMode::integers);
    if (implementation_.device == Device::cpu) {
      for (const int threads : {1, kThreads}) {
        CpuContext cpu(std::min(threads, usable_threads()));
        for (int64_t targets = simd_targets(); targets; targets &= targets - 1) {
          hwy::SetSupportedTargetsForTest(targets & -targets);
          run(cpu, {modes, true, threads == 1});
          hwy::SetSupportedTargetsForTest(0);
          // One thread: the best target is enough. oneDNN chooses its instruction set itself.
          if (threads == 1 || implementation_.name.starts_with("cpu.onednn")) break;
        }
      }
    } else if (implementation_.device == Device::cuda) {
      static std::string reason;
      static const std::unique_ptr<Context> gpu = open_gpu(reason);
      if (!gpu) GTEST_SKIP() << reason;
      Pass first = first_pass(), next = next_pass();
      first.max_f16_accesses = next.max_f16_accesses = INFINITY;  // also shows that nvcc's kernels of f16 run
      run(*gpu, passes_of_gpu == Passes::first  ? first
                : passes_of_gpu == Passes::next ? next
                                                : Pass{modes, true, true});
    } else {
      // Kernels choose tiles by the size of the GPU, and how many parts long sums have: three sizes. Products of bf16
      // have other kernels for GPUs before sm_90.
      using Order = SimtOptions::Order;
      Pass parts = next_pass(), products = next_pass();
      parts.parts = true;
      parts.max_accesses = kMaxShuffled;
      products.only_half_products = true;
      std::vector<std::pair<SimtOptions, Pass>> passes{{{.order = Order::forward}, first_pass()},
                                                       {{.order = Order::reverse, .multiprocessors = 1}, next_pass()},
                                                       {{.order = Order::shuffled, .multiprocessors = 3}, parts}};
      if (!is_simple()) passes.push_back({{.order = Order::shuffled, .capability = 80}, products});
      for (const auto& [options, pass] : passes) {
        std::string reason;
        const std::unique_ptr<Context> host = open_simt(reason, options);
        if (!host) GTEST_SKIP() << reason;
        run(*host, pass);
        if (HasFailure()) return;
      }
    }
    if (supported_ == 0 && !of_this_machine_.empty()) GTEST_SKIP() << of_this_machine_;
    EXPECT_GT(supported_, 0) << op_.name << " " << implementation_.name << " accepts no test case";
    EXPECT_EQ(tried_, allowed_) << "not every output was once in the memory of each input that the contract allows";
  }

 private:
  // Naive kernels have no packs, whose choice depends on where tensors begin. The composed ones run kernels of other
  // ops, whose tiles and packs the cases of those fill.
  bool is_naive() const { return implementation_.name.ends_with(".naive"); }
  bool is_unfused() const { return implementation_.name.ends_with(".unfused"); }
  bool is_simple() const {
    return is_naive() || is_unfused() || implementation_.name.ends_with(".materialised") ||
           implementation_.name.ends_with(".im2col");
  }
  // What is enough in software.
  Pass first_pass() const {
    return {.modes = {op_.exact_on_integers ? FillMode::integers : FillMode::values},
            .moved = true,
            .all_variants = !is_simple() || is_unfused(),  // of separate ops one may read what another has overwritten
            .max_accesses = is_simple() ? kMaxNaive : kMaxTuned,
            .max_f16_accesses = 2 * kSmall};  // some products by wgmma among them
  }
  // Once more in another order, on a GPU of another size. Naive kernels do not ask for the size: small cases will do.
  Pass next_pass() const {
    return {.modes = {FillMode::values},
            .moved = false,
            .all_variants = false,
            .max_accesses = is_naive()    ? kMaxShuffled
                            : is_simple() ? kMaxNaive
                                          : kMaxTuned,
            .max_f16_accesses = -1};
  }

  void run(Context& context, const Pass& pass) {
    for (const ProblemCase& c : op_.cases(Scale::test)) {
      if (accesses(c.problem) >
          (is_f16(c.problem) ? std::min(pass.max_accesses, pass.max_f16_accesses) : pass.max_accesses))
        continue;
      if (pass.only_half_products && !(is_half(c.problem) && is_product(c.problem))) continue;
      if (differs_by_design(c.problem, implementation_)) continue;
      // A case with a fill of its own is about its values.
      for (const FillMode mode : c.problem.has_named_fills() ? std::vector<FillMode>{FillMode::values} : pass.modes) {
        check_case(c, context, mode, pass);
        if (HasFailure()) return;
      }
    }
  }

  void check_case(const ProblemCase& c, Context& context, FillMode mode, const Pass& pass) {
    const Problem& problem = c.problem;
    const Truth& truth = truth_of(problem, mode);
    Session session(problem, implementation_, context, truth.inputs);
    if (!session.supported()) {
      const std::string& why = session.plan().reason();
      EXPECT_FALSE(why.empty()) << problem.label();
      if (why.find("on this CPU") != why.npos || why.find("on this GPU") != why.npos) of_this_machine_ = why;
      return;
    }
    if (pass.parts && session.plan().workspace_bytes() == 0) return;
    ++supported_;
    const auto passes = [&](const std::string& place, bool moved, bool aliased) {
      session.restore();
      session.poison_outputs();
      std::unique_ptr<RecordedGraph> graph;
      try {
        if ((moved || aliased) && records_graphs()) {
          std::string reason;
          std::exception_ptr refused;  // recording takes errors for reasons why there is no graph
          graph = record_graph(
              context,
              [&] {
                try {
                  session.run();
                } catch (...) {
                  refused = std::current_exception();
                  throw;
                }
              },
              reason);
          if (refused) std::rethrow_exception(refused);
          EXPECT_TRUE(graph) << problem.label() << " " << reason;
          if (graph) graph->replay();
        } else {
          context.enter([&] { session.run(); });
        }
      } catch (const Misaligned&) {  // only by libraries, which choose their algorithms for aligned tensors
        EXPECT_TRUE(moved && implementation_.device == Device::cuda) << problem.label();
        return true;
      } catch (const Aliased&) {  // only by libraries, which do not say that they allow it
        EXPECT_TRUE(aliased && implementation_.device == Device::cuda) << problem.label();
        return true;
      }
      const Check check =
          session.check(truth.expected, mode == FillMode::integers && exact_on_integers(problem, implementation_));
      const std::string changed = session.changed_input();
      const std::string what =
          fmt::format("{}/{}/{} ({}), {}, {}, {}", problem.name(), implementation_.name, problem.label(), c.why,
                      mode == FillMode::integers ? "integers" : "values", place, context.describe());
      EXPECT_TRUE(check.passed()) << what << ": " << check.failure;
      EXPECT_EQ(changed, "") << what << ": this input was changed";
      return check.passed() && changed.empty();
    };
    if (!passes("each tensor aligned", false, false) || !pass.moved) return;

    const std::vector<Variant> variants = variants_of(problem);
    for (const Variant& v : variants)
      if (!v.aliasing.empty()) allowed_.insert(v.aliasing);
    const size_t count = pass.all_variants && accesses(problem) <= kSmall && has_packs(problem) ? variants.size() : 1;
    for (size_t i = 0; i < count; ++i) {
      const auto apart = std::find_if(variants.begin(), variants.end(),
                                      [](const Variant& one) { return !one.placement.offset_bytes.empty(); });
      // Kernels for long rows, which are no small cases, choose packs by whether tensors begin alike.
      const Variant& v = count == 1 && has_long_rows(problem) ? *apart : variants[turn_++ % variants.size()];
      session.place(v.placement);
      if (!v.aliasing.empty()) tried_.insert(v.aliasing);
      if (!passes(v.text, !v.placement.offset_bytes.empty(), !v.aliasing.empty())) return;
    }
  }

  // Our own code on the GPU runs eagerly at first, and in other places as a graph: it neither waits nor allocates.
  bool records_graphs() const {
    const std::string& name = implementation_.name;
    for (const char* library : {"cublas", "cusparse", "cusparselt", "cudnn"})
      if (name.ends_with(library)) return false;
    if (implementation_.device != Device::cuda) return false;
    // Of studies only kernels: others allocate, wait or launch graphs of their own.
    return !op_.name.starts_with(kStudy) || find_implementation(op_.name, "simt" + name.substr(name.find('.')));
  }
  static int64_t row_of_largest(const Problem& problem) {
    const std::vector<TensorSpec> tensors = problem.tensors();
    const auto largest = std::max_element(tensors.begin(), tensors.end(),
                                          [](const auto& a, const auto& b) { return a.elements() < b.elements(); });
    return largest->shape.empty() ? 0 : largest->shape.back();
  }
  static bool is_f16(const Problem& problem) {
    return std::ranges::any_of(problem.tensors(), [](const TensorSpec& t) { return t.dtype == DType::f16; });
  }
  static bool has_long_rows(const Problem& problem) { return row_of_largest(problem) > kVeryLongRow; }
  // Whether rows of the largest tensor allow accesses of 16 bytes where it is aligned: of whole packs, or long.
  static bool has_packs(const Problem& problem) {
    const int64_t row = row_of_largest(problem);
    return row > 0 && (row % kPack == 0 || row > kLongRow);
  }
  // Whether it multiplies each element of its tensors many times.
  static bool is_product(const Problem& problem) {
    int64_t elements = 0;
    for (const TensorSpec& t : problem.tensors()) elements += t.elements();
    return problem.flops() > 8.0 * static_cast<double>(elements);
  }
  static double accesses(const Problem& problem) {
    return std::max(problem.flops() / 2, static_cast<double>(problem.bytes()) / 4);
  }
  const Op& op_;
  const Implementation& implementation_;
  int supported_ = 0;
  std::string of_this_machine_;            // why a library serves no case here, where another CPU has code for some
  size_t turn_ = 0;                        // of the variants
  std::set<std::string> allowed_, tried_;  // aliasings
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

// A sweep is a curve over one size: enough of them, ascending, with all other attributes alike.
TEST(Contracts, SweepsVaryOneSize) {
  constexpr size_t kMinSizes = 7;
  std::set<std::string> swept;
  for (const auto& [name, op] : ops()) {
    std::map<std::string, std::vector<double>> cost;  // by dtype
    for (const ProblemCase& c : op.cases(Scale::sweep)) {
      EXPECT_TRUE(c.why.starts_with("sweep over ")) << c.problem.label();
      EXPECT_NO_THROW(c.problem.validate()) << c.problem.label();
      std::string curve;
      for (const Attribute& a : c.problem.attributes())
        if ((c.why.substr(10) + " ").find(" " + a.name + " ") == std::string::npos) curve += a.text() + "/";
      cost[curve].push_back(static_cast<double>(c.problem.bytes()));
      swept.insert(name);
    }
    for (const auto& [curve, sizes] : cost) {
      EXPECT_GE(sizes.size(), kMinSizes) << name << " " << curve;
      EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end(), std::less_equal<>())) << name << " " << curve;
    }
  }
  for (const char* op : {"adam", "add", "attention", "batchnorm", "conv2d", "copy", "cross_entropy", "embedding",
                         "gemm", "layernorm", "linear", "lstm", "max_pool2d", "relu", "softmax", "sum", "transpose"})
    EXPECT_TRUE(swept.contains(op)) << op;
}

// Each slot of a problem stands at its own index.
TEST(Contracts, TensorsAreNamedOnce) {
  for (const auto& [name, op] : ops()) {
    std::map<std::string, int> names;
    for (const TensorSpec& t : op.make().tensors()) EXPECT_EQ(names[t.name]++, 0) << name << " " << t.name;
  }
}

// --- shards ---------------------------------------------------------------------------------------------------------

const char* const kCosts = DUET_SOURCE_DIR "/tests/ops/costs.txt";
constexpr double kUnknownCost = 0.2;  // CPU seconds, of a test that the file does not have

// tests/ops/costs.txt: a test and its CPU seconds on each line, as --costs has measured them.
std::map<std::string, double> read_costs() {
  std::map<std::string, double> costs;
  std::ifstream file(kCosts);
  std::string name;
  for (double seconds = 0; file >> name >> seconds;) costs[name] = seconds;
  return costs;
}

// Whether one of the patterns, such as "*.simt.*:*Golden*", has the name.
bool matches(const std::string& patterns, const std::string& name) {
  std::istringstream stream(patterns);
  for (std::string one; std::getline(stream, one, ':');)
    if (fnmatch(one.c_str(), name.c_str(), 0) == 0) return true;
  return false;
}

// GoogleTest's filter for the rows of these families (a,b or all) that are our own on the GPU: those that have a twin
// on the host. Throws Error for a family that has none.
std::string filter_of_families(const std::string& families) {
  std::string filter;
  std::istringstream names(families);
  for (std::string family; std::getline(names, family, ',');) {
    const size_t before = filter.size();
    for (const GoldenLine& line : registry_golden()) {
      const auto op = ops().find(line.op);
      if (op != ops().end() && line.implementation.starts_with("simt.") &&
          (family == "all" || family == op->second.family))
        filter += line.op + ".cuda" + line.implementation.substr(line.implementation.find('.')) + ":";
    }
    if (filter.size() == before) throw Error("--families: '{}' has no kernels of ours; all takes every family", family);
  }
  return filter;
}

// GoogleTest's filter for one of `count` shards of the tests that `filter` chooses: the longest tests first, each into
// the shard that has the least to do.
std::string filter_of_shard(const std::string& filter, size_t shard, size_t count) {
  const size_t minus = filter.find('-');
  const std::string wanted = minus == 0 ? "*" : filter.substr(0, minus);
  const std::string unwanted = minus == filter.npos ? "" : filter.substr(minus + 1);
  std::map<std::string, double> costs = read_costs();
  std::vector<std::pair<double, std::string>> tests;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s)
    for (int t = 0; t < all.GetTestSuite(s)->total_test_count(); ++t) {
      const std::string name =
          fmt::format("{}.{}", all.GetTestSuite(s)->name(), all.GetTestSuite(s)->GetTestInfo(t)->name());
      if (!matches(wanted, name) || matches(unwanted, name)) continue;
      tests.emplace_back(costs.count(name) ? costs[name] : kUnknownCost, name);
    }
  std::stable_sort(tests.begin(), tests.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<double> load(count);
  std::string chosen;
  for (const auto& [cost, name] : tests) {
    const auto least = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[least] += cost;
    if (least == shard) chosen += (chosen.empty() ? "" : ":") + name;
  }
  return chosen.empty() ? "-*" : chosen;
}

// Prints the lines of tests/ops/costs.txt.
class CostPrinter : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { start_ = std::clock(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const double seconds = static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC;
    if (seconds >= kUnknownCost) fmt::print("{}.{} {:.1f}\n", test.test_suite_name(), test.name(), seconds);
  }
  std::clock_t start_ = 0;
};

// "2/9": the shard, counted from 0, and how many there are.
std::optional<std::pair<size_t, size_t>> parse_shard(const std::string& text) {
  size_t shard = 0, count = 0;
  char end = 0;
  if (std::sscanf(text.c_str(), "%zu/%zu%c", &shard, &count, &end) != 2 || shard >= count) return std::nullopt;
  return std::pair{shard, count};
}

}  // namespace
}  // namespace duet

int main(int argc, char** argv) {
  duet::prepare_process(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  duet::register_all();
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto shard = arg == "--shard" && i + 1 < argc ? duet::parse_shard(argv[++i]) : std::nullopt;
    if (shard) {
      testing::GTEST_FLAG(filter) = duet::filter_of_shard(testing::GTEST_FLAG(filter), shard->first, shard->second);
    } else if (const std::string passes = arg == "--passes" && i + 1 < argc ? argv[i + 1] : "";
               passes == "first" || passes == "next") {
      duet::passes_of_gpu = passes == "first" ? duet::Passes::first : duet::Passes::next;
      ++i;
    } else if (arg == "--families" && i + 1 < argc) {
      try {
        testing::GTEST_FLAG(filter) = duet::filter_of_families(argv[++i]);
      } catch (const duet::Error& e) {
        std::fprintf(stderr, "duet_op_tests: %s\n", e.what());
        return 2;
      }
    } else if (arg == "--costs") {
      delete testing::UnitTest::GetInstance()->listeners().Release(
          testing::UnitTest::GetInstance()->listeners().default_result_printer());
      testing::UnitTest::GetInstance()->listeners().Append(new duet::CostPrinter);
    } else {
      std::fprintf(
          stderr,
          "duet_op_tests: %s is neither --shard I/N (I below N), nor --passes first or next, nor --families F,F "
          "(our own kernels of these families), nor --costs "
          "(print CPU seconds of each test, as in tests/ops/costs.txt), nor an option of GoogleTest\n",
          argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
