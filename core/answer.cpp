// SPDX-License-Identifier: Apache-2.0
#include "core/answer.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <type_traits>

#include "core/denormals.h"
#include "core/error.h"
#include "core/machine.h"

namespace duet {
namespace {

// Stores claims about distinct elements; several threads have one each, for the same memory.
class DenseExpect final : public Expect {
 public:
  struct Target {
    double* want = nullptr;
    float* abs_sum = nullptr;  // null: not asked for
    int64_t elements = 0;
    const char* name = "";
  };
  explicit DenseExpect(const std::vector<Target>& targets) : targets_(targets), claimed(targets.size()) {}

 private:
  void claim(int slot, int64_t index, double want, double abs_sum) override {
    const Target& t = targets_.at(static_cast<size_t>(slot));
    if (index < 0 || index >= t.elements)
      throw Error("the reference claims {}[{}] of {} elements", t.name, index, t.elements);
    t.want[index] = want;
    // Rounded to f32, which changes a bound by less than 1e-7 of it.
    if (t.abs_sum) t.abs_sum[index] = static_cast<float>(abs_sum);
    ++claimed[static_cast<size_t>(slot)];
  }
  const std::vector<Target>& targets_;

 public:
  std::vector<int64_t> claimed;  // by slot
};

class IgnoringExpect final : public Expect {
  void claim(int, int64_t, double, double) override {}
};

struct Worst {
  double ratio = -1;
  int64_t index = 0;
  // NaN cannot occur: error_ratio gives infinity. Of equal ratios the first element counts.
  void take(double other, int64_t at) {
    if (other > ratio || (other == ratio && at < index)) {
      ratio = other;
      index = at;
    }
  }
};

template <class T>
double widened(T value) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16> || std::is_same_v<T, f8e4m3>)
    return static_cast<float>(value);
  else
    return static_cast<double>(value);
}

// Calls use(value of the C++ type of a dtype).
template <class Use>
auto with_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::f64:
      return use(double{});
    case DType::f32:
      return use(float{});
    case DType::bf16:
      return use(bf16{});
    case DType::f16:
      return use(f16{});
    case DType::i32:
      return use(int32_t{});
    case DType::i8:
      return use(int8_t{});
    case DType::f8e4m3:
      return use(f8e4m3{});
    default:
      return use(uint8_t{});
  }
}

// Most elements need no error_ratio(): those that equal what is wanted bit for bit, and those whose error is no larger,
// by their bounds, than the largest ratio so far. assess(i) is called for the others.
struct Shortcut {
  Tolerance tolerance;
  double max_want;       // beyond it, a finite want may round to infinity
  const float* abs_sum;  // null: max_abs_sum stands for each
  double max_abs_sum;
};
template <class Want, class Got, class Assess>
Worst worst_of(const Want* want, const Got* got, int64_t first, int64_t last, const Shortcut& by, Worst worst,
               const Assess& assess) {
  const Tolerance t = by.tolerance;
  for (int64_t i = first; i < last; ++i) {
    const double g = widened(got[i]), w = widened(want[i]);
    if (std::bit_cast<uint64_t>(g) == std::bit_cast<uint64_t>(w) && g == g) {
      worst.take(0, i);
      continue;
    }
    const double bound = t.rel * std::abs(w) + t.abs_sum * (by.abs_sum ? by.abs_sum[i] : by.max_abs_sum) + t.abs;
    if (bound > 0 && std::abs(w) <= by.max_want && std::abs(g - w) <= worst.ratio * bound) continue;
    worst.take(assess(i), i);
  }
  return worst;
}

}  // namespace

Answer Answer::by_reference(const Problem& problem, const HostTensors& inputs) {
  Answer answer;
  const std::vector<TensorSpec>& specs = inputs.specs();
  std::vector<DenseExpect::Target> targets(specs.size());
  answer.tensors_.resize(specs.size());
  for (size_t s = 0; s < specs.size(); ++s) {
    if (specs[s].role == Role::in) continue;
    const auto n = static_cast<size_t>(specs[s].elements());
    Tensor& t = answer.tensors_[s];
    t.want.resize(n);
    if (problem.tolerance(static_cast<int>(s)).abs_sum > 0) t.abs_sum.resize(n);
    targets[s] = {t.want.data(), t.abs_sum.empty() ? nullptr : t.abs_sum.data(), specs[s].elements(), specs[s].name};
    answer.elements_ += specs[s].elements();
  }

  const auto values = inputs.values();
  std::vector<std::atomic<int64_t>> claimed(specs.size());
  constexpr int64_t kTasks = 256;  // slices differ in cost, so a thread has many tasks
  const int64_t slices = problem.slices();
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, slices, std::max<int64_t>(1, slices / kTasks)), [&](const auto& r) {
    const ScopedKeepDenormals keep;
    DenseExpect expect(targets);
    for (int64_t s = r.begin(); s < r.end(); ++s) problem.reference(Inputs(values), s, expect);
    for (size_t slot = 0; slot < claimed.size(); ++slot) claimed[slot] += expect.claimed[slot];
  });
  for (size_t s = 0; s < specs.size(); ++s)
    if (specs[s].role != Role::in && claimed[s] != specs[s].elements())
      throw Error("{} {}: the reference claims {} of {} elements of {}", problem.name(), problem.label(),
                  claimed[s].load(), specs[s].elements(), specs[s].name);
  return answer;
}

double Answer::seconds_by_reference(const Problem& problem, const HostTensors& inputs) {
  constexpr double kEnough_s = 5e-3;
  constexpr int64_t kBlocks = 16;  // of neighbouring slices, spread over all of a kind: they differ in cost
  const auto values = inputs.values();
  const ScopedKeepDenormals keep;
  IgnoringExpect ignore;
  std::vector<int64_t> parts = problem.parts();
  if (parts.empty()) parts = {problem.slices()};
  double all_s = 0;
  int64_t begin = 0;  // of the kind
  for (const int64_t count : parts) {
    double of_slice_s = 0;
    for (int64_t wanted = 1; count > 0; wanted *= 4) {
      const int64_t blocks = std::min({kBlocks, wanted, count}), of_block = std::min(wanted, count) / blocks;
      const double start_s = thread_cpu_s();  // a busy machine must not change what is compared
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = begin + (blocks == 1 ? 0 : (count - of_block) * block / (blocks - 1));
        for (int64_t s = first; s < first + of_block; ++s) problem.reference(Inputs(values), s, ignore);
      }
      const double took_s = thread_cpu_s() - start_s;
      of_slice_s = took_s / static_cast<double>(blocks * of_block);
      if (took_s >= kEnough_s || wanted >= count) break;
    }
    all_s += of_slice_s *
             static_cast<double>(ceil_div(count, std::min<int64_t>(usable_threads(), std::max<int64_t>(1, count))));
    begin += count;
  }
  return all_s;
}

Answer Answer::by_outputs(const Problem& by, HostTensors outputs, std::vector<double> max_abs_sums) {
  Answer answer;
  answer.tensors_.resize(outputs.size());
  for (size_t s = 0; s < outputs.size(); ++s) {
    if (outputs.specs()[s].role == Role::in) continue;
    answer.tensors_[s].own = by.tolerance(static_cast<int>(s));
    answer.elements_ += outputs.specs()[s].elements();
  }
  answer.outputs_ = std::move(outputs);
  answer.max_abs_sums_ = std::move(max_abs_sums);
  return answer;
}

Claim Answer::claim(int slot, int64_t index) const {
  const auto s = static_cast<size_t>(slot);
  const Tensor& t = tensors_[s];
  const auto i = static_cast<size_t>(index);
  if (!t.want.empty()) return {slot, index, t.want[i], t.abs_sum.empty() ? 0 : t.abs_sum[i]};
  const double want = load_as_double(outputs_.data(s), outputs_.specs()[s].dtype, index);
  return {slot, index, want, max_abs_sums_[s]};
}

Check Answer::compare(const Problem& problem, const HostTensors& got) const {
  Check check;
  check.slices = problem.slices();
  check.elements = elements_;
  for (size_t s = 0; s < got.size(); ++s) {
    const TensorSpec& spec = got.specs()[s];
    if (spec.role == Role::in) continue;
    const int slot = static_cast<int>(s);
    const Tolerance allowed = problem.tolerance(slot), own = tensors_[s].own;
    const Tolerance both{
        .rel = allowed.rel + own.rel, .abs_sum = allowed.abs_sum + own.abs_sum, .abs = allowed.abs + own.abs};
    const void* data = got.data(s);
    const Tensor& tensor = tensors_[s];
    const Shortcut shortcut{.tolerance = both,
                            .max_want = is_float(spec.dtype) ? largest(spec.dtype) / 2 : -1,
                            .abs_sum = tensor.abs_sum.empty() ? nullptr : tensor.abs_sum.data(),
                            .max_abs_sum = tensor.want.empty() && !max_abs_sums_.empty() ? max_abs_sums_[s] : 0};
    const auto assess = [&](int64_t i) {
      return error_ratio(claim(slot, i), spec.dtype, both, load_as_double(data, spec.dtype, i), false);
    };
    const Worst worst = tbb::parallel_reduce(
        tbb::blocked_range<int64_t>(0, spec.elements(), 1 << 14), Worst{},
        [&](const auto& r, Worst w) {
          const ScopedKeepDenormals keep;
          return with_type(spec.dtype, [&](auto type) {
            const auto* values = static_cast<const decltype(type)*>(data);
            if (!tensor.want.empty())
              return worst_of(tensor.want.data(), values, r.begin(), r.end(), shortcut, w, assess);
            if (outputs_.specs()[s].dtype == spec.dtype)
              return worst_of(static_cast<const decltype(type)*>(outputs_.data(s)), values, r.begin(), r.end(),
                              shortcut, w, assess);
            for (int64_t i = r.begin(); i < r.end(); ++i) w.take(assess(i), i);
            return w;
          });
        },
        [](Worst a, const Worst& b) {
          a.take(b.ratio, b.index);
          return a;
        });
    if (worst.ratio <= 1 || spec.elements() == 0) {
      check.max_error_ratio = std::max(check.max_error_ratio, worst.ratio);
      continue;
    }
    check.max_error_ratio = worst.ratio;
    const Claim c = claim(slot, worst.index);
    check.failure = fmt::format("{}[{}] of {}: got {:.9g}, want {:.9g}, bound {:.3g}", spec.name, worst.index,
                                spec.elements(), load_as_double(data, spec.dtype, worst.index), c.want,
                                is_float(spec.dtype) ? bound_of(both, c) : 0);
    return check;
  }
  return check;
}

}  // namespace duet
