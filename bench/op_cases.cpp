// SPDX-License-Identifier: Apache-2.0
// Ops as benchmark cases: every registered problem with every implementation, built here or not.
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "bench/cases.h"
#include "bench/roof.h"
#include "core/checksum.h"
#include "core/coverage.h"
#include "core/csr.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/machine.h"
#include "core/op_traits.h"
#include "core/registry.h"
#include "core/session.h"
#include "core/stripes.h"
#include "results/rules.h"

namespace duet::bench {
namespace {

constexpr int64_t kMiB = 1 << 20;
// Of a shape in f32, and of the first one in bf16.
constexpr int64_t kMaxQuickBytes = 64 * kMiB, kMaxQuickHalfBytes = 16 * kMiB;
constexpr int64_t kMaxQuickStudyBytes = 256 * kMiB;
// Of which the reference, serial and in double, computes a part; of a recurrent layer all that its slices depend on.
constexpr double kMaxQuickFlops = 4e9, kMaxQuickRecurrentFlops = 1.3e9;
constexpr double kQuickCoverage_s = 0.2, kMaxCoverage_s = 2;  // what the reference may take for all elements of a case
constexpr double kSampledFlops = 2e8, kFirstSampledFlops = 2e7;  // of sampled slices: of the last inputs, of the first
constexpr int64_t kMaxDrawnTwiceBytes = 2048 * kMiB;  // beyond, a case has the same inputs in every repetition
constexpr uint64_t kNextSeed = 0x9E3779B9;            // from the first drawing of inputs to the second
constexpr int64_t kMaxCopiesBytes = kMiB;  // inout copies of a batch together stay within a second-level cache

int copies_for(const Problem& problem) {
  int64_t bytes = 0;
  for (const TensorSpec& t : problem.tensors())
    if (t.role == Role::inout) bytes += t.bytes();
  if (bytes == 0 || bytes > 8 * kMiB) return 1;
  return static_cast<int>(std::clamp<int64_t>(kMaxCopiesBytes / bytes, 2, 256));
}

// One drawing of a case's inputs, with the reference's answer on sampled slices. Only the last one has a coverage.
struct Drawn {
  HostTensors inputs;
  Expected expected;
  std::unique_ptr<Coverage> coverage;
};

// An op with its memory. What is timed is verified as follows, outside the clock:
//  - The outputs of each series' last repetition are compared with what is expected.
//  - After each sample, stripes of the outputs must hold what they hold in verified outputs. On a GPU, where each
//    stripe is a transfer, this is done after the last sample of a repetition and after two more.
//  - Applications one by one, each after the stripes were overwritten, must write them again: the samples themselves
//    where a sample is one application on the CPU, else three more behind each repetition.
//  - The last repetition has other inputs than those before it, and the first application after the change finds the
//    outputs as the old inputs left them: a kept answer is seen.
//  - After each repetition the inputs must hold what was uploaded, and the memory around all tensors what it held.
class OpRunner final : public Runner {
 public:
  OpRunner(const Problem& problem, const std::string& implementation, std::unique_ptr<Session> session,
           const std::vector<Drawn>& drawn, uint64_t seed)
      : problem_(problem),
        implementation_(implementation),
        session_(std::move(session)),
        drawn_(&drawn),
        on_cpu_(session_->context().device() == Device::cpu),
        stripes_(choose_stripes(problem.tensors(), seed, on_cpu_ ? kCpuStripes : kGpuStripes)),
        verified_(drawn.size()),
        applied_(static_cast<size_t>(session_->copies())) {
    create_s = session_->create_s();
    algorithm = session_->plan().algorithm;
    if (session_->plan().is_prepared())
      algorithm +=
          (algorithm.empty() ? "" : "; ") + std::string(results::kBeforeTheClock) + session_->plan().prepared_names();
    workspace_bytes = session_->plan().workspace_bytes();
  }
  Context& context() override { return session_->context(); }
  void run(int copy) override {
    ++applied_[static_cast<size_t>(copy)];
    ++applications_;
    if (uploaded_) session_->prepare();
    uploaded_ = false;
    session_->run(copy);
  }
  int copies() const override { return session_->copies(); }
  bool restores() const override { return session_->has_inout(); }
  void restore() override {
    session_->restore();
    std::fill(applied_.begin(), applied_.end(), 0);
  }
  void evict() override { session_->evict(); }
  void refreshed() override {
    applied_[0] = 0;
    uploaded_ = true;
  }

  void begin_repetition(int index, int count) override {
    const size_t wanted = index + 1 == count ? drawn_->size() - 1 : 0;
    if (wanted != now_) {
      now_ = wanted;
      session_->load((*drawn_)[now_].inputs);
      apply_once();
      look(0, "after the inputs had been drawn afresh");
    }
    session_->poison_outputs();
  }
  void before_sample(int, int) override {
    if (on_cpu_ && single_ && !restores()) session_->overwrite(stripes_, key_ += kKeyStep);
    applications_ = 0;
  }
  void after_sample(int index, int count) override {
    single_ = applications_ == 1;
    if (on_cpu_ || index + 1 == count || index == count / 2 || index == 0)
      look(restores() ? last_applied() : 0, fmt::format("after sample {}", index));
  }

  Check verify(bool last) override {
    if (const std::string input = session_->changed_input(); !input.empty())
      return failed(fmt::format("input {} no longer holds what was uploaded: it was overwritten", input));
    Check check;
    if (last || verified_[now_].empty()) check = verify_values();
    if (!check.passed()) return check;
    check.failure = verify_seen();
    seen_.clear();
    if (check.passed() && (!single_ || !on_cpu_)) check.failure = verify_single_applications();
    if (check.passed()) check.failure = session_->guard_failure();
    return check;
  }
  std::vector<std::pair<void*, int64_t>> uploads() const override { return session_->device_inputs(); }
  std::vector<std::pair<void*, int64_t>> downloads() const override { return session_->device_outputs(); }

 private:
  static constexpr int kCpuStripes = 64, kGpuStripes = 8;  // of an output
  static constexpr int kSingleApplications = 3;  // odd, so that one which works every second time fails at least once
  static constexpr uint64_t kKeyStep = uint64_t{1} << 32;  // between the bytes that stripes are overwritten with

  struct Seen {  // what the stripes held
    std::string when;
    std::vector<unsigned char> bytes;  // empty where only the checksum is needed
    uint64_t checksum;
  };

  static Check failed(std::string reason) {
    Check check;
    check.max_error_ratio = INFINITY;
    check.failure = std::move(reason);
    return check;
  }
  void apply_once() {
    if (restores()) restore();
    context().enter([&] { run(0); });
  }
  int last_applied() const {
    int last = 0;
    for (int c = 0; c < copies(); ++c)
      if (applied_[static_cast<size_t>(c)] > 0) last = c;
    return last;
  }
  void look(int copy, std::string when) {
    std::vector<unsigned char> bytes = session_->read(stripes_, copy);
    const uint64_t sum = checksum(bytes.data(), static_cast<int64_t>(bytes.size()));
    if (!session_->plan().varies) bytes.clear();
    seen_.push_back({std::move(when), std::move(bytes), sum});
  }

  // An inout copy was applied once since it was restored, or not at all; the first and the last of the former are
  // compared.
  Check verify_values() {
    Check worst;
    int first = -1;
    for (int c = copies() - 1; c >= 0; --c)
      if (applied_[static_cast<size_t>(c)] > 0) first = c;
    if (first < 0) return failed("nothing was run");
    for (const int c : std::set<int>{first, last_applied()}) {
      if (restores() && applied_[static_cast<size_t>(c)] != 1)
        return failed(fmt::format("inout tensors were updated {} times", applied_[static_cast<size_t>(c)]));
      const HostTensors got = session_->download(c);
      const Drawn& drawn = (*drawn_)[now_];
      Check check = compare(problem_, drawn.expected, got, false);
      if (check.passed() && drawn.coverage) check = joined(check, drawn.coverage->compare(implementation_, got));
      if (!check.passed() || check.max_error_ratio >= worst.max_error_ratio) worst = check;
      if (!worst.passed()) break;
      verified_[now_] = bytes_of(stripes_, got);
    }
    return worst;
  }

  std::string verify_seen() const {
    const std::vector<unsigned char>& verified = verified_[now_];
    const uint64_t sum = checksum(verified.data(), static_cast<int64_t>(verified.size()));
    for (const Seen& s : seen_) {
      if (s.checksum == sum) continue;
      const std::string what = session_->plan().varies ? difference(s.bytes) : "the outputs are not those verified";
      if (!what.empty()) return s.when + ": " + what;
    }
    return "";
  }

  std::string verify_single_applications() {
    for (int i = 0; i < kSingleApplications; ++i) {
      session_->overwrite(stripes_, key_ += kKeyStep);
      apply_once();
      const std::vector<unsigned char> bytes = session_->read(stripes_);
      if (bytes == verified_[now_]) continue;
      const std::string what = difference(bytes);
      if (!what.empty()) return fmt::format("application {} by itself: {}", i + 1, what);
    }
    return "";
  }

  // The first element of the stripes that is not the verified one: in its bits, or beyond both bounds where the plan
  // says that its roundings vary. The bound takes the largest abs_sum that the reference claims for the tensor.
  std::string difference(const std::vector<unsigned char>& bytes) const {
    const unsigned char* got = bytes.data();
    const unsigned char* want = verified_[now_].data();
    const std::vector<TensorSpec> specs = problem_.tensors();
    for (const Stripe& s : stripes_) {
      const TensorSpec& spec = specs[s.slot];
      const auto size = static_cast<int64_t>(size_of(spec.dtype));
      for (int64_t i = 0; i < s.bytes / size; ++i) {
        if (std::memcmp(got + i * size, want + i * size, static_cast<size_t>(size)) == 0) continue;
        const double g = load_as_double(got, spec.dtype, i), w = load_as_double(want, spec.dtype, i);
        if (session_->plan().varies) {
          const int slot = static_cast<int>(s.slot);
          const double bound =
              bound_of(problem_.tolerance(slot), {slot, 0, w, (*drawn_)[now_].expected.max_abs_sum(slot)});
          if (std::abs(g - w) <= 2 * bound || (std::isnan(g) && std::isnan(w))) continue;
        }
        return fmt::format("{}[{}] of {}: got {:.9g}, in the verified outputs {:.9g}", spec.name, s.first / size + i,
                           spec.elements(), g, w);
      }
      got += s.bytes;
      want += s.bytes;
    }
    return "";
  }

  Problem problem_;
  std::string implementation_;
  std::unique_ptr<Session> session_;
  const std::vector<Drawn>* drawn_;
  bool on_cpu_;
  std::vector<Stripe> stripes_;
  std::vector<std::vector<unsigned char>> verified_;  // [drawn]: what the stripes hold in outputs that were compared
  std::vector<Seen> seen_;                            // since the last verification: a repetition may be taken again
  size_t now_ = 0;                                    // which inputs are loaded
  uint64_t key_ = 0;
  int applications_ = 0;   // of the sample
  bool uploaded_ = false;  // whether the next application prepares what depends on inputs, because they came anew
  bool single_ = false;    // whether the last sample held one application
  std::vector<int> applied_;
};

class OpCase final : public BenchCase {
 public:
  OpCase(const Op& known, const ProblemCase& c, Preset preset)
      : problem_(c.problem), budget_s_(preset <= Preset::sweep ? kQuickCoverage_s : kMaxCoverage_s) {
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
    const std::vector<TensorSpec> tensors = problem_.tensors();
    const auto factors = std::count_if(tensors.begin(), tensors.end(),
                                       [](const TensorSpec& t) { return t.role == Role::in && t.dtype == DType::i8; });
    if (factors >= 2 && is_float(problem_.dtype())) math = name_of(DType::i8);  // a product of integers, scaled
    flops = problem_.flops();
    bytes = problem_.bytes();
    footprint_bytes = problem_.footprint_bytes();
    pattern = pattern_of(tensors);
    const Roofs roofs = traits_of(op).roofs;
    cpu_roof = roofs.cpu;
    gpu_roof = roofs.gpu;

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
    seed_ = seed;
    drawn_.resize(problem_.footprint_bytes() > kMaxDrawnTwiceBytes ? 1 : 2);
    for (size_t i = 0; i < drawn_.size(); ++i) {
      drawn_[i].inputs = draw_inputs(problem_, FillMode::values, seed + i * kNextSeed);
      require_csr(problem_, drawn_[i].inputs);  // a case given by --case may fill them otherwise
    }
    // At once: of some ops one slice takes longer than all others together.
    tbb::parallel_for(size_t{0}, drawn_.size(), [&](size_t i) {
      const bool last = i + 1 == drawn_.size();
      drawn_[i].expected =
          Expected::sampled(problem_, drawn_[i].inputs, seed, last ? kSampledFlops : kFirstSampledFlops);
    });
    Drawn& last = drawn_.back();
    last.coverage =
        std::make_unique<Coverage>(problem_, last.inputs, last.expected, last.expected.reference_s(usable_threads()),
                                   budget_s_, kMaxCoverage_s, seed);
  }
  void release() override { drawn_.clear(); }

  std::unique_ptr<Runner> make(const Side& side, Context& context, std::string& reason) override {
    auto session = std::make_unique<Session>(problem_, *find_implementation(op, side.implementation), context,
                                             drawn_[0].inputs, copies_for(problem_));
    if (!session->supported()) {
      reason = session->plan().reason();
      return nullptr;
    }
    return std::make_unique<OpRunner>(problem_, side.implementation, std::move(session), drawn_, seed_);
  }
  std::string repro(const Side& side) const override {
    return fmt::format("duet op {} --impl {} --case {} --check", op, side.implementation, label);
  }

 private:
  Problem problem_;
  double budget_s_;  // of the reference for all slices, where there is another way to compare all elements
  uint64_t seed_ = 0;
  std::vector<Drawn> drawn_;  // for all repetitions of a series but the last, and for the last
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

// Quick takes two shapes of an op, the first ones that are small enough; they may be larger than the caches. bf16
// stands beside f32 for the first one only, and not where it is memory traffic that f32 shows as well. A backward pass
// takes the first shape in f32: the forward pass has the others. Both passes as one problem take it in bf16 as well,
// the only type of the two in which cuDNN has them; recurrent layers have bf16 there alone.
bool kept_when_quick(const Problem& p, const Op& op, std::vector<std::string>& taken) {
  if (p.footprint_bytes() > kMaxQuickBytes || p.flops() > kMaxQuickFlops) return false;
  if (op.family == "recurrent" && p.flops() > kMaxQuickRecurrentFlops) return false;
  const std::string_view name = op.name;
  const bool is_backward = name.find("_backward") != name.npos, is_training = name.ends_with("_training");
  const std::string shape = shape_of(p);
  const auto at = std::find(taken.begin(), taken.end(), shape);
  if (p.dtype() == DType::bf16)
    return !is_backward && (is_training || op.family != "recurrent") && p.footprint_bytes() <= kMaxQuickHalfBytes &&
           !taken.empty() && at == taken.begin();
  if (!plain_f32(p)) return false;
  if (at != taken.end()) return true;
  if (taken.size() == (is_backward || is_training ? 1 : 2)) return false;
  taken.push_back(shape);
  return true;
}

// Quick takes all cases of a study that are small enough where the filter names studies, since a curve needs its
// points. Without such a filter one of each study shows that it works.
bool kept_of_study(const Problem& p, const Options& options, std::vector<std::string>& taken) {
  if (p.footprint_bytes() > kMaxQuickStudyBytes || p.flops() > kMaxQuickFlops) return false;
  if (options.filter.find(kStudy) != std::string::npos) return true;
  taken.push_back(p.label());
  return taken.size() == 1;
}

// Flops and bytes are those of the lengths that the contract draws: with others a rate would be wrong.
void refuse_lengths(const NamedCase& named) {
  for (const CaseWord& w : words_of(named.text))
    if (w.kind == CaseWord::Kind::fill && w.name == "lengths")
      throw Error("lengths={}: a case that is timed has the lengths that its op draws; leave it out", w.value);
}

// The cases of ops that --case names. One that is named twice, in whatever spelling, is measured once.
Cases named_op_cases(const Options& options) {
  Cases cases;
  std::set<std::string> names;
  for (const NamedCase& named : options.cases) {
    if (is_model(named)) continue;
    try {
      refuse_lengths(named);
      auto c = std::make_unique<OpCase>(
          find_op(named.op), ProblemCase{"given by " + named.source, parse_case(named.op, named.text)}, options.preset);
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
  const Scale scale = options.preset == Preset::full    ? Scale::full
                      : options.preset == Preset::sweep ? Scale::sweep
                                                        : Scale::standard;
  for (const auto& [name, op] : ops()) {
    const std::vector<ProblemCase> all = op.cases(scale);
    const ProblemCase* smoke = cheapest(all);
    std::vector<std::string> taken;
    const size_t others = cases.size();
    for (const ProblemCase& c : all)
      if (options.preset == Preset::smoke   ? &c == smoke
          : options.preset != Preset::quick ? true
          : name.starts_with(kStudy)        ? kept_of_study(c.problem, options, taken)
                                            : kept_when_quick(c.problem, op, taken))
        cases.push_back(std::make_unique<OpCase>(op, c, options.preset));
    // An op whose cases are all too large has the cheapest one.
    if (options.preset == Preset::quick && cases.size() == others && smoke && !name.starts_with(kStudy))
      cases.push_back(std::make_unique<OpCase>(op, *smoke, options.preset));
  }
  return cases;
}

}  // namespace duet::bench
