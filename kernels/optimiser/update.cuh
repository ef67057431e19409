// SPDX-License-Identifier: Apache-2.0
// Shared by the tuned optimisers: one pass over flat arrays, one pack of each array per thread, all loads in flight
// together.
#pragma once
#include "kernels/optimiser/mixed.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

// Elements of a pack: 16 bytes of the wider type, so that 4 elements of f32 state go with 8 bytes of halves. Gradients
// are never the wider type.
template <class T, class S>
inline constexpr int kUpdatePack = 16 / (sizeof(S) > sizeof(T) ? sizeof(S) : sizeof(T));

// kStates arrays of (n) that an update reads and writes.
template <class S, int kStates>
struct States {
  S* at[kStates];
};

// A map_grid(n, kSize), no shared memory. update.prepare() reads scalars from device memory, once per thread, and
// returns rule(gradient, weight, state), which returns the new weight and changes the state, all in f32. g, from, to:
// (n), bad: (1), disjoint; as for_state passes them.
template <int kSize, class Update, class G, class T, class S, int kStates>
__global__ void __launch_bounds__(kMapBlock)
    update_kernel(Update update, const int32_t* bad, const G* g, S* from, States<S, kStates> states, T* to, int64_t n) {
  if (bad && *bad != 0) return;
  const auto rule = update.prepare();
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    // Load all.
    const auto gradient = load_pack<kWidth>(g + i);
    auto weight = load_pack<kWidth>(from + i);
    Pack<S, kWidth> state[kStates];
    Pack<T, kWidth> rounded;
#pragma unroll
    for (int s = 0; s < kStates; ++s) state[s] = load_pack<kWidth>(states.at[s] + i);
      // Update.
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      float values[kStates];
#pragma unroll
      for (int s = 0; s < kStates; ++s) values[s] = float(state[s].at[e]);
      const float updated = rule(float(gradient.at[e]), float(weight.at[e]), values);
      weight.at[e] = S(updated);
      rounded.at[e] = T(updated);
#pragma unroll
      for (int s = 0; s < kStates; ++s) state[s].at[e] = S(values[s]);
    }
    // Write back.
    store_pack(from + i, weight);
#pragma unroll
    for (int s = 0; s < kStates; ++s) store_pack(states.at[s] + i, state[s]);
    if (to) store_pack(to + i, rounded);
  });
}

template <class Update, class G, class T, class S, int kStates>
void launch_update(cudaStream_t stream, const Update& update, const int32_t* bad, const G* g, S* from,
                   const States<S, kStates>& states, T* to, int64_t n) {
  constexpr int kFull = kUpdatePack<T, S>;
  bool aligned = aligned16(g, from) && (!to || aligned16(to));
  for (const S* s : states.at) aligned = aligned && aligned16(s);
  if (aligned)
    launch(update_kernel<kFull, Update, G, T, S, kStates>, map_grid(n, kFull, stream), update, bad, g, from, states, to,
           n);
  else
    launch(update_kernel<1, Update, G, T, S, kStates>, map_grid(n, 1, stream), update, bad, g, from, states, to, n);
}

}  // namespace duet::DUET_DEVICE
