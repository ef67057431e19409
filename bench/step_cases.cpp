// SPDX-License-Identifier: Apache-2.0
// Training steps as benchmark cases: every registered model on each side.
#include <algorithm>
#include <chrono>
#include <map>

#include "bench/cases.h"
#include "bench/roof.h"
#include "models/step.h"
#include "reports/statistics.h"

namespace duet::bench {
namespace {

constexpr const char* kGraph = "gpu.graph";
constexpr int kStudied = 21, kLeast = 3;  // steps whose phases are timed, samples of each part
constexpr double kStudyBudgets = 5;  // of a repetition, after which the least will do, for the phases and for the parts
constexpr double kPartSample_s = 100e-6;  // a part is repeated until a sample lasts this long

class StepRunner final : public Runner {
 public:
  StepRunner(std::unique_ptr<Step> step, uint64_t seed) : step_(std::move(step)), seed_(seed) {
    create_s = step_->create_s();
    for (const auto& [op, implementation] : step_->implementations())
      algorithm += (algorithm.empty() ? "" : "; ") + op + " by " + implementation;
    workspace_bytes = step_->memory_bytes();
  }
  Context& context() override { return step_->tape().context(); }
  void run(int) override { step_->run(); }
  void evict() override { step_->evict(); }
  Check verify() override { return step_->replay(seed_); }
  std::vector<std::pair<void*, int64_t>> uploads() const override { return step_->device_inputs(); }
  std::vector<std::pair<void*, int64_t>> downloads() const override { return step_->device_outputs(); }
  Step& step() { return *step_; }

 private:
  std::unique_ptr<Step> step_;
  uint64_t seed_;
};

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
  StepCase(const ModelCase& c, double study_s) : model_(c.model), study_s_(study_s) {
    op = "step/" + model_.name();
    family = "step";
    formula = "forward, loss, backward, optimiser";
    why = c.why;
    label = model_.label();
    params = model_.attributes();
    math = "ieee";
    pattern = "triad";
    for (const Attribute& a : params)
      if (a.name == "dtype") dtype = a.text();
    for (const char* side : {"cpu", "gpu", kGraph})
      sides.push_back({side, step_job_name(model_, side), side == std::string("cpu") ? Device::cpu : Device::cuda, ""});
  }
  void prepare(uint64_t seed) override { seed_ = seed; }
  void release() override {}

  std::unique_ptr<Runner> make(const Side& side, Context& context, std::string& reason) override {
    const Step::Form form = side.implementation == kGraph ? Step::Form::graph : Step::Form::eager;
    auto step = std::make_unique<Step>(model_, context, Tape::preferences_for(context.device()), seed_, form);
    if (!step->supported()) {
      reason = step->reason();
      return nullptr;
    }
    // A lower bound of the step's roof: all its work at the peak, all its traffic at the bandwidth of its footprint.
    if (flops == 0) flops = step->flops(), bytes = step->bytes(), footprint_bytes = step->memory_bytes();
    return std::make_unique<StepRunner>(std::move(step), seed_);
  }
  std::string repro(const Side& side) const override { return "bench_all --scale full --filter '^" + side.job + "$'"; }

  std::optional<StepRecord> study(Runner& runner) override {
    Step& step = static_cast<StepRunner&>(runner).step();
    Context& context = runner.context();
    StepRecord record;
    record.memory_peak_bytes = static_cast<double>(step.memory_bytes());
    record.implementations = step.implementations();
    const Tape& tape = step.tape();
    const Var x = tape.find("x");  // samples first; whole numbers are tokens
    record.samples = tape.shape(x)[0];
    if (!is_float(tape.dtype(x))) record.tokens = tape.bytes(x) / size_of(tape.dtype(x));

    std::vector<std::vector<double>> phases(step.phases().size());
    double spent_s = 0;
    for (int i = 0; i < kStudied && (i < kLeast || spent_s < study_s_); ++i)
      for (size_t p = 0; p < phases.size(); ++p) {
        phases[p].push_back(seconds_of(context, [&] { step.run_phase(p); }));
        spent_s += phases[p].back();
      }
    for (size_t p = 0; p < phases.size(); ++p)
      record.phases_s.emplace_back(step.phases()[p], reports::median(phases[p]));

    for (size_t part = 0; part < step.nodes().size(); ++part) {
      // Sums in place would grow beyond all numbers: what such a part rewrites is put back after each of its runs.
      const bool updates = step.tape().nodes()[part].phase + 1 == step.phases().size();  // small steps, which do not
      const auto rewritten = updates ? decltype(step.rewritten(part)){} : step.rewritten(part);
      std::vector<Buffer> kept;
      for (const auto& [memory, bytes] : rewritten)
        context.copy_within(kept.emplace_back(context, bytes).data(), memory, bytes);
      const auto put_back = [&] {
        for (size_t i = 0; i < kept.size(); ++i)
          context.copy_within(rewritten[i].first, kept[i].data(), rewritten[i].second);
      };
      const double once_s = std::max(seconds_of(context, [&] { step.run_node(part); }), 1e-9);
      put_back();
      const int batch = kept.empty() ? static_cast<int>(std::clamp(kPartSample_s / once_s, 1.0, 1000.0)) : 1;
      const double share_s = study_s_ / static_cast<double>(step.nodes().size());
      const auto wanted = static_cast<int>(share_s / std::max(once_s * batch, 1e-9));
      std::vector<double> samples;
      if (batch == 1) samples.push_back(once_s);
      while (static_cast<int>(samples.size()) < std::clamp(wanted, kLeast, kStudied)) {
        samples.push_back(seconds_of(context,
                                     [&] {
                                       for (int b = 0; b < batch; ++b) step.run_node(part);
                                     }) /
                          batch);
        put_back();
      }
      const std::string& job = step.nodes()[part].job;
      record.parts_s.emplace_back(job.substr(0, job.find('/')), reports::median(samples));
    }
    return record;
  }

 private:
  Model model_;
  double study_s_;
  uint64_t seed_ = 1;
};

}  // namespace

Cases step_cases(const Options& options) {
  Cases cases;
  std::map<std::string, size_t> taken;  // a model's cases so far
  // Quick: enough for a curve over the batch, which a model's cases begin with.
  const size_t most = options.size == Size::smoke ? 1 : options.size == Size::quick ? 4 : SIZE_MAX;
  // Smoke only shows that everything runs: models narrowed for tests do.
  const Scale scale = options.size == Size::full    ? Scale::full
                      : options.size == Size::smoke ? Scale::test
                                                    : Scale::standard;
  for (const ModelCase& c : model_cases(scale))
    if (taken[c.model.name()]++ < most)
      cases.push_back(std::make_unique<StepCase>(c, kStudyBudgets * options.budget_s()));
  return cases;
}

}  // namespace duet::bench
