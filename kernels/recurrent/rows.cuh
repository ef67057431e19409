// SPDX-License-Identifier: Apache-2.0
// What the kernels of recurrent_tuned.cu and divided.cuh share: the rows that the products with x and r read and write.
#pragma once
#include "kernels/recurrent/cell.cuh"

namespace duet::DUET_DEVICE {

// Operands and results of the products. pre, the product of x and w, and da_x: (T, B, D, G, H); da_h: (D, T, B, G, H);
// h, the state before each step: (D, T, B, H); rec, the product of a step's h and r, and da_step: (D, B, G, H); state:
// (D, B, H). pre and rec are without bias.
template <class T>
struct Rows {
  T *pre, *rec, *state;
  T *da_x, *da_h, *da_step, *h;
};

// a = the sums of a unit at a step: pre and rec plus the biases. rec: of this unit, for each gate.
template <Cell kCell, class T>
__device__ __forceinline__ void add_pre(const Layer& p, const Unit& u, int64_t step, const T* pre, const T* bias,
                                        const float* rec, float (&a)[kSums<kCell>]) {
  constexpr int G = static_cast<int>(gates_of(kCell)), kBiases = static_cast<int>(biases_of(kCell));
  const T* from_x = pre + ((u.time(step) * p.B + u.b) * p.D + u.dir) * G * p.H + u.j;
#pragma unroll
  for (int g = 0; g < G; ++g) {
    const int64_t at = (u.dir * kBiases * G + g) * p.H + u.j;
    const float x = float(from_x[g * p.H]) + float(bias[at]);
    const float h = rec[g] + (kBiases == 2 ? float(bias[at + G * p.H]) : 0);
    if (kCell == Cell::gru && g == 2) {
      a[2] = x;
      a[3 % kSums<kCell>] = h;
    } else {
      a[g] = x + h;
    }
  }
}

// Writes what the products need of a unit's backward step: h before the step and the gradients of the sums.
template <Cell kCell, class T>
__device__ __forceinline__ void store_gradients(const Layer& p, const Unit& u, int64_t time, const Rows<T>& rows,
                                                float h, const float (&da)[kSums<kCell>]) {
  constexpr int G = static_cast<int>(gates_of(kCell));
  const int64_t row = time * p.B + u.b, of_direction = u.dir * p.T * p.B + row;
  T *to_x = rows.da_x + (row * p.D + u.dir) * G * p.H + u.j, *to_h = rows.da_h + of_direction * G * p.H + u.j;
  rows.h[of_direction * p.H + u.j] = T(h);
#pragma unroll
  for (int g = 0; g < G; ++g) to_x[g * p.H] = T(da[g]);
  if (rows.da_h == rows.da_x) return;
#pragma unroll
  for (int g = 0; g < G; ++g) to_h[g * p.H] = T(da[kCell == Cell::gru && g == 2 ? 3 % kSums<kCell> : g]);
}

}  // namespace duet::DUET_DEVICE
