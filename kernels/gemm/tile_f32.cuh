// SPDX-License-Identifier: Apache-2.0
// The f32 main loop, used by product_f32.cu and the convolutions: a block of 256 threads multiplies a (kTile x depth)
// panel by a (depth x kTile) panel. Panels pass through shared memory in steps of kDepth; each thread accumulates a
// square of the result in registers. The loads of a step are issued before the previous step is multiplied.
#pragma once
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

// Whether less than a third of the tiles of 128 would be empty, for a result that takes so many tiles of 64 and of 128.
inline bool fills_tiles_of_128(int64_t of_64, int64_t of_128) { return 3 * of_64 > 2 * 4 * of_128; }

template <int kTile_>
struct TileF32 {
  static constexpr int kTile = kTile_;         // 64 or 128 rows and columns
  static constexpr int kThreads = 256;         // 16 x 16
  static constexpr int kDepth = 1024 / kTile;  // of a step: every thread loads 4 elements of each panel
  static constexpr int kGroups = kTile / 64;   // a thread has kGroups groups of 4 rows, 64 apart, and as many columns
  static constexpr int kSide = 4 * kGroups;

  // A panel in shared memory, aligned to 16 bytes: float[kLines][kPitch], two steps of kDepth lines each. The padding
  // avoids bank conflicts in the stores of panels whose depth is contiguous in memory.
  static constexpr int kLines = 2 * kDepth, kPitch = kTile + 4;
  using Line = float[kPitch];

  // The 4 neighbours of a step's panel that this thread loads. Where depth is contiguous in memory: depths deep to deep
  // + 3 at `along`; else `along` to along + 3 at depth `deep`.
  struct Place {
    int deep, along;
  };
  __device__ static Place place(bool depth_contiguous) {
    const int t = static_cast<int>(threadIdx.x);
    constexpr int kRuns = kDepth / 4;
    return depth_contiguous ? Place{t % kRuns * 4, t / kRuns} : Place{t / (kTile / 4), t % (kTile / 4) * 4};
  }
  __device__ static void store_panel(Line* panel, Place at, bool depth_contiguous, const float (&v)[4]) {
    if (depth_contiguous) {
#pragma unroll
      for (int e = 0; e < 4; ++e) panel[at.deep + e][at.along] = v[e];
    } else {
      *reinterpret_cast<float4*>(&panel[at.deep][at.along]) = make_float4(v[0], v[1], v[2], v[3]);
    }
  }
  // Another way to share a panel whose depth is contiguous in memory, for operands whose neighbours may not be loaded
  // together: element e is at depth `deep` and `along` + e kApart, so that a warp reads contiguous memory.
  static constexpr int kApart = kThreads / kDepth;
  __device__ static Place place_apart() {
    const int t = static_cast<int>(threadIdx.x);
    return {t % kDepth, t / kDepth};
  }
  __device__ static void store_apart(Line* panel, Place at, const float (&v)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) panel[at.deep][at.along + e * kApart] = v[e];
  }
  __device__ static int row(int i) { return static_cast<int>(threadIdx.x) / 16 * 4 + i / 4 * 64 + i % 4; }
  __device__ static int column(int j) { return static_cast<int>(threadIdx.x) % 16 * 4 + j / 4 * 64 + j % 4; }

  // sum[i][j] += element (row(i), column(j)) of the product. fetch_a(step, v) and fetch_b(step, v) load this thread's
  // elements, 0 outside the matrix; they are called once per step, in order. panel_a, panel_b: shared memory, as above.
  // kElementsApart: the elements of both panels are those of place_apart().
  template <bool kElementsApart = false, class FetchA, class FetchB>
  __device__ __forceinline__ static void multiply(int64_t steps, bool a_depth_contiguous, bool b_depth_contiguous,
                                                  FetchA&& fetch_a, FetchB&& fetch_b, Line* panel_a, Line* panel_b,
                                                  float (&sum)[kSide][kSide]) {
    if (steps == 0) return;
    const Place place_a = kElementsApart ? place_apart() : place(a_depth_contiguous),
                place_b = kElementsApart ? place_apart() : place(b_depth_contiguous);
    const auto store = [](Line* panel, Place at, bool depth_contiguous, const float(&v)[4]) {
      if constexpr (kElementsApart)
        store_apart(panel, at, v);
      else
        store_panel(panel, at, depth_contiguous, v);
    };
    // First step to shared memory.
    float next_a[4], next_b[4];
    fetch_a(int64_t{0}, next_a);
    fetch_b(int64_t{0}, next_b);
    store(panel_a, place_a, a_depth_contiguous, next_a);
    store(panel_b, place_b, b_depth_contiguous, next_b);
    __syncthreads();

    for (int64_t step = 0; step < steps; ++step) {
      const int now = static_cast<int>(step % 2) * kDepth, then = kDepth - now;
      // Issue the loads of the next step.
      const bool more = step + 1 < steps;
      if (more) {
        fetch_a(step + 1, next_a);
        fetch_b(step + 1, next_b);
      }
      // Multiply this step.
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        float a[kSide], b[kSide];
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          *reinterpret_cast<float4*>(&a[4 * g]) = *reinterpret_cast<const float4*>(&panel_a[now + d][row(4 * g)]);
          *reinterpret_cast<float4*>(&b[4 * g]) = *reinterpret_cast<const float4*>(&panel_b[now + d][column(4 * g)]);
        }
#pragma unroll
        for (int i = 0; i < kSide; ++i)
#pragma unroll
          for (int j = 0; j < kSide; ++j) sum[i][j] += a[i] * b[j];
      }
      // Next step to the other half of the panels, which no thread reads since the last barrier.
      if (more) {
        store(panel_a + then, place_a, a_depth_contiguous, next_a);
        store(panel_b + then, place_b, b_depth_contiguous, next_b);
        __syncthreads();
      }
    }
  }
};

}  // namespace duet::DUET_DEVICE
