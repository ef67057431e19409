// SPDX-License-Identifier: Apache-2.0
// The cells of recurrent layers (ops/recurrent/recurrent.h), and how many gates, kept values and biases each has.
#pragma once
#include <cstdint>

namespace duet {

enum class Cell : uint8_t { rnn_tanh, gru, lstm };

constexpr int64_t gates_of(Cell c) { return c == Cell::lstm ? 4 : c == Cell::gru ? 3 : 1; }
constexpr int64_t kept_of(Cell c) { return c == Cell::lstm ? 5 : c == Cell::gru ? 4 : 0; }  // K
constexpr int64_t biases_of(Cell c) { return c == Cell::gru ? 2 : 1; }

}  // namespace duet
