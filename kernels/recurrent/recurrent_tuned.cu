// SPDX-License-Identifier: Apache-2.0
// The product with x is computed for all steps at once. Then, where r fits shared memory, a block processes a slice of
// the sequences for all steps, so that no step waits for a launch. A larger r is divided among all blocks of one
// cooperative launch, which wait for each other at each step. Where the shared memory of the whole GPU does not hold r
// either, or the device has no cooperative launches, each step is two launches. Weight gradients are products over all
// steps and sequences at the end, divided along that sum where their tiles are few.
#include <algorithm>
#include <optional>

#include "kernels/gemm/product.h"
#include "kernels/recurrent/divided.cuh"
#include "kernels/recurrent/rows.cuh"
#include "kernels/reduction/columns.cuh"

namespace duet::DUET_DEVICE {
namespace {

constexpr int kRowBlocks = 2;                            // threadIdx.y of a slice's block
constexpr int kMaxUnits = 128;                           // threadIdx.x: H rounded up to whole warps
constexpr int64_t kMaxSharedBytes = int64_t{200} << 10;  // of r and the slice's state
constexpr int kThreads = 256;                            // of the kernels with one thread per unit

// The steps of the longest of `count` sequences from b0 on.
__device__ __forceinline__ int64_t max_steps(const Layer& p, int64_t b0, int64_t count) {
  int64_t max = 0;
  for (int64_t b = b0; b < b0 + count && b < p.B; ++b) {
    const int64_t steps = p.steps_of(b);
    if (steps > max) max = steps;
  }
  return max;
}

// All steps of a slice. Blocks of (H rounded up to whole warps, kRowBlocks), each with kRowBlocks * kRows sequences of
// one direction; a thread has one feature of kRows of them. Shared memory: r, (H, G H), and two states of the slice.
template <Cell kCell, int kRows, bool kLengths, class T>
__global__ void slice_kernel(Layer p, ForwardTensors<T> t, const T* pre, int64_t slices) {
  constexpr int G = static_cast<int>(gates_of(kCell)), kSlice = kRowBlocks * kRows;
  DUET_DYN_SHARED(float, shared);
  const int H = static_cast<int>(p.H), j = static_cast<int>(threadIdx.x), first = static_cast<int>(threadIdx.y) * kRows;
  const int64_t dir = blockIdx.x / slices, b0 = blockIdx.x % slices * kSlice;
  float *r = shared, *state = r + G * H * H;
  const int me = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int all = static_cast<int>(blockDim.x * blockDim.y);
  // r to shared memory, transposed. A warp has 4 values of 8 rows: where G H is a multiple of 32, those of one row are
  // all in one bank.
  for (int row = me / 4; row < G * H; row += all / 4)
#pragma unroll 4
    for (int k = me % 4; k < H; k += 4) r[k * G * H + row] = float(t.r[(dir * G * H + row) * H + k]);

  // Initial states.
  Unit u(dir, b0, j, p.T);
  const auto exists = [&](int row) { return j < H && b0 + first + row < p.B; };
  float h[kRows] = {}, c[kRows] = {};
  int64_t steps[kRows] = {};  // with lengths
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    u.b = b0 + first + i;
    if (exists(i)) {
      h[i] = float(t.h0[u.state(p)]);
      if (kCell == Cell::lstm) c[i] = float(t.c0[u.state(p)]);
      if constexpr (kLengths) steps[i] = p.steps_of(u.b);
    }
    if (j < H) state[(first + i) * H + j] = h[i];
  }
  __syncthreads();
  const int64_t all_steps = kLengths ? max_steps(p, b0, kSlice) : p.T;
  for (int64_t step = 0; step < all_steps; ++step) {
    const float* now = state + step % 2 * kSlice * H;
    float* next = state + (step + 1) % 2 * kSlice * H;

    // Product of h and r.
    float sum[kRows][G] = {};
    if (j < H) {
#pragma unroll 4
      for (int k = 0; k < H; ++k) {
        float weight[G];
#pragma unroll
        for (int g = 0; g < G; ++g) weight[g] = r[(k * G + g) * H + j];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const float value = now[(first + i) * H + k];
#pragma unroll
          for (int g = 0; g < G; ++g) sum[i][g] += weight[g] * value;
        }
      }
    }

    // The units.
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      u.b = b0 + first + i;
      if constexpr (kLengths) u.steps = steps[i];
      if (exists(i) && (!kLengths || step < steps[i])) {
        float a[kSums<kCell>], kept[kKept<kCell>];
        add_pre<kCell>(p, u, step, pre, t.bias, sum[i], a);
        h[i] = forward_unit<kCell>(a, h[i], c[i], kept);
        store_unit<kCell>(p, u, step, t, h[i], kept);
      }
      if (j < H) next[(first + i) * H + j] = h[i];
    }
    __syncthreads();  // `next` is read in the next step, `now` is written in it
  }

  // Last states.
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    u.b = b0 + first + i;
    if (!exists(i)) continue;
    t.hT[u.state(p)] = T(h[i]);
    if (kCell == Cell::lstm) t.cT[u.state(p)] = T(c[i]);
    if constexpr (kLengths)
      for (int64_t time = steps[i]; time < p.T; ++time) store_no_unit<kCell>(p, u, time, t);
  }
}

// As slice_kernel, backward. Shared memory: r, (G H, H), and the gradients of the slice's sums that depend on h,
// (kSlice, G H).
template <Cell kCell, int kRows, bool kLengths, class T>
__global__ void slice_backward_kernel(Layer p, BackwardTensors<T> t, Rows<T> rows, int64_t slices) {
  constexpr int G = static_cast<int>(gates_of(kCell)), kSlice = kRowBlocks * kRows;
  DUET_DYN_SHARED(float, shared);
  const int H = static_cast<int>(p.H), j = static_cast<int>(threadIdx.x), first = static_cast<int>(threadIdx.y) * kRows;
  const int64_t dir = blockIdx.x / slices, b0 = blockIdx.x % slices * kSlice;
  float *r = shared, *gradients = r + G * H * H;
  const int me = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int all = static_cast<int>(blockDim.x * blockDim.y);
  // r to shared memory.
  for (int i = me; i < G * H * H; i += all) r[i] = float(t.r[dir * G * H * H + i]);

  // Gradients of the last states.
  Unit u(dir, b0, j, p.T);
  const auto exists = [&](int row) { return j < H && b0 + first + row < p.B; };
  float dh[kRows] = {}, dc[kRows] = {};
  int64_t steps[kRows] = {};  // with lengths
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    u.b = b0 + first + i;
    if (!exists(i)) continue;
    dh[i] = float(t.dhT[u.state(p)]);
    if (kCell == Cell::lstm) dc[i] = float(t.dcT[u.state(p)]);
    if constexpr (kLengths) {
      steps[i] = p.steps_of(u.b);
      const float none[kSums<kCell>] = {};
      for (int64_t time = steps[i]; time < p.T; ++time) store_gradients<kCell>(p, u, time, rows, 0, none);
    }
  }
  for (int64_t step = (kLengths ? max_steps(p, b0, kSlice) : p.T) - 1; step >= 0; --step) {
    // Gradients of the units' sums.
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      u.b = b0 + first + i;
      float da[kSums<kCell>] = {};
      if constexpr (kLengths) u.steps = steps[i];
      if (exists(i) && (!kLengths || step < steps[i])) {
        const float h = h_before(p, u, step, t.y, t.h0);
        backward_at<kCell>(p, u, step, t, h, dh[i], dc[i], da);
        store_gradients<kCell>(p, u, u.time(step), rows, h, da);
      }
      if (j < H) {
#pragma unroll
        for (int g = 0; g < G; ++g)
          gradients[((first + i) * G + g) * H + j] = da[kCell == Cell::gru && g == 2 ? 3 % kSums<kCell> : g];
      }
    }
    __syncthreads();

    // dh += r' times these gradients; those behind a sequence's end are 0, but not their products where r is infinite.
    if (j < H) {
      float before[kRows];  // remains where the sequence has no such step
#pragma unroll
      for (int i = 0; i < kRows; ++i) before[i] = dh[i];
#pragma unroll 4
      for (int k = 0; k < G * H; ++k) {
        const float weight = r[k * H + j];
#pragma unroll
        for (int i = 0; i < kRows; ++i) dh[i] += weight * gradients[(first + i) * G * H + k];
      }
      if constexpr (kLengths) {
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          if (step >= steps[i]) dh[i] = before[i];
      }
    }
    __syncthreads();  // before the gradients are written again
  }

  // Gradients of the initial states.
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    u.b = b0 + first + i;
    if (!exists(i)) continue;
    t.dh0[u.state(p)] = T(dh[i]);
    if (kCell == Cell::lstm) t.dc0[u.state(p)] = T(dc[i]);
  }
}

// --- a launch for each step ------------------------------------------------------------------------------------------

// One step forward, after the product of h and r: one thread per unit, no shared memory.
template <Cell kCell, bool kLengths, class T>
__global__ void step_kernel(Layer p, ForwardTensors<T> t, Rows<T> rows, int64_t step) {
  constexpr int G = static_cast<int>(gates_of(kCell));
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= p.D * p.B * p.H) return;
  Unit u(p, index);
  if constexpr (kLengths) {
    u.steps = p.steps_of(u.b);
    if (step >= u.steps) {
      store_no_unit<kCell>(p, u, step, t);
      return;
    }
  }
  float rec[G], a[kSums<kCell>], kept[kKept<kCell>];
#pragma unroll
  for (int g = 0; g < G; ++g) rec[g] = float(rows.rec[((u.dir * p.B + u.b) * G + g) * p.H + u.j]);
  add_pre<kCell>(p, u, step, rows.pre, t.bias, rec, a);
  float c = kCell == Cell::lstm ? c_before(p, u, step, t) : 0;
  const float h = forward_unit<kCell>(a, h_before(p, u, step, t.y, t.h0), c, kept);
  store_unit<kCell>(p, u, step, t, h, kept);
  rows.state[index] = T(h);
  const bool last = step + 1 == u.steps;
  if (last) t.hT[index] = T(h);
  if (kCell == Cell::lstm && (last || !t.reserve)) t.cT[index] = T(c);
}

// One step backward: one thread per unit, no shared memory. The gradient of h has two parts: dh, which did not pass
// through the weights, and rows.state, which did. Both are (D, B, H), as dc.
template <Cell kCell, bool kLengths, class T>
__global__ void step_backward_kernel(Layer p, BackwardTensors<T> t, Rows<T> rows, float* dh, float* dc, int64_t step) {
  constexpr int G = static_cast<int>(gates_of(kCell));
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= p.D * p.B * p.H) return;
  Unit u(p, index);
  T* const da_step = rows.da_step + (u.dir * p.B + u.b) * G * p.H + u.j;
  if constexpr (kLengths) {
    u.steps = p.steps_of(u.b);
    if (step >= u.steps) {  // at this time in both directions: no gradients
      const float none[kSums<kCell>] = {};
      store_gradients<kCell>(p, u, step, rows, 0, none);
      for (int g = 0; g < G; ++g) da_step[g * p.H] = T(0.0f);
      return;
    }
  }
  const bool last = step + 1 == u.steps;
  float my_dh = last ? float(t.dhT[index]) : dh[index] + float(rows.state[index]), my_dc = 0, da[kSums<kCell>];
  if (kCell == Cell::lstm) my_dc = last ? float(t.dcT[index]) : dc[index];
  const float h = h_before(p, u, step, t.y, t.h0);
  backward_at<kCell>(p, u, step, t, h, my_dh, my_dc, da);
  store_gradients<kCell>(p, u, u.time(step), rows, h, da);
#pragma unroll
  for (int g = 0; g < G; ++g) da_step[g * p.H] = T(da[kCell == Cell::gru && g == 2 ? 3 % kSums<kCell> : g]);
  dh[index] = my_dh;
  if (kCell == Cell::lstm) dc[index] = my_dc;
}

// Gradients of the initial states: one thread per unit, no shared memory.
template <Cell kCell, class T>
__global__ void end_backward_kernel(Layer p, BackwardTensors<T> t, Rows<T> rows, const float* dh, const float* dc) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= p.D * p.B * p.H) return;
  t.dh0[index] = T(dh[index] + float(rows.state[index]));
  if (kCell == Cell::lstm) t.dc0[index] = T(dc[index]);
}

// Copies x, with zeros behind the last steps of the sequences: the gradients there are 0, and their products with x are
// to be 0 whatever it holds. One thread per element, no shared memory.
template <class T>
__global__ void without_padding_kernel(Layer p, const T* x, T* to) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= p.T * p.B * p.I) return;
  const int64_t time = index / p.I / p.B, b = index / p.I % p.B;
  to[index] = time < p.steps_of(b) ? x[index] : T(0.0f);
}

Grid unit_grid(const Layer& p, const GpuContext& gpu) {
  return {.blocks = ceil_div(p.units(), kThreads), .threads = kThreads, .stream = gpu.stream()};
}

// How the sequences are divided into slices, where a block processes all steps of one.
struct Slices {
  bool used;  // whether r and the states fit shared memory
  int rows;   // sequences of a thread: 4, so that a value of r is read once for all of them; 1 where there are few
  int64_t count;
  Slices(const Layer& p, int64_t G, const GpuContext& gpu) {
    const int64_t shared =
        (G * p.H * p.H + 2 * kRowBlocks * 4 * std::max<int64_t>(2, G) * p.H) * int64_t{sizeof(float)};
    used = p.H <= kMaxUnits && shared <= std::min(kMaxSharedBytes, gpu.shared_bytes());
    rows = p.D * ceil_div(p.B, kRowBlocks * 4) >= gpu.multiprocessors() ? 4 : 1;
    count = ceil_div(p.B, kRowBlocks * rows);
  }
  // Calls run.operator()<rows, lengths>().
  void choose(bool lengths, const auto& run) const {
    if (rows == 4)
      lengths ? run.template operator()<4, true>() : run.template operator()<4, false>();
    else
      lengths ? run.template operator()<1, true>() : run.template operator()<1, false>();
  }
  Grid grid(const Layer& p, int64_t shared_floats, const GpuContext& gpu) const {
    return {.blocks = p.D * count,
            .threads = {ceil_div(p.H, 32) * 32, kRowBlocks},
            .shared_bytes = shared_floats * int64_t{sizeof(float)},
            .stream = gpu.stream()};
  }
};

// For the plan.
const char* way_of(bool slices, bool by_steps) {
  return slices     ? "all steps in one launch"
         : by_steps ? "launches for every step"
                    : "all steps in one cooperative launch";
}

template <class P>
Plan plan(const P& p, GpuContext& gpu) {
  if (p.H == 0) return Unsupported{"no units"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Layer shape(p);
    const Slices slices(shape, P::G, gpu);
    const Divided of{P::G, p.H, P::has_c ? 1 : 0, kForwardRows<T>, false};
    const Division division = slices.used ? Division{} : divide<T>(shape, of, divided_kernel<P::kind, T>, gpu);
    const bool by_steps = !slices.used && division.rows == 0;
    constexpr int64_t kSize = sizeof(T);
    WorkspaceLayout workspace;
    const auto pre_piece = workspace.add<T>(p.T * shape.units() * P::G);
    const auto state = workspace.add<T>(by_steps ? shape.units() : 0);
    const auto rec = workspace.add<T>(by_steps ? shape.units() * P::G : 0);
    const auto arrived_piece = workspace.add<uint32_t>(division.rows > 0 ? 1 : 0);
    return Plan([p, shape, slices, division, pre_piece, state, rec, arrived_piece, &gpu](Args args) {
             const Layer layer = shape.in_run(p, args);
             const auto t = ForwardTensors<T>::of(p, args);
             T* const pre = args.workspace(pre_piece);
             if (p.T == 0) {
               gpu.copy_within(t.hT, t.h0, layer.units() * kSize);
               if (P::has_c) gpu.copy_within(t.cT, t.c0, layer.units() * kSize);
               return;
             }
             enqueue_product<T>({.m = p.T * p.B, .n = layer.D * P::G * p.H, .k = p.I, .trans_b = true}, t.x, t.w,
                                nullptr, pre, gpu);
             if (slices.used) {
               const auto run = [&]<int kRows, bool kLengths>() {
                 launch(slice_kernel<P::kind, kRows, kLengths, T>,
                        slices.grid(layer, P::G * p.H * p.H + 2 * kRowBlocks * kRows * p.H, gpu), layer, t, pre,
                        slices.count);
               };
               slices.choose(p.padded, run);
               return;
             }
             if (division.rows > 0) {
               uint32_t* const arrived = args.workspace(arrived_piece);
               gpu.fill_bytes(arrived, 0, sizeof *arrived);
               launch_cooperative(divided_kernel<P::kind, T>, divided_grid(layer, division, gpu), gpu, layer, t, pre,
                                  division, p.H % 4 == 0 && aligned16(t.y, t.h0), arrived);
               return;
             }
             const Rows<T> rows{.pre = pre,
                                .rec = args.workspace(rec),
                                .state = args.workspace(state),
                                .da_x = nullptr,
                                .da_h = nullptr,
                                .da_step = nullptr,
                                .h = nullptr};
             const Product by_r{.batch = layer.D, .m = p.B, .n = P::G * p.H, .k = p.H, .trans_b = true};
             for (int64_t step = 0; step < p.T; ++step) {
               enqueue_product<T>(by_r, step > 0 ? rows.state : t.h0, t.r, nullptr, rows.rec, gpu);
               launch(p.padded ? step_kernel<P::kind, true, T> : step_kernel<P::kind, false, T>, unit_grid(layer, gpu),
                      layer, t, rows, step);
             }
           })
        .with(way_of(slices.used, by_steps), std::move(workspace));
  });
}

// c = a' b for each matrix of the batch, a sum over `sum` rows of a and b. It is divided into parts where c has few
// tiles.
template <class T>
class LongProduct {
 public:
  LongProduct(int64_t batch, int64_t m, int64_t n, int64_t sum, GpuContext& gpu, WorkspaceLayout& workspace)
      : batch_(batch), m_(m), n_(n), sum_(sum), parts_(1) {
    const int64_t tiles = batch * ceil_div(m, 64) * ceil_div(n, 64);
    const int64_t wanted = std::min(2 * gpu.multiprocessors() / std::max<int64_t>(1, tiles), sum / 256);
    for (int64_t parts = wanted; parts > 1 && parts_ == 1; --parts)
      if (sum % parts == 0) parts_ = parts;
    if (parts_ == 1) return;
    partial_ = workspace.add<T>(parts_ * batch * m * n);
    add_.emplace(parts_, m * n, gpu, workspace);
  }
  // args: of the plan's run.
  void enqueue(const Args& args, const T* a, const T* b, T* c, GpuContext& gpu) const {
    T* to = parts_ > 1 ? args.workspace(partial_) : c;
    enqueue_product<T>({.batch = batch_ * parts_, .m = m_, .n = n_, .k = sum_ / parts_, .trans_a = true}, a, b, nullptr,
                       to, gpu);
    for (int64_t i = 0; parts_ > 1 && i < batch_; ++i)
      add_->enqueue(args, LoadColumns<T>{to + i * parts_ * m_ * n_, m_ * n_}, StoreSum<T>{c + i * m_ * n_});
  }

 private:
  int64_t batch_, m_, n_, sum_, parts_;
  WorkspacePiece<T> partial_;
  std::optional<ColumnSums<T>> add_;  // of the parts, where there are several
};

template <class P>
Plan plan_backward(const P& p, GpuContext& gpu) {
  if (p.H == 0) return Unsupported{"no units"};
  if (!ColumnSums<float>::supports(p.T * p.B)) return Unsupported{"more than 2^26 steps of sequences"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Layer shape(p);
    const Slices slices(shape, P::G, gpu);
    constexpr int64_t kSize = sizeof(T);
    const int64_t steps = p.T * p.B, units = shape.units(), D = shape.D;
    const bool one_da = D == 1 && P::kind != Cell::gru;  // da_x serves as da_h
    const Divided of{1, P::G * p.H, P::has_c ? 2 : 1, kBackwardRows<T>, true};
    const Division division = slices.used ? Division{} : divide<T>(shape, of, divided_backward_kernel<P::kind, T>, gpu);
    const bool by_steps = !slices.used && division.rows == 0;
    const int64_t stepwise = by_steps ? units : 0;  // only a launch for every step keeps states in memory
    WorkspaceLayout workspace;
    const auto da_x = workspace.add<T>(p.T * units * P::G), da_h = workspace.add<T>(one_da ? 0 : p.T * units * P::G);
    const auto h = workspace.add<T>(p.T * units);
    const auto da_step = workspace.add<T>(stepwise * P::G), state = workspace.add<T>(stepwise);
    const auto dh_piece = workspace.add<float>(stepwise), dc_piece = workspace.add<float>(stepwise);
    const auto arrived_piece = workspace.add<uint32_t>(division.rows > 0 ? 1 : 0);
    const auto bias_piece = workspace.add<T>(P::kind == Cell::gru ? D * P::G * p.H : 0);
    const auto x_piece = workspace.add<T>(p.padded ? steps * p.I : 0);
    const LongProduct<T> dw(1, D * P::G * p.H, p.I, steps, gpu, workspace);
    const LongProduct<T> dr(D, P::G * p.H, p.H, steps, gpu, workspace);
    const ColumnSums<T> sum_x(steps, D * P::G * p.H, gpu, workspace), sum_h(steps, P::G * p.H, gpu, workspace);
    return Plan([p, shape, slices, division, one_da, units, steps, da_x, da_h, h, da_step, state, dh_piece, dc_piece,
                 arrived_piece, bias_piece, x_piece, dw, dr, sum_x, sum_h, &gpu](Args args) {
             const Layer layer = shape.in_run(p, args);
             const auto t = BackwardTensors<T>::of(p, args);
             float *const dh = args.workspace(dh_piece), *const dc = args.workspace(dc_piece);
             T* const bias = args.workspace(bias_piece);
             const Rows<T> rows{.pre = nullptr,
                                .rec = nullptr,
                                .state = args.workspace(state),
                                .da_x = args.workspace(da_x),
                                .da_h = args.workspace(one_da ? da_x : da_h),
                                .da_step = args.workspace(da_step),
                                .h = args.workspace(h)};
             if (p.T == 0) {
               gpu.copy_within(t.dh0, t.dhT, units * kSize);
               if (P::has_c) gpu.copy_within(t.dc0, t.dcT, units * kSize);
             } else if (slices.used) {
               const auto run = [&]<int kRows, bool kLengths>() {
                 launch(slice_backward_kernel<P::kind, kRows, kLengths, T>,
                        slices.grid(layer, P::G * p.H * p.H + kRowBlocks * kRows * P::G * p.H, gpu), layer, t, rows,
                        slices.count);
               };
               slices.choose(p.padded, run);
             } else if (division.rows > 0) {
               uint32_t* const arrived = args.workspace(arrived_piece);
               gpu.fill_bytes(arrived, 0, sizeof *arrived);
               launch_cooperative(divided_backward_kernel<P::kind, T>, divided_grid(layer, division, gpu), gpu, layer,
                                  t, rows, division, P::G * p.H % 4 == 0, arrived);
             } else {
               for (int64_t step = p.T - 1; step >= 0; --step) {
                 launch(p.padded ? step_backward_kernel<P::kind, true, T> : step_backward_kernel<P::kind, false, T>,
                        unit_grid(layer, gpu), layer, t, rows, dh, dc, step);
                 enqueue_product<T>({.batch = layer.D, .m = p.B, .n = p.H, .k = P::G * p.H}, rows.da_step, t.r, nullptr,
                                    rows.state, gpu);
               }
               launch(end_backward_kernel<P::kind, T>, unit_grid(layer, gpu), layer, t, rows, dh, dc);
             }
             enqueue_product<T>({.m = steps, .n = p.I, .k = layer.D * P::G * p.H}, rows.da_x, t.w, nullptr, t.dx, gpu);
             const T* x = t.x;
             if (p.padded) {
               T* const copy = args.workspace(x_piece);
               launch(without_padding_kernel<T>,
                      {.blocks = ceil_div(steps * p.I, kThreads), .threads = kThreads, .stream = gpu.stream()}, layer,
                      t.x, copy);
               x = copy;
             }
             dw.enqueue(args, rows.da_x, x, t.dw, gpu);
             dr.enqueue(args, rows.da_h, rows.h, t.dr, gpu);
             const LoadColumns<T> all_da{rows.da_x, layer.D * P::G * p.H};
             if (P::kind != Cell::gru) return sum_x.enqueue(args, all_da, StoreSum<T>{t.dbias});
             sum_x.enqueue(args, all_da, StoreSum<T>{bias});
             for (int64_t dir = 0; dir < layer.D; ++dir) {  // dbias: (D, 2, G H)
               gpu.copy_within(t.dbias + 2 * dir * P::G * p.H, bias + dir * P::G * p.H, P::G * p.H * kSize);
               sum_h.enqueue(args, LoadColumns<T>{rows.da_h + dir * steps * P::G * p.H, P::G * p.H},
                             StoreSum<T>{t.dbias + (2 * dir + 1) * P::G * p.H});
             }
           })
        .with(way_of(slices.used, by_steps), std::move(workspace));
  });
}
DUET_RECURRENT(tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
