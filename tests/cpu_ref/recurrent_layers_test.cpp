// SPDX-License-Identifier: Apache-2.0
// Several recurrent layers in one problem: that their forward pass is that of layers one by one, each on y of the one
// below, with dropout behind it. gradients_recurrent_test.cpp has their gradients.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/session.h"
#include "ops/recurrent/recurrent_training.h"
#include "tests/cpu_ref/gradient.h"

namespace duet {
namespace {
using gradient::doubles, gradient::find;

constexpr int64_t kLayers = 3;

// Part `index` of the `count` equal parts of a tensor.
struct Part {
  const double* first;
  int64_t elements;
};
Part part(HostTensors& tensors, const std::string& name, int64_t index, int64_t count) {
  const int slot = find(tensors, name);
  const int64_t elements = tensors.specs()[static_cast<size_t>(slot)].elements() / count;
  return {doubles(tensors, slot) + index * elements, elements};
}
void set(HostTensors& to, const std::string& name, Part from) {
  const int slot = find(to, name);
  ASSERT_EQ(to.specs()[static_cast<size_t>(slot)].elements(), from.elements) << name;
  std::memcpy(doubles(to, slot), from.first, static_cast<size_t>(from.elements) * sizeof(double));
}
void expect_equal(HostTensors& tensors, const std::string& name, Part want) {
  const Part got = part(tensors, name, 0, 1);
  ASSERT_EQ(got.elements, want.elements) << name;
  for (int64_t i = 0; i < got.elements; ++i) EXPECT_EQ(got.first[i], want.first[i]) << name << "[" << i << "]";
}

// y behind the op dropout.
HostTensors dropped(const Dropout& op, HostTensors& in, Part y) {
  const Problem problem = Problem::of(op);
  HostTensors given = draw_inputs(problem, FillMode::values, 2);
  set(given, "x", y);
  gradient::copy(given, static_cast<size_t>(Dropout::offset.index), in, find(in, "offset"));
  return run_reference(problem, given);
}

template <Cell kCell>
void check_layers(const RecurrentShape& shape, double dropout = 0) {
  RecurrentTraining<kCell> p{{shape}};
  p.layers = kLayers;
  p.dropout = dropout;
  p.seed = 11;
  const Problem all = Problem::of(p);
  HostTensors in = draw_inputs(all, FillMode::values, 1), out = run_reference(all, in);
  HostTensors below;  // what the layer below returned
  for (int64_t l = 0; l < kLayers; ++l) {
    const Problem one = Problem::of(p.forward(l));
    HostTensors given = draw_inputs(one, FillMode::values, 2);
    set(given, "x", l == 0 ? part(in, "x", 0, 1) : part(below, "y", 0, 1));
    set(given, "w", l == 0 ? part(in, "w", 0, 1) : part(in, "w_above", l - 1, kLayers - 1));
    for (const char* name : {"r", "bias", "h0"}) set(given, name, part(in, name, l, kLayers));
    if (kCell == Cell::lstm) set(given, "c0", part(in, "c0", l, kLayers));
    HostTensors made = run_reference(one, given);
    expect_equal(made, "hT", part(out, "hT", l, kLayers));
    if (kCell == Cell::lstm) expect_equal(made, "cT", part(out, "cT", l, kLayers));
    if (l == kLayers - 1) expect_equal(made, "y", part(out, "y", 0, 1));
    below = std::move(made);
    if (dropout > 0 && l < kLayers - 1) below = dropped(p.dropout_of(l), in, part(below, "y", 0, 1));
  }
}
void check_cells(const RecurrentShape& shape, double dropout = 0) {
  check_layers<Cell::rnn_tanh>(shape, dropout);
  check_layers<Cell::gru>(shape, dropout);
  check_layers<Cell::lstm>(shape, dropout);
}

TEST(RecurrentLayers, AreLayersOneByOne) {
  check_cells({.T = 4, .B = 3, .I = 5, .H = 3, .dtype = DType::f64});
  check_cells({.T = 4, .B = 3, .I = 2, .H = 3, .bidirectional = true, .dtype = DType::f64});
}
// Lengths are drawn alike, whatever else there is.
TEST(RecurrentLayers, HaveTheSameLengths) {
  check_cells({.T = 5, .B = 4, .I = 2, .H = 3, .bidirectional = true, .padded = true, .dtype = DType::f64});
}

TEST(RecurrentLayers, HaveDropoutBetweenThem) {
  check_cells({.T = 4, .B = 3, .I = 2, .H = 3, .bidirectional = true, .dtype = DType::f64}, 0.3);
}
TEST(RecurrentLayers, DropOtherElementsThanTheLayerBelow) {
  RecurrentTraining<Cell::gru> p{{{.T = 8, .B = 2, .I = 1, .H = 4}}};
  p.layers = 3;
  p.dropout = 0.5;
  const auto mask = [&](int64_t layer) {
    const Problem problem = Problem::of(p.dropout_of(layer));
    const HostTensors out = run_reference(problem, draw_inputs(problem, FillMode::values, 1));
    const auto* bits = static_cast<const uint8_t*>(out.data(static_cast<size_t>(Dropout::mask.index)));
    return std::vector<uint8_t>(bits, bits + p.dropout_of(layer).n);
  };
  EXPECT_NE(mask(0), mask(1));
}

TEST(RecurrentLayers, CountTheirOperations) {
  const auto flops = [](const char* words) { return parse_case("lstm_training", words).flops(); };
  EXPECT_EQ(flops("T:4 B:3 I:5 H:3 bidirectional:1 layers:3"),
            flops("T:4 B:3 I:5 H:3 bidirectional:1") + 2 * flops("T:4 B:3 I:6 H:3 bidirectional:1"));
  EXPECT_EQ(flops("T:4 B:3 I:5 H:6 layers:3 dropout:0.5"), flops("T:4 B:3 I:5 H:6 layers:3") + 2 * 2 * 4 * 3 * 6);
}

}  // namespace
}  // namespace duet
