// SPDX-License-Identifier: Apache-2.0
#include "cli/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/exit_status.h"
#include "core/cpu_context.h"
#include "core/machine.h"
#include "core/session.h"
#include "core/term_sum.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kMaxBytes = 600'000'000;
constexpr double kMaxFlops = 2e11;     // of a case: each CPU implementation computes it
constexpr double kMaxCheapWork = 3e7;  // bytes and operations of a case, without --scale

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }
bool is_exact(const TensorSpec& spec, const Tolerance& t) {
  return !is_float(spec.dtype) || (t.rel == 0 && t.abs_sum == 0);
}

// Why the bound of an output may be more than kMaxLooseness times the errors that are seen here, and how many times.
struct Wider {
  double max_looseness = kMaxLooseness;
  std::string reason;  // empty: it may not
};
Wider wider(const Problem& problem, const TensorSpec& output) {
  struct Reason {
    const char* text;
    double max_looseness;
  };
  static const Reason kWinograd{"Winograd's transforms may enlarge errors sevenfold; F(2x2, 3x3) does less",
                                7 * kMaxLooseness};
  static const Reason kOneTap{"few rows of a result are compared, and relu leaves half of them: luck", 12};
  static const Reason kShort{"short values: additions in f32 seldom round", 16 * kMaxLooseness};
  static const Reason kFactor{"gelu's slopes may round more than ours; zeros by relu count as additions", 24};
  static const Reason kCut{"tensor cores cut low bits off the sums of scores, CPUs do not", 16 * kMaxLooseness};
  static const Reason kTerms{"each term has a bound of its own, and these add up as squares", 24};
  static const Reason kBlocks{"the cases of blocks are for GPUs, whose exp is less exact", 16};
  static const Reason kOneSum{"one sum, of the losses of rows: its roundings happen to cancel", 24};
  struct Named {
    const char *op, *output, *dtype;
    const Reason& reason;
  };
  static const Named kWider[] = {
      {"conv2d", "y", "f32", kWinograd},
      {"conv2d_backward_data", "dx", "f32", kWinograd},
      {"conv2d_backward_filter", "dw", "f32", kWinograd},
      {"conv2d_bias", "y", "f32", kWinograd},
      {"layernorm", "mean", "bf16", kShort},
      {"layernorm", "mean", "f16", kShort},
      {"add_layernorm", "mean", "bf16", kShort},
      {"add_layernorm", "mean", "f16", kShort},
      {"batchnorm", "mean", "bf16", kShort},
      {"batchnorm", "running_mean", "bf16", kShort},  // of which mean is a part
      {"attention_packed", "lse", "bf16", kCut},
      {"attention_packed", "lse", "f16", kCut},
      {"gelu_linear_backward_data", "dbias", "f32", kTerms},
      {"linear_backward", "dx", "f32", kFactor},
      {"linear_backward", "dw", "f32", kFactor},
      {"linear_backward", "dbias", "f32", kFactor},
      {"study/block_size_softmax", "y", "f32", kBlocks},
      {"distill", "loss", "f32", kOneSum},
  };
  bool activated = false;
  bool one_tap = true;  // of a filter: no library transforms it
  for (const Attribute& a : problem.attributes()) {
    if (a.name == "math" && a.text() == "tf32") return {INFINITY, "only GPUs form tf32 products"};
    activated |= a.name == "act" && a.text() != "none";
    one_tap &= (a.name != "r" && a.name != "s") || a.text() == "1";
  }
  for (const Named& w : kWider) {
    if (&w.reason == &kFactor && !activated) continue;
    if (problem.name() == w.op && w.output == std::string_view(output.name) &&
        w.dtype == std::string_view(name_of(problem.dtype())))
      return &w.reason == &kWinograd && one_tap ? Wider{kOneTap.max_looseness, kOneTap.text}
                                                : Wider{w.reason.max_looseness, w.reason.text};
  }
  return {};
}

// Calls use(slot, share) for each claim of a result: its error as a share of the bound. value(i): of claim i.
void each_share(const Problem& problem, const Expected& expected, auto&& value, auto&& use) {
  for (size_t i = 0; i < expected.claims().size(); ++i) {
    const Claim& c = expected.claims()[i];
    const double bound = bound_of(problem.tolerance(c.slot), c), error = std::abs(value(i) - c.want);
    if (std::isfinite(error) && bound > 0) use(static_cast<size_t>(c.slot), error / bound);
  }
}

// The outputs that the rule is about.
std::map<size_t, BoundUse> outputs_with_bounds(const Problem& problem, const Expected& expected) {
  const std::vector<TensorSpec> specs = problem.tensors();
  std::map<size_t, std::pair<int64_t, int64_t>> claims;  // all, and those that round to themselves
  for (const Claim& c : expected.claims()) {
    const auto slot = static_cast<size_t>(c.slot);
    ++claims[slot].first;
    claims[slot].second += round_to(specs[slot].dtype, c.want) == c.want;
  }
  std::map<size_t, BoundUse> uses;
  for (size_t slot = 0; slot < specs.size(); ++slot) {
    if (specs[slot].role == Role::in || is_exact(specs[slot], problem.tolerance(static_cast<int>(slot)))) continue;
    const auto [all, represented] = claims[slot];
    if (2 * represented > all) continue;
    auto [max_looseness, reason] = wider(problem, specs[slot]);
    uses[slot] = {.op = problem.name(),
                  .output = specs[slot].name,
                  .dtype = name_of(problem.dtype()),
                  .label = problem.label(),
                  .max_looseness = max_looseness,
                  .wider_because = std::move(reason),
                  .shares = {}};
  }
  return uses;
}

}  // namespace

double BoundUse::largest() const {
  double largest = 0;
  for (const auto& [name, share] : shares) largest = std::max(largest, share);
  return largest;
}

std::vector<BoundUse> bound_uses(const Problem& problem, Context& cpu) {
  const std::vector<TensorSpec> specs = problem.tensors();
  const auto rounded = [&](const Claim& c) { return round_to(specs[static_cast<size_t>(c.slot)].dtype, c.want); };
  const double work = problem.flops() + static_cast<double>(problem.footprint_bytes());
  std::map<size_t, BoundUse> uses;
  for (int draw = 0; draw < kMaxDraws; ++draw) {
    const HostTensors inputs = draw_inputs(problem, FillMode::values, kSeed + static_cast<uint64_t>(draw));
    const Expected expected = Expected::sampled(problem, inputs, kSeed);
    if (draw == 0) uses = outputs_with_bounds(problem, expected);
    for (const Claim& c : expected.claims())
      if (const auto at = uses.find(static_cast<size_t>(c.slot)); at != uses.end()) ++at->second.compared;

    const auto record = [&](const std::string& name, auto&& value) {
      each_share(problem, expected, value, [&](size_t slot, double share) {
        const auto at = uses.find(slot);
        if (at == uses.end()) return;
        double& largest = at->second.shares[name];
        largest = std::max(largest, share);
      });
    };
    record("rounded", [&](size_t i) { return rounded(expected.claims()[i]); });
    for (const auto& [name, how] :
         {std::pair{"chain", Accumulation::chain}, std::pair{"matrix_unit", Accumulation::matrix_unit}}) {
      if (how == Accumulation::matrix_unit && !is_half(problem.dtype())) continue;
      const ScopedAccumulation scope(how);
      const Expected summed = Expected::sampled(problem, inputs, kSeed);
      record(name, [&](size_t i) { return rounded(summed.claims()[i]); });
    }
    for (const Implementation* implementation : implementations(problem.name())) {
      if (implementation->device != Device::cpu) continue;
      Session session(problem, *implementation, cpu, inputs);
      if (!session.supported()) continue;
      cpu.enter([&] { session.run(); });
      const HostTensors got = session.download();
      record(implementation->name, [&](size_t i) {
        const Claim& c = expected.claims()[i];
        const auto slot = static_cast<size_t>(c.slot);
        return load_as_double(got.data(slot), specs[slot].dtype, c.index);
      });
    }
    const bool enough = std::all_of(uses.begin(), uses.end(), [](const auto& use) {
      return use.second.compared == 0 || use.second.compared >= kMinCompared;
    });
    if (enough || (draw + 2) * work > kMaxDrawnWork) break;
  }
  std::vector<BoundUse> list;
  for (auto& [slot, use] : uses)
    if (use.compared > 0) list.push_back(std::move(use));
  return list;
}

std::vector<double> looseness(const std::vector<BoundUse>& uses) {
  std::map<std::string, double> of_output;
  const auto key = [](const BoundUse& u) { return u.op + " " + u.output + " " + u.dtype; };
  for (const BoundUse& u : uses) of_output[key(u)] = std::max(of_output[key(u)], u.largest());
  std::vector<double> all;
  for (const BoundUse& u : uses) all.push_back(1 / (u.compared < kMinCompared ? of_output[key(u)] : u.largest()));
  return all;
}

double compared_work(const Problem& p) {
  const std::vector<int64_t> parts = p.parts();
  const auto sampled = static_cast<double>(Expected::sampled_slices(p));
  double share = 0;
  for (const int64_t count : parts) share += std::min(1.0, sampled / static_cast<double>(std::max<int64_t>(1, count)));
  return static_cast<double>(p.footprint_bytes()) +
         (p.flops() + static_cast<double>(p.bytes())) * share / static_cast<double>(parts.size());
}

namespace {

// Whether a case is left out: too large or too long.
bool left_out(const Problem& p, const BoundsOptions& options) {
  const double work = p.flops() + static_cast<double>(p.footprint_bytes());
  return p.footprint_bytes() > kMaxBytes || p.flops() > kMaxFlops || compared_work(p) > kMaxComparedWork ||
         (options.scale.empty() && work > kMaxCheapWork);
}

std::string line_of(const BoundUse& u, double loose) {
  std::string shares;
  for (const auto& [name, share] : u.shares) shares += fmt::format("  {} {:.2g}", name, share);
  if (!u.wider_because.empty() && loose > kMaxLooseness) shares += "  (" + u.wider_because + ")";
  return fmt::format("{:6.1f}x{} {} {} {}: {}\n", loose, too_wide(u, loose) ? " !" : "  ", u.op, u.output, u.label,
                     shares);
}
nlohmann::ordered_json json_of(const BoundUse& u, double loose) {
  nlohmann::ordered_json one{{"op", u.op}, {"output", u.output}, {"case", u.label}, {"compared", u.compared}};
  if (std::isfinite(loose)) one["bound_over_error"] = loose;
  one["error_over_bound"] = u.shares;
  return one;
}

}  // namespace

int run_bounds(const BoundsOptions& options) {
  for (const std::string& name : options.ops) find_op(name);
  const Scale scale = options.scale == "test" ? Scale::test : options.scale == "full" ? Scale::full : Scale::standard;
  CpuContext cpu(usable_threads());
  int64_t cases = 0, outputs = 0, wide = 0, not_compared = 0;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, op] : ops()) {
    if (!options.ops.empty() && std::find(options.ops.begin(), options.ops.end(), name) == options.ops.end()) continue;
    std::vector<BoundUse> uses;
    for (const ProblemCase& c : op.cases(scale)) {
      if (left_out(c.problem, options)) {
        ++not_compared;
        continue;
      }
      ++cases;
      for (BoundUse& use : bound_uses(c.problem, cpu)) uses.push_back(std::move(use));
    }
    const std::vector<double> loose = looseness(uses);
    for (size_t i = 0; i < uses.size(); ++i) {
      ++outputs;
      wide += too_wide(uses[i], loose[i]);
      if (options.json)
        list.push_back(json_of(uses[i], loose[i]));
      else
        fmt::print("{}", line_of(uses[i], loose[i]));
    }
    std::fflush(stdout);  // the next op may take minutes
  }
  if (options.json)
    fmt::print("{}\n", list.dump(1));
  else
    fmt::print(
        "{} outputs of {} cases: the bound over the largest error, then each error over the bound. {} bounds are too "
        "wide (!): more than {:g} times the largest error, or more than its reason allows. {} cases are left out: {}\n",
        outputs, cases, wide, kMaxLooseness, not_compared,
        options.scale.empty() ? "large or long; --scale standard has most of them"
                              : fmt::format("over {} MB, {:g} operations or {:g} of the reference",
                                            kMaxBytes / 1'000'000, kMaxFlops, kMaxComparedWork));
  return wide == 0 ? 0 : kFailed;
}

}  // namespace duet
