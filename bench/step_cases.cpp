// SPDX-License-Identifier: Apache-2.0
// Training steps and inferences as benchmark cases: every registered model on each side.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "bench/cases.h"
#include "bench/roof.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "models/step.h"
#include "results/statistics.h"

namespace duet::bench {
namespace {

constexpr const char* kGraph = "gpu.graph";
constexpr int kMinSamples = 3, kMaxSamples = 21;  // of each phase and each node
constexpr double kProfileBudgets =
    5;  // of a repetition, for the phases and again for the nodes; then kMinSamples will do
constexpr double kMaxQuickWork = 3e9;  // operations of a step or an inference
constexpr double kOperationsPerByte = 10;
// Of comparing every element of the ops of a step: in a run of smoke, quick or sweep; in a quick one that was asked for
// steps; and in the others.
constexpr double kQuickElements_s = 2, kAskedElements_s = 5, kElements_s = 120;
constexpr double kNodeSample_s = 100e-6;  // a node is repeated until a sample lasts this long

// Whether quick leaves out large models: a filter that names steps or inferences asks for them all.
bool is_short(const Options& options) {
  const auto named = [&](const char* folder) { return options.filter.find(folder) != std::string::npos; };
  return options.preset == Preset::quick && !named("step") && !named("infer");
}

double elements_s(const Options& options) {
  if (options.preset == Preset::quick && !is_short(options)) return kAskedElements_s;
  return options.preset <= Preset::sweep ? kQuickElements_s : kElements_s;
}

int64_t batch_of(const Model& model) {
  for (const Attribute& a : model.attributes())
    if (a.name == "batch") return std::stoll(a.text());
  throw Error("model {} has no attribute batch", model.name());
}

class StepRunner final : public Runner {
 public:
  StepRunner(std::unique_ptr<Step> step, uint64_t seed, bool single_calls, double elements_s)
      : step_(std::move(step)), seed_(seed), single_calls_(single_calls), elements_s_(elements_s) {
    create_s = step_->create_s();
    for (const auto& [op, implementation] : step_->implementations())
      algorithm += (algorithm.empty() ? "" : "; ") + op + " by " + implementation;
    workspace_bytes = step_->memory_bytes();
  }
  Context& context() override { return step_->tape().context(); }
  void run(int) override {
    ++steps_;
    step_->run();
  }
  void evict() override { step_->evict(); }
  bool single_calls() const override { return single_calls_; }
  bool reads_batches() const override { return true; }

  // The last repetition has other inputs than those before it. The steps of its last sample are taken again, op by op.
  void begin_repetition(int index, int count) override {
    last_ = index + 1 == count;
    if (last_ || index == 0) step_->draw_inputs(last_ ? seed_ + ++drawings_ : seed_);
  }
  void before_sample(int index, int count) override {
    if (last_ && index + 1 == count) step_->keep_state();
    steps_ = 0;
  }
  Check verify(bool last) override {
    if (const std::string input = step_->changed_input(); !input.empty()) {
      Check check;
      check.failure = fmt::format("input {} no longer holds what was uploaded: it was overwritten", input);
      return check;
    }
    if (!last) return {};
    return step_->replay_kept(steps_, seed_, elements_s_);
  }
  std::vector<std::pair<void*, int64_t>> uploads() const override { return step_->device_inputs(); }
  std::vector<std::pair<void*, int64_t>> downloads() const override { return step_->device_outputs(); }
  Step& step() { return *step_; }

 private:
  std::unique_ptr<Step> step_;
  uint64_t seed_, drawings_ = 0;
  bool single_calls_, last_ = false;
  double elements_s_;
  int steps_ = 0;  // of the sample
};

int64_t bytes_of(const std::vector<std::pair<void*, int64_t>>& memory) {
  int64_t sum = 0;
  for (const auto& [data, bytes] : memory) sum += bytes;
  return sum;
}

template <class F>
double seconds_of(Context& context, const F& work) {
  double time_s = 0;
  context.synchronize();
  context.enter([&] {
    const auto start = std::chrono::steady_clock::now();
    work();
    context.synchronize();
    time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
  return time_s;
}

class StepCase final : public BenchCase {
 public:
  StepCase(const ModelCase& c, Pass pass, const Options& options)
      : model_(c.model),
        pass_(pass),
        choice_(options.measured_choice ? Choice::measured : Choice::order),
        profile_s_(kProfileBudgets * options.budget_s()),
        elements_s_(elements_s(options)) {
    op = folder_of(pass) + model_.name();
    family = pass == Pass::training ? "step" : "inference";
    formula = pass == Pass::training ? "forward, loss, backward, optimiser" : "forward pass of the evaluation";
    why = c.why;
    label = model_.label();
    params = model_.attributes();
    math = "ieee";
    pattern = "triad";
    for (const Attribute& a : params)
      if (a.name == "dtype") dtype = a.text();
    for (const char* side : {"cpu", "gpu", kGraph})
      sides.push_back(
          {side, step_job_name(model_, side, pass), side == std::string("cpu") ? Device::cpu : Device::cuda, ""});
  }
  void prepare(uint64_t seed) override { seed_ = seed; }
  void release() override {}

  std::unique_ptr<Runner> make(const Side& side, Context& context, std::string& unsupported_reason) override {
    const Step::Form form = side.implementation == kGraph ? Step::Form::graph : Step::Form::eager;
    auto step =
        std::make_unique<Step>(model_, context, Tape::preferences_for(context.device()), seed_, form, pass_, choice_);
    if (!step->supported()) {
      unsupported_reason = step->reason();
      return nullptr;
    }
    // A lower bound of the step's roof: all its work at the peak, all its traffic at the bandwidth of its footprint.
    if (flops == 0) {
      flops = step->flops();
      bytes = step->bytes();
      footprint_bytes = step->memory_bytes();
    }
    return std::make_unique<StepRunner>(std::move(step), seed_, pass_ == Pass::inference && batch_of(model_) == 1,
                                        elements_s_);
  }
  std::string repro(const Side& side) const override {
    return "bench_all --case '" + name() + "' --impl " + side.implementation;
  }

  std::optional<results::Step> profile_step(Runner& runner) override {
    Step& step = static_cast<StepRunner&>(runner).step();
    const Tape& tape = step.tape();
    results::Step profile;
    profile.peak_memory_bytes = step.memory_bytes();
    for (const auto& [op, implementation] : step.implementations())
      profile.implementations.emplace_back(op, implementation);
    const Var x = tape.find("x");  // samples first; rows of whole numbers are tokens
    profile.samples = tape.replicas() * tape.shape(x)[0];
    if (!is_float(tape.dtype(x)) && tape.shape(x).size() > 1)
      profile.tokens = tape.replicas() * tape.bytes(x) / size_of(tape.dtype(x));
    profile.upload_bytes = bytes_of(step.device_inputs());
    profile.download_bytes = bytes_of(step.device_outputs());
    profile.phases_s = time_phases(step, runner.context());
    for (size_t node = 0; node < step.nodes().size(); ++node) {
      const std::string& job = step.nodes()[node].job;
      add(profile.nodes_s, job.substr(0, job.find('/')), time_node(step, node, runner.context()));
    }
    return profile;
  }

 private:
  static void add(results::Amounts& amounts, const std::string& name, double amount) {
    const auto at = std::find_if(amounts.begin(), amounts.end(), [&](const auto& a) { return a.first == name; });
    if (at == amounts.end())
      amounts.emplace_back(name, amount);
    else
      at->second += amount;
  }

  results::Amounts time_phases(Step& step, Context& context) const {
    std::vector<std::vector<double>> samples(step.phases().size());
    double spent_s = 0;
    for (int i = 0; i < kMaxSamples && (i < kMinSamples || spent_s < profile_s_); ++i)
      for (size_t p = 0; p < samples.size(); ++p) {
        samples[p].push_back(seconds_of(context, [&] { step.run_phase(p); }));
        spent_s += samples[p].back();
      }
    results::Amounts phases_s;
    for (size_t p = 0; p < samples.size(); ++p) phases_s.emplace_back(step.phases()[p], results::median(samples[p]));
    return phases_s;
  }

  double time_node(Step& step, size_t node, Context& context) const {
    // A node that updates in place would go on from its own result and grow beyond all numbers: what it rewrites is
    // restored after each run. The optimiser's nodes take small steps and need no restoring.
    const bool optimiser = step.phases()[step.tape().nodes()[node].phase] == kOptimiser;
    const auto rewritten = optimiser ? decltype(step.rewritten(node)){} : step.rewritten(node);
    std::vector<Buffer> kept;
    for (const auto& [memory, bytes] : rewritten)
      context.copy_within(kept.emplace_back(context, bytes).data(), memory, bytes);
    const auto restore = [&] {
      for (size_t i = 0; i < kept.size(); ++i)
        context.copy_within(rewritten[i].first, kept[i].data(), rewritten[i].second);
    };
    const double once_s = std::max(seconds_of(context, [&] { step.run_node(node); }), 1e-9);
    restore();
    const int batch = kept.empty() ? static_cast<int>(std::clamp(kNodeSample_s / once_s, 1.0, 1000.0)) : 1;
    const double budget_s = profile_s_ / static_cast<double>(step.nodes().size());
    const auto wanted = static_cast<int>(budget_s / std::max(once_s * batch, 1e-9));
    std::vector<double> samples;
    if (batch == 1) samples.push_back(once_s);
    while (static_cast<int>(samples.size()) < std::clamp(wanted, kMinSamples, kMaxSamples)) {
      const double batch_s = seconds_of(context, [&] {
        for (int b = 0; b < batch; ++b) step.run_node(node);
      });
      samples.push_back(batch_s / batch);
      restore();
    }
    return results::median(samples);
  }

  Model model_;
  Pass pass_;
  Choice choice_;
  double profile_s_, elements_s_;
  uint64_t seed_ = 1;
};

// The training steps and inferences that --case names, each once.
Cases named_step_cases(const Options& options) {
  Cases cases;
  std::set<std::string> names;
  for (const NamedCase& named : options.cases) {
    if (!is_model(named)) continue;
    try {
      const Model& model = find_model(named.op.substr(named.op.find('/') + 1));
      const Pass pass = results::is_inference(named.op) ? Pass::inference : Pass::training;
      const ModelCase given{"given by " + named.source, model.with_words(named.text)};
      pass == Pass::training ? given.model.require_trained() : given.model.require_served();
      auto c = std::make_unique<StepCase>(given, pass, options);
      if (names.insert(c->name()).second) cases.push_back(std::move(c));
    } catch (const Error& e) {
      throw Error("{}: {}", named.source, e.what());
    }
  }
  return cases;
}

// Operations of an evaluation, of which a CPU does some ten while it moves a byte. A tape that is not planned has its
// nodes and no memory.
double evaluation_work(const Model& model) {
  CpuContext cpu(1);
  Tape tape(cpu, Tape::preferences_for(Device::cpu));
  model.evaluate(tape);
  double sum = 0;
  for (const Tape::Node& node : tape.nodes())
    sum += std::max(node.problem.flops(), kOperationsPerByte * static_cast<double>(node.problem.bytes()));
  return sum;
}

// A short run varies the batch alone, of steps of little work. Backward is twice forward.
bool is_quick(const Model& model) {
  const std::vector<Attribute> usual = find_model(model.name()).attributes(), its = model.attributes();
  for (size_t i = 0; i < its.size(); ++i)
    if (its[i].name != "batch" && its[i].text() != usual[i].text()) return false;
  return 3 * evaluation_work(model) <= kMaxQuickWork;
}

// Narrowed models need not allow every batch.
Model with_one_sample(const Model& model) {
  try {
    return model.with("batch", "1");
  } catch (const Error&) {
    return model;
  }
}

// A model is served one request at a time, and by batches, in each of its forms. Where a CPU would compute for seconds,
// a batch is left out: its curve says little more than the smaller ones. Smoke takes what tests take, and sweep the
// batches of the steps.
std::vector<ModelCase> inference_cases(const Options& options) {
  const Preset preset = options.preset;
  struct Batches {
    std::vector<int64_t> sizes;
    double max_work, max_single_work;  // of those above 1, and of one
  };
  const Batches wanted = preset == Preset::quick
                             ? Batches{{1, 8}, kMaxQuickWork, is_short(options) ? kMaxQuickWork : INFINITY}
                         : preset == Preset::standard ? Batches{{1, 8, 32}, 1e12, INFINITY}
                                                      : Batches{{1, 8, 32, 64}, INFINITY, INFINITY};
  std::vector<ModelCase> cases;
  std::set<std::string> added;
  const auto add_forms = [&](const Model& model, const std::string& why, double max_work) {
    for (const Case& form : served_forms(model)) {
      std::optional<Model> served;
      try {
        served = model.with_words(form.text);
      } catch (const Error&) {
        continue;  // a form need not allow every batch
      }
      if (evaluation_work(*served) <= max_work && added.insert(served->name() + "/" + served->label()).second)
        cases.push_back({form.why.empty() ? why : form.why + ", " + why, *served});
    }
  };
  if (preset == Preset::smoke || preset == Preset::sweep) {
    std::set<std::string> taken;
    for (const ModelCase& c : model_cases(preset == Preset::smoke ? Scale::test : Scale::sweep))
      if (preset == Preset::sweep)
        add_forms(c.model, c.why, INFINITY);
      else if (taken.insert(c.model.name()).second)
        add_forms(with_one_sample(c.model), c.why, INFINITY);
    return cases;
  }
  for (const auto& [name, model] : models())
    for (const int64_t batch : wanted.sizes) {
      add_forms(model.with("batch", std::to_string(batch)),
                batch == 1 ? "one request: its latency" : "several requests at once: throughput",
                batch == 1 ? wanted.max_single_work : wanted.max_work);
    }
  return cases;
}

}  // namespace

Cases step_cases(const Options& options) {
  if (!options.cases.empty()) return named_step_cases(options);
  Cases cases;
  std::map<std::string, size_t> taken;  // a model's cases so far
  // Quick: enough for a curve over the batch, which a model's cases begin with; of a short run, for its slope.
  const size_t max_cases = options.preset == Preset::smoke   ? 1
                           : is_short(options)               ? 2
                           : options.preset == Preset::quick ? 3
                                                             : SIZE_MAX;
  // Smoke only shows that everything runs: models narrowed for tests do.
  const Scale scale = options.preset == Preset::full    ? Scale::full
                      : options.preset == Preset::sweep ? Scale::sweep
                      : options.preset == Preset::smoke ? Scale::test
                                                        : Scale::standard;
  for (const ModelCase& c : model_cases(scale)) {
    if (is_short(options) && !is_quick(c.model)) continue;
    if (taken[c.model.name()]++ < max_cases) cases.push_back(std::make_unique<StepCase>(c, Pass::training, options));
  }
  for (const ModelCase& c : inference_cases(options))
    cases.push_back(std::make_unique<StepCase>(c, Pass::inference, options));
  return cases;
}

}  // namespace duet::bench
