// SPDX-License-Identifier: Apache-2.0
#include "core/coverage.h"

#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>

#include "core/checksum.h"
#include "core/denormals.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/session.h"

namespace duet {
namespace {

constexpr int64_t kAnswerBytes = 12;  // of an element: a double, and its abs_sum in f32
constexpr int kMemoryShare = 4;       // of what is available, at most one part is taken
constexpr double kAbsSumSafety = 2;   // on the largest abs_sum of the sampled slices, where an element's is unknown
constexpr double kUndecided = 8;  // bounds that two honest implementations may differ by where inputs are not as drawn
constexpr double kProjectionOverhead = 2;  // for the blocks that are looked at again

int64_t output_elements(const Problem& problem) {
  int64_t sum = 0;
  for (const TensorSpec& t : problem.tensors())
    if (t.role != Role::in) sum += t.elements();
  return sum;
}

bool has_16_bit_outputs(const Problem& problem) {
  const std::vector<TensorSpec> specs = problem.tensors();
  return std::any_of(specs.begin(), specs.end(), [](const TensorSpec& t) {
    return t.role != Role::in && is_float(t.dtype) && size_of(t.dtype) == 2;
  });
}

// Implementations that have code in common may be wrong alike. The name up to the first _: cpu.onednn and
// cpu.onednn_packed call the same library. cpu.unfused runs cpu.tuned of other ops, and those share code with cpu.tuned
// of this one: the products of linear, the rows of layernorm. cpu.materialised and cpu.im2col are other ways to compute
// an op, of which cpu.tuned shares the products and the exponential: those are compared apart, in gemm and softmax. But
// of conv2d_backward_data cpu.tuned runs cpu.im2col for some shapes.
std::string_view library_of(std::string_view op, std::string_view implementation) {
  if (implementation == "cpu.unfused" || (op == "conv2d_backward_data" && implementation == "cpu.im2col"))
    return "cpu.tuned";
  return implementation.substr(0, implementation.find('_'));
}

Check sampled(std::string reason) {
  Check check;
  check.coverage = "sampled";
  check.sampled_reason = std::move(reason);
  return check;
}

// The inputs with the dtypes of another problem.
HostTensors converted(const HostTensors& from, const Problem& to) {
  HostTensors host(to.tensors());
  for (size_t s = 0; s < host.size(); ++s) {
    const TensorSpec& spec = host.specs()[s];
    if (spec.role == Role::out) continue;
    host.allocate(s);
    const Inputs::Values in = from.values()[s];
    void* const data = host.data(s);
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, spec.elements(), 1 << 14), [&](const auto& r) {
      const ScopedKeepDenormals keep;
      for (int64_t i = r.begin(); i < r.end(); ++i) store_double(data, spec.dtype, i, in[i]);
    });
  }
  return host;
}

}  // namespace

Check joined(Check sampled, const Check& all) {
  sampled.coverage = all.coverage;
  sampled.sampled_reason = all.sampled_reason;
  sampled.failure = all.failure;
  sampled.max_error_ratio = std::max(sampled.max_error_ratio, all.max_error_ratio);
  sampled.elements = std::max(sampled.elements, all.elements);
  return sampled;
}

Coverage::Coverage(const Problem& problem, const HostTensors& inputs, const Expected& expected, double expected_s,
                   double budget_s, double max_s, uint64_t seed, double decision_s, Undecided undecided)
    : problem_(problem),
      inputs_(&inputs),
      expected_(&expected),
      reference_s_(expected_s * static_cast<double>(problem.slices()) /
                   static_cast<double>(std::max<int64_t>(1, expected.slices()))),
      budget_s_(budget_s),
      max_s_(max_s),
      decision_s_(decision_s),
      undecided_(undecided),
      seed_(seed) {
  needed_bytes_ = output_elements(problem) * kAnswerBytes + 2 * problem.footprint_bytes();
  fits_ = needed_bytes_ < allocatable_bytes(read_machine_state()) / kMemoryShare;
}

Check Coverage::compare(const std::string& implementation, const HostTensors& got) {
  uint64_t sum = 0;
  for (size_t s = 0; s < got.size(); ++s)
    if (got.specs()[s].role != Role::in) sum = sum * 0x9E3779B97F4A7C15u + got.checksum(s);
  if (const auto known = passed_.find(sum); known != passed_.end()) return known->second;

  if (output_elements(problem_) == 0) return sampled("there are no elements");
  if (!fits_)
    return sampled(fmt::format("all answers take {:.3g} GB, more than a quarter of the memory that is available",
                               static_cast<double>(needed_bytes_) * 1e-9));
  Check check;
  const bool product =
      Projection::applies(problem_) && kProjectionOverhead * Projection::seconds(problem_, reference_s_) <= max_s_;
  const Answer* other = nullptr;
  if (expected_->slices() == problem_.slices()) {
    check = duet::compare(problem_, *expected_, got, false);
    check.coverage = "reference";
  } else if (reference_s_ <= budget_s_) {
    check = whole_reference()->compare(problem_, got);
    check.coverage = "reference";
  } else if (product && has_16_bit_outputs(problem_) && (other = in_f32())) {
    check = other->compare(problem_, got);
    check.coverage = "projections";
  } else if (product && !has_16_bit_outputs(problem_)) {
    if (!projection_) projection_.emplace(problem_, *inputs_, seed_);
    check = projection_->compare(problem_, got);
    check.coverage = "projections";
  } else {
    check = compare_with_second(implementation, got);
    if (!check.sampled_reason.empty()) return check;
    if (check.coverage == "sampled") {
      if (reference_takes_over(max_s_))
        return sampled(
            fmt::format("the reference would take {:.3g} s, more than {:g}, and no second implementation on "
                        "the CPU agrees with it on sampled slices",
                        *timed_reference_s_, max_s_));
      check = whole_reference()->compare(problem_, got);
      check.coverage = "reference";
    }
  }
  if (check.passed()) passed_[sum] = check;
  return check;
}

// With the first implementation on the CPU that is of another library, serves the case and agrees with the reference on
// sampled slices. Where the two differ, the reference decides which of them is wrong.
Check Coverage::compare_with_second(const std::string& implementation, const HostTensors& got) {
  Check check;
  for (const Implementation* i : implementations(problem_.name())) {
    if (i->device != Device::cpu || library_of(i->op, i->name) == library_of(i->op, implementation)) continue;
    const Answer* other = second(i->name);
    if (!other) continue;
    check = other->compare(problem_, got);
    check.coverage = i->name;
    if (check.passed()) break;
    if (!reference_takes_over(decision_s_)) {
      check = whole_reference()->compare(problem_, got);
      check.coverage = "reference";
    } else if (undecided_ == Undecided::is_sampled && check.max_error_ratio <= kUndecided) {
      return sampled(fmt::format("{} by {}, and the reference, which would say what is right, would take {:.3g} s",
                                 check.failure, i->name, *timed_reference_s_));
    } else {
      check.failure += " by " + i->name + "; one of the two is wrong, and the reference would take too long";
    }
    break;
  }
  return check;
}

// What sampled slices took is mostly too much for all: it has the start of the threads, which is most of it where each
// of many slices is cheap, and one slice of another kind, such as a loss over all rows, counts as much as many.
bool Coverage::reference_takes_over(double limit_s) {
  if (reference_s_ <= limit_s) return false;
  if (!timed_reference_s_) timed_reference_s_ = Answer::seconds_by_reference(problem_, *inputs_);
  return *timed_reference_s_ > limit_s;
}

const Answer* Coverage::whole_reference() {
  if (!reference_) reference_ = Answer::by_reference(problem_, *inputs_);
  return &*reference_;
}

// Of each tensor: what stands for the abs_sum of every element, where the reference did not claim it.
std::vector<double> Coverage::max_abs_sums() const {
  std::vector<double> all;
  for (size_t s = 0; s < inputs_->size(); ++s)
    all.push_back(kAbsSumSafety * expected_->max_abs_sum(static_cast<int>(s)));
  return all;
}

// The outputs of the first implementation on the CPU that serves the case in f32 and passes the projections.
const Answer* Coverage::in_f32() {
  if (tried_in_f32_) return in_f32_ ? &*in_f32_ : nullptr;
  tried_in_f32_ = true;
  const Problem wide = problem_.with("dtype", "f32");
  const HostTensors inputs = converted(*inputs_, wide);
  const Projection projection(problem_, *inputs_, seed_);
  for (const Implementation* i : implementations(problem_.name())) {
    if (i->device != Device::cpu) continue;
    std::optional<HostTensors> outputs = outputs_of(i->name, wide, inputs);
    if (!outputs || !projection.compare(wide, *outputs).passed()) continue;
    in_f32_ = Answer::by_outputs(wide, std::move(*outputs), max_abs_sums());
    return &*in_f32_;
  }
  return nullptr;
}

const Answer* Coverage::second(const std::string& implementation) {
  const auto [at, fresh] = others_.try_emplace(implementation);
  if (!fresh) return at->second ? &*at->second : nullptr;
  std::optional<HostTensors> outputs = outputs_of(implementation, problem_, *inputs_);
  if (!outputs || !duet::compare(problem_, *expected_, *outputs, false).passed()) return nullptr;
  at->second = Answer::by_outputs(problem_, std::move(*outputs), max_abs_sums());
  return &*at->second;
}

std::optional<HostTensors> Coverage::outputs_of(const std::string& implementation, const Problem& problem,
                                                const HostTensors& inputs) {
  if (!cpu_) cpu_ = std::make_unique<CpuContext>(usable_threads());
  try {
    Session session(problem, *find_implementation(problem.name(), implementation), *cpu_, inputs);
    if (!session.supported()) return std::nullopt;
    session.restore();
    session.poison_outputs();
    cpu_->enter([&] { session.run(); });
    return session.download();
  } catch (const Error&) {  // no memory for it, or it failed: what is compared with it is not to suffer
    return std::nullopt;
  }
}

}  // namespace duet
