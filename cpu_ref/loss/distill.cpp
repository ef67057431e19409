// SPDX-License-Identifier: Apache-2.0
// Reference for distill and its backward: serial, in double, the formulas of the contract (ops/loss/distill.h) and
// nothing else. Forward there is one slice, the loss; backward a slice is a row.
#include "ops/loss/distill.h"

#include <initializer_list>

#include "core/registry.h"

namespace duet {
namespace {

// log sum_c exp(x[c] / T) of one row, from its maximum, as exp overflows otherwise.
struct LogSumExp {
  double value, error;  // error: in units of u
  double max;           // of x / T
  // Of the exponential of v = x / T before it is added up: 2 ulp, and what rounding does to its argument.
  static double roundings(double v, double max) { return 4 + std::abs(v - max) + 3 * std::abs(v) + std::abs(max) / 4; }

  LogSumExp(Inputs::Values x, int64_t first, int64_t cols, double T) {
    max = -INFINITY;
    for (int64_t i = first; i < first + cols; ++i) max = std::max(max, x[i] / T);
    BoundedSum sum(kRun);
    for (int64_t i = first; i < first + cols; ++i) {
      const double power = std::exp(x[i] / T - max);
      sum.add(power, power > 0 ? power * roundings(x[i] / T, max) : 0);
    }
    value = max + std::log(sum.sum());
    error = sum.error() / sum.sum() + 4 + 2 * std::log(sum.sum()) + std::abs(max);
  }
};

// Errors that are independent of each other.
double together(std::initializer_list<double> errors) {
  double squares = 0;
  for (const double e : errors) squares += e * e;
  return std::sqrt(squares);
}

}  // namespace

void Distill::reference(Inputs in, int64_t, Expect& expect) const {
  BoundedSum sum(kRun);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = r * cols;
    const LogSumExp student(in[x], first, cols, 1), soft(in[x], first, cols, T), target(in[teacher], first, cols, T);

    // The divergence: sum_c p (teacher - x) / T - lse(teacher / T) + lse(x / T).
    BoundedSum apart(kRun);
    for (int64_t i = first; i < first + cols; ++i) {
      const double v = in[teacher][i] / T, p = std::exp(v - target.value), term = p * (v - in[x][i] / T);
      apart.add(term, std::abs(term) * (LogSumExp::roundings(v, target.max) + 4));
    }
    const double divergence = apart.sum() - target.value + soft.value;
    const double divergence_error =
        together({apart.error(), std::abs(apart.sum()) * target.error, target.error, std::abs(target.value), soft.error,
                  std::abs(soft.value), 2 * std::abs(divergence)});

    // Cross-entropy with the label.
    const auto labelled = static_cast<int64_t>(in[label][r]);
    const double score = labelled >= 0 && labelled < cols ? in[x][first + labelled] : 0;
    const double entropy = student.value - score;
    const double entropy_error = together({student.error, std::abs(student.value), 2 * std::abs(entropy)});

    const double value = alpha * T * T * divergence + (1 - alpha) * entropy;
    sum.add(value, together({alpha * T * T * divergence_error, (1 - alpha) * entropy_error, std::abs(value)}));
  }
  const auto n = static_cast<double>(std::max<int64_t>(1, rows));
  expect(loss, 0, sum.sum() / n, (sum.error() + std::abs(sum.sum())) / n + (rows > 0 ? 1 : 0));
}
DUET_PROBLEM(Distill);

void DistillBackward::reference(Inputs in, int64_t row, Expect& expect) const {
  const int64_t first = row * cols;
  const LogSumExp student(in[x], first, cols, 1), soft(in[x], first, cols, T), target(in[teacher], first, cols, T);
  const auto labelled = static_cast<int64_t>(in[label][row]);
  const double by = (scaled ? in[scale][0] : 1) / static_cast<double>(rows);
  for (int64_t c = 0; c < cols; ++c) {
    double value = 0, error = 0;
    const auto add = [&](double factor, double v, const LogSumExp& lse) {
      const double p = std::exp(v - lse.value);
      value += factor * p;
      error += std::abs(factor) * p * (4 + std::abs(v - lse.value) + 2 * std::abs(v) + std::abs(lse.value) + 8 + 2 + 5);
    };
    add(alpha * T, in[x][first + c] / T, soft);
    add(-alpha * T, in[teacher][first + c] / T, target);
    add(1 - alpha, in[x][first + c], student);
    if (c == labelled) {
      value -= 1 - alpha;
      error += 5 * (1 - alpha);
    }
    expect(dx, first + c, value * by, error * std::abs(by));
  }
}
DUET_PROBLEM(DistillBackward);

}  // namespace duet
