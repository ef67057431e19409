// SPDX-License-Identifier: Apache-2.0
// Ops as benchmark cases: every registered problem with every implementation, built here or not.
#include <algorithm>
#include <cmath>
#include <set>

#include "bench/cases.h"
#include "bench/roof.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/registry.h"
#include "core/session.h"

namespace duet::bench {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMaxQuickBytes = 256 * kMiB, kMaxQuickHalfBytes = 32 * kMiB;  // in f32 and in bf16
constexpr double kMaxQuickFlops = 5e9;     // of which the reference, serial and in double, computes a part
constexpr int64_t kMaxCopiesBytes = kMiB;  // inout copies of a batch together stay within a second-level cache

int copies_for(const Problem& problem) {
  int64_t bytes = 0;
  for (const TensorSpec& t : problem.tensors())
    if (t.role == Role::inout) bytes += t.bytes();
  if (bytes == 0 || bytes > 8 * kMiB) return 1;
  return static_cast<int>(std::clamp<int64_t>(kMaxCopiesBytes / bytes, 2, 256));
}

class OpRunner final : public Runner {
 public:
  OpRunner(std::unique_ptr<Session> session, const Expected& expected)
      : session_(std::move(session)), expected_(&expected), applied_(static_cast<size_t>(session_->copies())) {
    create_s = session_->create_s();
    algorithm = session_->plan().algorithm;
    workspace_bytes = session_->plan().workspace_bytes();
  }
  Context& context() override { return session_->context(); }
  void run(int copy) override {
    ++applied_[static_cast<size_t>(copy)];
    session_->run(copy);
  }
  int copies() const override { return session_->copies(); }
  bool restores() const override { return session_->has_inout(); }
  void restore() override {
    session_->restore();
    std::fill(applied_.begin(), applied_.end(), 0);
  }
  void begin_repetition() override { session_->poison_outputs(); }
  void evict() override { session_->evict(); }
  void refreshed() override { applied_[0] = 0; }

  // An inout copy was applied once since it was restored, or not at all; the first and the last of the former are
  // checked.
  Check verify() override {
    Check worst;
    int first = -1, last = -1;
    for (int c = 0; c < copies(); ++c)
      if (applied_[static_cast<size_t>(c)] > 0) {
        last = c;
        first = first < 0 ? c : first;
      }
    if (first < 0) {
      worst.failure = "nothing was run";
      return worst;
    }
    for (const int c : std::set<int>{first, last}) {
      if (restores() && applied_[static_cast<size_t>(c)] != 1) {
        worst.failure = fmt::format("inout tensors were updated {} times", applied_[static_cast<size_t>(c)]);
        return worst;
      }
      const Check check = session_->check(*expected_, false, c);
      if (!check.passed() || check.max_error_ratio >= worst.max_error_ratio) worst = check;
      if (!worst.passed()) break;
    }
    return worst;
  }
  std::vector<std::pair<void*, int64_t>> uploads() const override { return session_->device_inputs(); }
  std::vector<std::pair<void*, int64_t>> downloads() const override { return session_->device_outputs(); }

 private:
  std::unique_ptr<Session> session_;
  const Expected* expected_;
  std::vector<int> applied_;
};

class OpCase final : public BenchCase {
 public:
  OpCase(const Op& known, const ProblemCase& c) : problem_(c.problem) {
    op = known.name;
    family = known.family;
    formula = known.formula;
    why = c.why;
    label = problem_.label();
    params = problem_.attributes();
    dtype = name_of(problem_.dtype());
    math = "ieee";
    for (const Attribute& a : params)
      if (a.name == "math") math = a.text();
    flops = problem_.flops();
    bytes = problem_.bytes();
    footprint_bytes = problem_.footprint_bytes();
    pattern = pattern_of(problem_.tensors());

    std::set<std::string> names;
    for (const Implementation* i : implementations(op)) names.insert(i->name);
    for (const GoldenLine& g : registry_golden())
      if (g.op == op) names.insert(g.implementation);
    for (const std::string& n : names) {
      if (n.starts_with("simt.")) continue;  // checked on the host, never timed
      Side side{n, op + "/" + n + "/" + label, n.starts_with("cpu.") ? Device::cpu : Device::cuda, ""};
      if (!find_implementation(op, n)) side.unavailable_reason = "not built here";
      sides.push_back(side);
    }
  }

  void prepare(uint64_t seed) override {
    inputs_ = draw_inputs(problem_, FillMode::values, seed);
    expected_ = Expected::sampled(problem_, inputs_, seed);
  }
  void release() override {
    inputs_ = {};
    expected_ = {};
  }

  std::unique_ptr<Runner> make(const Side& side, Context& context, std::string& reason) override {
    auto session = std::make_unique<Session>(problem_, *find_implementation(op, side.implementation), context, inputs_,
                                             copies_for(problem_));
    if (!session->supported()) {
      reason = session->plan().reason();
      return nullptr;
    }
    return std::make_unique<OpRunner>(std::move(session), expected_);
  }
  std::string repro(const Side& side) const override {
    return fmt::format("duet op {} --impl {} --case {} --check", op, side.implementation, label);
  }

 private:
  Problem problem_;
  HostTensors inputs_;
  Expected expected_;
};

// A case without its precision: the cases of one shape in several dtypes count as one.
std::string shape_of(const Problem& problem) {
  std::string shape;
  for (const Attribute& a : problem.attributes())
    if (a.name != "dtype" && a.name != "math") shape += a.text() + "/";
  return shape;
}

bool plain_f32(const Problem& p) {
  const std::vector<Attribute> attributes = p.attributes();
  return p.dtype() == DType::f32 && std::none_of(attributes.begin(), attributes.end(),
                                                 [](const Attribute& a) { return a.name == "math" && !a.is_default; });
}

// Smoke takes the cheapest shape: it only shows that everything runs.
const ProblemCase* cheapest(const std::vector<ProblemCase>& cases) {
  const ProblemCase* min = nullptr;
  const auto cost = [](const Problem& p) { return p.flops() + static_cast<double>(p.bytes()); };
  for (const ProblemCase& c : cases)
    if (plain_f32(c.problem) && (!min || cost(c.problem) < cost(min->problem))) min = &c;
  return min;
}

// Quick takes the first shapes that are small enough; bf16 beside f32 for the first one only, and not where it is
// memory traffic that f32 shows as well.
bool kept_when_quick(const Problem& p, std::vector<std::string>& taken) {
  if (p.footprint_bytes() > kMaxQuickBytes || p.flops() > kMaxQuickFlops) return false;
  const std::string shape = shape_of(p);
  const auto at = std::find(taken.begin(), taken.end(), shape);
  if (p.dtype() == DType::bf16)
    return p.footprint_bytes() <= kMaxQuickHalfBytes && !taken.empty() && at == taken.begin();
  if (!plain_f32(p)) return false;
  if (at != taken.end()) return true;
  if (taken.size() == 2) return false;
  taken.push_back(shape);
  return true;
}

// The cases of ops that --case names. One that is named twice, in whatever spelling, is measured once.
Cases named_op_cases(const Options& options) {
  Cases cases;
  std::set<std::string> names;
  for (const NamedCase& named : options.cases) {
    if (is_step(named)) continue;
    try {
      auto c = std::make_unique<OpCase>(find_op(named.op),
                                        ProblemCase{"given by " + named.source, parse_case(named.op, named.text)});
      if (names.insert(c->name()).second) cases.push_back(std::move(c));
    } catch (const Error& e) {
      throw Error("{}: {}", named.source, e.what());
    }
  }
  return cases;
}

}  // namespace

Cases op_cases(const Options& options) {
  if (!options.cases.empty()) return named_op_cases(options);
  Cases cases;
  const Scale scale = options.preset == Preset::full ? Scale::full : Scale::standard;
  for (const auto& [name, op] : ops()) {
    const std::vector<ProblemCase> all = op.cases(scale);
    const ProblemCase* smoke = cheapest(all);
    std::vector<std::string> taken;
    for (const ProblemCase& c : all)
      if (options.preset == Preset::smoke   ? &c == smoke
          : options.preset == Preset::quick ? kept_when_quick(c.problem, taken)
                                            : true)
        cases.push_back(std::make_unique<OpCase>(op, c));
  }
  return cases;
}

}  // namespace duet::bench
