// SPDX-License-Identifier: Apache-2.0
// The steps of a layer whose r is divided among the blocks of one cooperative launch: each keeps its part in shared
// memory for all steps, and all wait for each other at each step. Called by recurrent_tuned.cu.
#pragma once
#include "kernels/recurrent/rows.cuh"
#include "kernels/vector.cuh"
#include "simt/cooperative.h"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {

constexpr int64_t kMaxDividedUnits = 1 << 16;  // far more than fit: 32-bit indices suffice for a block's part

// With f32 a block multiplies in register tiles, with halves on tensor cores.
template <class T>
inline constexpr bool kOnTensorCores = sizeof(T) == 2;
constexpr int kDividedThreads = 256, kDividedWarps = kDividedThreads / 32;
// Sequences that are multiplied at a time: a value of r is read from shared memory once for all of them. A row of the
// gradients is up to 4 times as long as one of h, and has less room.
template <class T>
inline constexpr int kForwardRows = kOnTensorCores<T> ? 16 : 4;
template <class T>
inline constexpr int kBackwardRows = kOnTensorCores<T> ? 8 : 4;
// The sum over k is divided into packs of so many elements, which the warps share out.
template <class T>
inline constexpr int kDepth = kOnTensorCores<T> ? 16 : 4;

// How units and sequences are divided among the blocks, which are numbered by direction, sequences and units.
struct Division {
  int units_log2 = 0;  // of the units of a block, all of one direction: 2 to 5; 4 with halves, the rows of an mma
  int rows = 0;        // sequences of a block; 0: there is no division
  int packs = 0;       // of k
  int pitch = 0;       // of a row of what r is multiplied with, in elements
  int64_t unit_blocks = 0, row_blocks = 0;
  int64_t shared_bytes = 0;
  __host__ __device__ int units() const { return 1 << units_log2; }
};

// A block's part, and what a thread has of it: unit j, for sequences `row`, row + kRows, ...
template <int kRows>
struct Part {
  int64_t first_unit, b0, dir;
  int j, row;
  bool has_unit;
  __device__ Part(const Layer& p, const Division& d)
      : first_unit(blockIdx.x % d.unit_blocks * d.units()),
        b0(blockIdx.x / d.unit_blocks % d.row_blocks * d.rows),
        dir(blockIdx.x / d.unit_blocks / d.row_blocks),
        j(static_cast<int>(threadIdx.x) & (d.units() - 1)),
        row(static_cast<int>(threadIdx.x) >> d.units_log2),
        has_unit(row < kRows && first_unit + j < p.H) {}
  // Its unit of one sequence, which has no steps where there is none.
  __device__ Unit unit(const Layer& p, int of_row) const {
    Unit u(dir, b0 + of_row, first_unit + j, 0);
    if (has_unit && u.b < p.B) u.steps = p.steps_of(u.b);
    return u;
  }
};

// Where element k of a column (a gate) of a unit lies in the block's part of r. f32: (columns, packs, units, 4).
// Halves: (columns, packs), and in that the operand a of an mma (simt/mma.h), a lane's 16 bytes behind those of the
// lane before.
template <class T>
__device__ __forceinline__ int place_in_r(const Division& d, int column, int unit, int k) {
  const int pack = column * d.packs + k / kDepth<T>;
  if constexpr (kOnTensorCores<T>) {
    const int lane = unit % 8 * 4 + k % 8 / 2, reg = unit / 8 + k % 16 / 8 * 2;
    return (pack * 32 + lane) * 8 + reg * 2 + k % 2;
  } else {
    return ((pack << d.units_log2) + unit) * 4 + k % 4;
  }
}

// Loads rows of `count` elements, which other blocks have written: from(row) is where one begins; null: it is 0. Two
// warps share a row. A lane loads kSize elements at a time, to which rows are aligned.
template <int kSize, class T, class From>
__device__ __forceinline__ void load_packed_rows(const Division& d, T* to, int rows, int count, From&& from) {
  using Word = std::conditional_t<kSize == 1, T, typename access::Word<kSize * sizeof(T)>::type>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int row = warp / 2; row < rows; row += kDividedWarps / 2) {
    const T* begin = from(row);
#pragma unroll 4
    for (int k = (warp % 2 * 32 + lane) * kSize; k < d.packs * kDepth<T>; k += 64 * kSize)
      *reinterpret_cast<Word*>(to + row * d.pitch + k) =
          begin && k < count ? __ldcg(reinterpret_cast<const Word*>(begin + k)) : Word{};
  }
}
template <class T, class From>
__device__ __forceinline__ void load_rows(const Division& d, bool in_packs, T* to, int rows, int count, From&& from) {
  if (in_packs)
    load_packed_rows<4>(d, to, rows, count, from);
  else
    load_packed_rows<1>(d, to, rows, count, from);
}

// The product of r and kRows rows of x. Each warp adds up some packs of k into partial: (warps, kRows, kColumns,
// units).
template <int kColumns, int kRows, class T>
__device__ __forceinline__ void multiply_rows(const Division& d, const T* r, const T* x, float* partial) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, J = d.units();
  partial += warp * kRows * kColumns * J;
  if constexpr (kOnTensorCores<T>) {
    constexpr int kTiles = kRows / 8;
    const int group = lane / 4, q = lane % 4;
    float sum[kTiles][kColumns][4] = {};
    for (int pack = warp; pack < d.packs; pack += kDividedWarps) {
      uint32_t b[kTiles][2];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const T* at = x + (i * 8 + group) * d.pitch + pack * 16 + 2 * q;
        b[i][0] = *reinterpret_cast<const uint32_t*>(at);
        b[i][1] = *reinterpret_cast<const uint32_t*>(at + 8);
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const uint4 word = *reinterpret_cast<const uint4*>(r + ((c * d.packs + pack) * 32 + lane) * 8);
        const uint32_t a[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
        for (int i = 0; i < kTiles; ++i) mma_m16n8k16<T>(sum[i][c], a, b[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          partial[((i * 8 + 2 * q + e % 2) * kColumns + c) * J + group + e / 2 * 8] = sum[i][c][e];
  } else {
    const int unit = lane & (J - 1), parts = kDividedThreads >> d.units_log2;
    float sum[kRows][kColumns] = {};
#pragma unroll 2
    for (int pack = static_cast<int>(threadIdx.x) >> d.units_log2; pack < d.packs; pack += parts) {
      Pack<float, 4> value[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) value[i] = load_pack<4>(x + i * d.pitch + pack * 4);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const auto weight = load_pack<4>(r + (((c * d.packs + pack) << d.units_log2) + unit) * 4);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int i = 0; i < kRows; ++i) sum[i][c] += weight.at[e] * value[i].at[e];
      }
    }
    // Lanes of one unit add up their packs.
    for (int apart = J; apart < 32; apart *= 2)
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sum[i][c] += __shfl_xor_sync(0xffffffffu, sum[i][c], apart);
    if (lane < J)
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int c = 0; c < kColumns; ++c) partial[(i * kColumns + c) * J + unit] = sum[i][c];
  }
}
template <int kColumns, int kRows>
__device__ __forceinline__ void add_partial(const Part<kRows>& part, int units, const float* partial,
                                            float (&sum)[kColumns]) {
#pragma unroll
  for (int w = 0; w < kDividedWarps; ++w)
#pragma unroll
    for (int c = 0; c < kColumns; ++c) sum[c] += partial[((w * kRows + part.row) * kColumns + c) * units + part.j];
}

// All steps, in a cooperative launch. A block keeps the rows of r of its units for all steps, and computes these units
// for its sequences. h passes from block to block in y. Shared memory: partial sums; c, (rows, units); h before the
// step, (rows, pitch); r. in_packs: rows of y and h0 may be loaded 4 elements at a time.
template <Cell kCell, class T>
__global__ void __launch_bounds__(kDividedThreads, 1)
    divided_kernel(Layer p, ForwardTensors<T> t, const T* pre, Division d, bool in_packs, uint32_t* arrived) {
  constexpr int G = static_cast<int>(gates_of(kCell)), kRows = kForwardRows<T>;
  DUET_DYN_SHARED(float, shared);
  const int H = static_cast<int>(p.H), J = d.units();
  float *partial = shared, *c = partial + kDividedWarps * kRows * G * J;
  T *h = reinterpret_cast<T*>(c + (kCell == Cell::lstm ? d.rows * J : 0)), *r = h + d.rows * d.pitch;
  const Part<kRows> part(p, d);

  // r and c to shared memory. Units and elements beyond H are 0.
  for (int g = 0; g < G; ++g)
    for (int j = static_cast<int>(threadIdx.x) / 32; j < J; j += kDividedWarps) {
      const T* row = t.r + ((part.dir * G + g) * H + part.first_unit + j) * H;
      for (int k = static_cast<int>(threadIdx.x) % 32; k < d.packs * kDepth<T>; k += 32)
        r[place_in_r<T>(d, g, j, k)] = part.first_unit + j < H && k < H ? row[k] : T(0.0f);
    }
  if (kCell == Cell::lstm && part.has_unit)
    for (int row = part.row; row < d.rows; row += kRows) {
      const Unit u = part.unit(p, row);
      if (u.b < p.B) c[row * J + part.j] = float(t.c0[u.state(p)]);
    }

  for (int64_t step = 0; step < p.T; ++step) {
    // h before the step.
    load_rows(d, in_packs, h, d.rows, H, [&](int row) -> const T* {
      const int64_t b = part.b0 + row;
      const Unit u(part.dir, b, 0, b < p.B ? p.steps_of(b) : 0);
      return step >= u.steps ? nullptr : step > 0 ? t.y + u.y_row(p, step - 1) : t.h0 + u.state(p);
    });
    __syncthreads();

    for (int first = 0; first < d.rows; first += kRows) {
      // The part of the sums that does not depend on h is loaded while r is multiplied.
      const int row = first + part.row;
      const Unit u = part.unit(p, row);
      float a[kSums<kCell>] = {}, rec[G] = {};
      if (step < u.steps) add_pre<kCell>(p, u, step, pre, t.bias, rec, a);

      // Product of h and r.
      if (first > 0) __syncthreads();  // until the sums of the rows before have been read
      multiply_rows<G, kRows>(d, r, h + first * d.pitch, partial);
      __syncthreads();

      // The units.
      if (step < u.steps) {
        add_partial(part, J, partial, rec);
#pragma unroll
        for (int g = 0; g < G; ++g) a[kCell == Cell::gru && g == 2 ? 3 % kSums<kCell> : g] += rec[g];
        float kept[kKept<kCell>], my_c = kCell == Cell::lstm ? c[row * J + part.j] : 0;
        const float my_h = forward_unit<kCell>(a, float(h[row * d.pitch + u.j]), my_c, kept);
        if (kCell == Cell::lstm) c[row * J + part.j] = my_c;
        store_unit<kCell>(p, u, step, t, my_h, kept);
        if (step + 1 == u.steps) {
          t.hT[u.state(p)] = T(my_h);
          if (kCell == Cell::lstm) t.cT[u.state(p)] = T(my_c);
        }
      } else if (u.steps > 0) {
        store_no_unit<kCell>(p, u, step, t);
      }
    }
    if (step + 1 < p.T) grid_barrier(arrived, static_cast<uint32_t>(step));
  }
}

// As divided_kernel, backward: a block keeps the columns of r of its units. The gradients of the sums pass from block
// to block in rows.da_h. Shared memory: partial sums; dh and, of lstm, dc, (rows, units); gradients of kRows sequences,
// (kRows, pitch); r. in_packs: of rows.da_h.
template <Cell kCell, class T>
__global__ void __launch_bounds__(kDividedThreads, 1)
    divided_backward_kernel(Layer p, BackwardTensors<T> t, Rows<T> rows, Division d, bool in_packs, uint32_t* arrived) {
  constexpr int kRows = kBackwardRows<T>;
  DUET_DYN_SHARED(float, shared);
  const int K = static_cast<int>(gates_of(kCell) * p.H), J = d.units();
  float *partial = shared, *dh = partial + kDividedWarps * kRows * J, *dc = dh + d.rows * J;
  T *gradients = reinterpret_cast<T*>(kCell == Cell::lstm ? dc + d.rows * J : dc), *r = gradients + kRows * d.pitch;
  const Part<kRows> part(p, d);

  // r and the gradients of the last states to shared memory. Units and elements beyond H and G H are 0.
  for (int k = static_cast<int>(threadIdx.x) / 32; k < d.packs * kDepth<T>; k += kDividedWarps)
    for (int j = static_cast<int>(threadIdx.x) % 32; j < J; j += 32)
      r[place_in_r<T>(d, 0, j, k)] =
          part.first_unit + j < p.H && k < K ? t.r[(part.dir * K + k) * p.H + part.first_unit + j] : T(0.0f);
  if (part.has_unit)
    for (int row = part.row; row < d.rows; row += kRows) {
      const Unit u = part.unit(p, row);
      dh[row * J + part.j] = u.b < p.B ? float(t.dhT[u.state(p)]) : 0;
      if (kCell == Cell::lstm) dc[row * J + part.j] = u.b < p.B ? float(t.dcT[u.state(p)]) : 0;
    }

  for (int64_t step = p.T - 1; step >= 0; --step) {
    // Gradients of the units' sums.
    for (int row = part.row; row < d.rows; row += kRows) {
      const Unit u = part.unit(p, row);
      float da[kSums<kCell>] = {};
      if (step < u.steps) {
        const float h = h_before(p, u, step, t.y, t.h0);
        float my_dh = dh[row * J + part.j], my_dc = kCell == Cell::lstm ? dc[row * J + part.j] : 0;
        backward_at<kCell>(p, u, step, t, h, my_dh, my_dc, da);
        store_gradients<kCell>(p, u, u.time(step), rows, h, da);
        dh[row * J + part.j] = my_dh;
        if (kCell == Cell::lstm) dc[row * J + part.j] = my_dc;
      } else if (u.steps > 0) {
        store_gradients<kCell>(p, u, step, rows, 0, da);
      }
    }
    grid_barrier(arrived, static_cast<uint32_t>(p.T - 1 - step));

    // dh += r' times these gradients.
    for (int first = 0; first < d.rows; first += kRows) {
      load_rows(d, in_packs, gradients, kRows, K, [&](int row) -> const T* {
        const int64_t b = part.b0 + first + row;
        const Unit u(part.dir, b, 0, b < p.B ? p.steps_of(b) : 0);
        return step < u.steps ? rows.da_h + ((part.dir * p.T + u.time(step)) * p.B + b) * K : nullptr;
      });
      __syncthreads();
      multiply_rows<1, kRows>(d, r, gradients, partial);
      __syncthreads();
      float sum[1] = {};
      if (step < part.unit(p, first + part.row).steps) {  // else the sum is 0 only where r is finite
        add_partial(part, J, partial, sum);
        dh[(first + part.row) * J + part.j] += sum[0];
      }
    }
  }

  // Gradients of the initial states.
  for (int row = part.row; row < d.rows; row += kRows) {
    const Unit u = part.unit(p, row);
    if (u.steps == 0) continue;
    t.dh0[u.state(p)] = T(dh[row * J + part.j]);
    if (kCell == Cell::lstm) t.dc0[u.state(p)] = T(dc[row * J + part.j]);
  }
}

// What divide() must know of a kernel: how many columns of r a unit has, their length k, how many values of each unit
// and sequence it keeps, how many sequences it multiplies at a time, and whether it has only these in shared memory.
struct Divided {
  int64_t columns, k, states;
  int rows;
  bool only_rows;
};

// Of the divisions whose blocks are on the device at once, the one in which a multiprocessor has the fewest units to
// compute; of equals, the one of most units in a block, so that a row is loaded by fewer blocks. No rows where r does
// not fit. Taken wherever it fits; whether large B gains is not measured.
template <class T, class... P>
Division divide(const Layer& p, const Divided& of, void (*kernel)(P...), const GpuContext& gpu) {
  Division best;
  if (p.B == 0 || p.H > kMaxDividedUnits) return best;
  int64_t least = 0;
  for (int log2 = kOnTensorCores<T> ? 4 : 5; log2 >= (kOnTensorCores<T> ? 4 : 2); --log2) {
    Division d;
    d.units_log2 = log2;
    d.packs = static_cast<int>(ceil_div(of.k, kDepth<T>));
    d.pitch = d.packs * kDepth<T> + (kOnTensorCores<T> ? 8 : 0);  // rows that an mma reads lie in different banks
    d.unit_blocks = ceil_div(p.H, d.units());
    for (d.rows = of.rows;; d.rows += of.rows) {
      d.row_blocks = ceil_div(p.B, d.rows);
      const int64_t floats = kDividedWarps * of.rows * of.columns + of.states * d.rows;  // for each unit
      const int64_t rows = of.only_rows ? of.rows : d.rows;
      d.shared_bytes = floats * d.units() * int64_t{sizeof(float)} +
                       (of.columns * d.packs * kDepth<T> * d.units() + rows * d.pitch) * int64_t{sizeof(T)};
      if (d.shared_bytes > gpu.shared_bytes()) break;
      const int64_t blocks = p.D * d.row_blocks * d.unit_blocks;
      if (blocks > cooperative_blocks(kernel, kDividedThreads, d.shared_bytes, gpu)) {
        if (d.row_blocks == 1) break;
        continue;
      }
      const int64_t work = d.rows * d.units() * ceil_div(blocks, int64_t{gpu.multiprocessors()});
      if (p.T < UINT32_MAX / blocks && (best.rows == 0 || work < least)) {  // the barriers are counted in 32 bits
        best = d;
        least = work;
      }
      break;
    }
  }
  return best;
}
inline Grid divided_grid(const Layer& p, const Division& d, const GpuContext& gpu) {
  return {.blocks = p.D * d.row_blocks * d.unit_blocks,
          .threads = kDividedThreads,
          .shared_bytes = d.shared_bytes,
          .stream = gpu.stream()};
}

}  // namespace duet::DUET_DEVICE
