// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrent/recurrent_training.h"
#include "tests/cpu_ref/gradient.h"

namespace duet {
namespace {

template <Cell kCell>
void check(const RecurrentShape& shape, bool last_only = false) {
  const int64_t d = shape.directions(), gates = d * gates_of(kCell) * shape.H, states = d * shape.B * shape.H;
  const int64_t inputs = shape.T * shape.B * shape.I + gates * (shape.I + shape.H + biases_of(kCell)) +
                         states * (kCell == Cell::lstm ? 2 : 1);
  EXPECT_EQ(check_gradient(Recurrent<kCell>{{shape}}, RecurrentBackward<kCell>{{shape}, last_only}), inputs);
}
// The same gradients, of both passes as one problem.
template <Cell kCell>
void check_training(const RecurrentShape& shape) {
  EXPECT_EQ(check_gradient(Recurrent<kCell>{{shape}}, RecurrentTraining<kCell>{{shape}}),
            check_gradient(Recurrent<kCell>{{shape}}, RecurrentBackward<kCell>{{shape}}));
}
// Of several layers, of which there is no forward pass by itself: that of both passes, which
// recurrent_layers_test.cpp compares with layers one by one.
template <Cell kCell>
void check_layers(const RecurrentShape& shape, int64_t layers, double dropout = 0) {
  RecurrentTraining<kCell> p{{shape}};
  p.layers = layers;
  p.dropout = dropout;
  const int64_t d = shape.directions(), rows = layers * d * gates_of(kCell) * shape.H,
                states = layers * d * shape.B * shape.H * (kCell == Cell::lstm ? 2 : 1);
  const int64_t w = rows / layers * (shape.I + (layers - 1) * d * shape.H);
  EXPECT_EQ(check_gradient(p, p), shape.T * shape.B * shape.I + w + rows * (shape.H + biases_of(kCell)) + states);
}
template <Cell kCell>
void check_cell() {
  check<kCell>({.T = 3, .B = 2, .I = 4, .H = 3});
  check<kCell>({.T = 4, .B = 2, .I = 3, .H = 2, .bidirectional = true});
  check<kCell>({.T = 1, .B = 1, .I = 1, .H = 1});
  check<kCell>({.T = 0, .B = 2, .I = 1, .H = 3});
  check<kCell>({.T = 4, .B = 2, .I = 3, .H = 2, .bidirectional = true}, true);
  check<kCell>({.T = 4, .B = 3, .I = 2, .H = 2, .bidirectional = true, .padded = true});
  check<kCell>({.T = 4, .B = 3, .I = 2, .H = 2, .bidirectional = true, .padded = true}, true);
  check_training<kCell>({.T = 3, .B = 2, .I = 4, .H = 3});
  check_training<kCell>({.T = 4, .B = 3, .I = 2, .H = 2, .bidirectional = true, .padded = true});
  check_layers<kCell>({.T = 3, .B = 2, .I = 4, .H = 2}, 3);
  check_layers<kCell>({.T = 3, .B = 2, .I = 3, .H = 2, .bidirectional = true, .padded = true}, 2);
  check_layers<kCell>({.T = 3, .B = 2, .I = 3, .H = 2, .bidirectional = true}, 3, 0.4);
}

TEST(Gradients, RnnTanh) { check_cell<Cell::rnn_tanh>(); }
TEST(Gradients, Gru) { check_cell<Cell::gru>(); }
TEST(Gradients, Lstm) { check_cell<Cell::lstm>(); }

}  // namespace
}  // namespace duet
