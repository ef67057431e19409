// SPDX-License-Identifier: Apache-2.0
// Recurrent layers whose sequences have lengths of their own: how they are drawn, that each sequence is computed as a
// layer of so many steps, and that what lies behind its last step is not read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/cases.h"
#include "core/cpu_context.h"
#include "core/session.h"
#include "ops/recurrent/recurrent.h"
#include "simt/simt.h"

namespace duet {
namespace {

constexpr const char* kOps[] = {"rnn_tanh", "rnn_tanh_backward", "rnn_tanh_training",
                                "gru",      "gru_backward",      "gru_training",
                                "lstm",     "lstm_backward",     "lstm_training"};

size_t slot_of(const HostTensors& tensors, const std::string& name) {
  for (size_t s = 0; s < tensors.size(); ++s)
    if (tensors.specs()[s].name == name) return s;
  ADD_FAILURE() << "no tensor " << name;
  return 0;
}

TEST(RecurrentLengths, AreDrawnFromOneToTInAnotherOrder) {
  for (const int64_t T : {1, 9, 100})
    for (int64_t B = 1; B < 70; ++B) {
      const RecurrentShape p{.T = T, .B = B, .I = 1, .H = 1, .padded = true};
      std::vector<int64_t> lengths;
      for (int64_t b = 0; b < B; ++b) lengths.push_back(p.drawn_length(b));
      EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), T);
      if (B > 1) {
        EXPECT_EQ(*std::min_element(lengths.begin(), lengths.end()), 1);
      }
      if (B > 2 && T > 2) {
        EXPECT_FALSE(std::is_sorted(lengths.begin(), lengths.end())) << T << " " << B;
        EXPECT_FALSE(std::is_sorted(lengths.rbegin(), lengths.rend())) << T << " " << B;
      }
      int64_t sum = 0;
      for (const int64_t length : lengths) sum += length;
      EXPECT_EQ(p.steps(), sum) << T << " " << B;
    }
}

TEST(RecurrentLengths, CountTheStepsThatThereAre) {
  const Problem all = parse_case("lstm_backward", "T:9 B:5 I:3 H:4"),
                some = parse_case("lstm_backward", "T:9 B:5 I:3 H:4 padded:1");  // 9, 7, 5, 3 and 1
  EXPECT_DOUBLE_EQ(some.flops() / all.flops(), 25.0 / 45);
  EXPECT_LT(some.bytes(), all.bytes());
}

// One sequence of a layer with lengths is a layer without them, of one sequence with so many steps.
template <Cell kCell>
void check_sequences() {
  using P = Recurrent<kCell>;
  const RecurrentShape shape{
      .T = 6, .B = 5, .I = 3, .H = 4, .bidirectional = true, .padded = true, .dtype = DType::f64};
  const Problem all = Problem::of(P{{shape}});
  const HostTensors in = draw_inputs(all, FillMode::values, 3), out = run_reference(all, in);
  const auto row = [](const HostTensors& t, const char* name, int64_t at) {
    return static_cast<const double*>(t.data(slot_of(t, name))) + at;
  };
  const auto* lengths = static_cast<const int32_t*>(in.data(slot_of(in, "lengths")));
  const int64_t K = P::K;
  for (int64_t b = 0; b < shape.B; ++b) {
    RecurrentShape one = shape;
    one.T = lengths[b];
    one.B = 1;
    one.padded = false;
    const Problem problem = Problem::of(P{{one}});
    HostTensors from = draw_inputs(problem, FillMode::values, 4);
    const auto copy = [&](const char* name, int64_t to, int64_t at, int64_t count) {
      std::copy_n(row(in, name, at), count, static_cast<double*>(from.data(slot_of(from, name))) + to);
    };
    for (int64_t t = 0; t < one.T; ++t) copy("x", t * shape.I, (t * shape.B + b) * shape.I, shape.I);
    for (const char* name : {"w", "r", "bias"}) copy(name, 0, 0, in.specs()[slot_of(in, name)].elements());
    for (const char* name : {"h0", "c0"})
      for (int64_t dir = 0; dir < 2 && (name[0] == 'h' || P::has_c); ++dir)
        copy(name, dir * shape.H, (dir * shape.B + b) * shape.H, shape.H);
    const HostTensors want = run_reference(problem, from);
    const auto compare = [&](const char* name, int64_t at, int64_t of_one, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        EXPECT_EQ(row(out, name, at)[i], of_one < 0 ? 0 : row(want, name, of_one)[i]) << name << " of " << b;
    };
    for (int64_t dir = 0; dir < 2; ++dir) {
      compare("hT", (dir * shape.B + b) * shape.H, dir * shape.H, shape.H);
      if (P::has_c) compare("cT", (dir * shape.B + b) * shape.H, dir * shape.H, shape.H);
    }
    for (int64_t t = 0; t < shape.T; ++t) {
      const bool padding = t >= one.T;
      compare("y", (t * shape.B + b) * 2 * shape.H, padding ? -1 : t * 2 * shape.H, 2 * shape.H);
      for (int64_t dir = 0; dir < 2 && K > 0; ++dir)
        compare("reserve", ((dir * shape.T + t) * shape.B + b) * K * shape.H,
                padding ? -1 : (dir * one.T + t) * K * shape.H, K * shape.H);
    }
  }
}
TEST(RecurrentLengths, EachSequenceIsALayerOfSoManySteps) {
  check_sequences<Cell::rnn_tanh>();
  check_sequences<Cell::gru>();
  check_sequences<Cell::lstm>();
}

// NaN in every input behind the last steps. 1000 features: weights over a thread's caches, on the CPU alone. H 132: a
// state over a block's threads.
TEST(RecurrentLengths, WhatLiesBehindTheLastStepIsNotRead) {
  CpuContext cpu(1);
  std::string reason;
  const std::unique_ptr<Context> host = open_simt(reason, {});
  for (const std::string op : kOps)
    for (const std::string shape :
         {"T:5 B:4 I:3 H:8 bidirectional:1 padded:1", "T:3 B:3 I:1000 H:131 padded:1",
          "T:3 B:3 I:4 H:132 bidirectional:1 padded:1", "T:5 B:4 I:3 H:8 bidirectional:1 padded:1 layers:3"}) {
      if (shape.ends_with("layers:3") && !op.ends_with("_training")) continue;
      const Problem problem = parse_case(op, shape);
      HostTensors inputs = draw_inputs(problem, FillMode::values, 5);
      const Shape x = inputs.specs()[slot_of(inputs, "x")].shape;
      const int64_t T = x[0], B = x[1];
      const Expected expected = Expected::all(problem, inputs);
      const auto* lengths = static_cast<const int32_t*>(inputs.data(slot_of(inputs, "lengths")));
      const std::vector<int32_t> steps(lengths, lengths + B);
      for (size_t s = 0; s < inputs.size(); ++s) {
        const TensorSpec& spec = inputs.specs()[s];
        const std::string name = spec.name;
        if (spec.role != Role::in || (name != "x" && name != "y" && name != "dy" && name != "reserve")) continue;
        const int64_t first = name == "reserve" ? spec.shape[0] : 1, row = spec.elements() / (first * T * B);
        auto* values = static_cast<float*>(inputs.data(s));
        for (int64_t i = 0; i < first * T * B; ++i)
          if (i / B % T >= steps[static_cast<size_t>(i % B)]) std::fill_n(values + i * row, row, NAN);
      }
      for (const Implementation* i : implementations(op)) {
        const bool simt = i->name.starts_with("simt.") && host != nullptr && x[2] < 1000;
        if ((i->device != Device::cpu && !simt) || i->name == "reference") continue;
        Context& context = simt ? *host : cpu;
        Session session(problem, *i, context, inputs);
        if (!session.supported()) continue;
        session.poison_outputs();
        context.enter([&] { session.run(); });
        const Check check = session.check(expected, false);
        EXPECT_TRUE(check.passed()) << op << " " << i->name << " " << shape << ": " << check.failure;
      }
    }
}

}  // namespace
}  // namespace duet
