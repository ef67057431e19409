// SPDX-License-Identifier: Apache-2.0
// One launch per step and one thread per unit: the formulas as written. Weight gradients: one thread per element, over
// all steps. The baseline for recurrent_tuned.cu.
#include "kernels/recurrent/cell.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

Grid grid_of(int64_t elements, const GpuContext& gpu) {
  return {.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
}
__device__ int64_t my_element() { return int64_t{blockIdx.x} * kThreads + threadIdx.x; }

// All kernels here: ceil(elements / kThreads) blocks of kThreads, no shared memory. This one: a unit's step forward.
template <Cell kCell, class T>
__global__ void step_kernel(Layer p, ForwardTensors<T> t, int64_t step) {
  constexpr int G = static_cast<int>(gates_of(kCell));
  if (my_element() >= p.D * p.B * p.H) return;
  Unit u(p, my_element());
  u.steps = p.steps_of(u.b);
  if (step >= u.steps) {
    store_no_unit<kCell>(p, u, step, t);
    return;
  }
  const T* x = t.x + (u.time(step) * p.B + u.b) * p.I;
  const T* h = step > 0 ? t.y + u.y_row(p, step - 1) : t.h0 + (u.dir * p.B + u.b) * p.H;

  // Sums of the gates.
  float a[kSums<kCell>], kept[kKept<kCell>];
  for (int g = 0; g < G; ++g) {
    const int64_t row = u.dir * G * p.H + g * p.H + u.j;
    const int64_t at = kCell == Cell::gru ? row + u.dir * G * p.H : row;  // gru: two biases for each direction
    float from_x = 0, from_h = 0;
    for (int64_t i = 0; i < p.I; ++i) from_x += float(t.w[row * p.I + i]) * float(x[i]);
    for (int64_t i = 0; i < p.H; ++i) from_h += float(t.r[row * p.H + i]) * float(h[i]);
    from_x += float(t.bias[at]);
    if (kCell == Cell::gru) from_h += float(t.bias[at + G * p.H]);
    if (kCell == Cell::gru && g == 2) {
      a[2] = from_x;
      a[3 % kSums<kCell>] = from_h;
    } else {
      a[g] = from_x + from_h;
    }
  }

  // The unit, then write back.
  float c = kCell == Cell::lstm ? c_before(p, u, step, t) : 0;
  const float next = forward_unit<kCell>(a, float(h[u.j]), c, kept);
  store_unit<kCell>(p, u, step, t, next, kept);
  if (kCell == Cell::lstm && !t.reserve) t.cT[u.state(p)] = T(c);
}

// The last states, a thread per unit.
template <Cell kCell, class T>
__global__ void last_kernel(Layer p, ForwardTensors<T> t) {
  if (my_element() >= p.D * p.B * p.H) return;
  Unit u(p, my_element());
  u.steps = p.steps_of(u.b);
  t.hT[u.state(p)] = T(h_before(p, u, u.steps, t.y, t.h0));
  if constexpr (kCell == Cell::lstm) t.cT[u.state(p)] = T(c_before(p, u, u.steps, t));
}

template <class P>
Plan plan(const P& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, &gpu](Args args) {
      const Layer layer = Layer(p).in_run(p, args);
      const auto t = ForwardTensors<T>::of(p, args);
      for (int64_t step = 0; step < p.T; ++step)
        launch(step_kernel<P::kind, T>, grid_of(layer.units(), gpu), layer, t, step);
      launch(last_kernel<P::kind, T>, grid_of(layer.units(), gpu), layer, t);
    };
  });
}

// What the backward kernels pass on. da: (D, T, B, kSums, H), gradients of the sums. dh, dc: (D, B, H), from step to
// step.
struct Carried {
  float *da, *dh, *dc;
};
template <Cell kCell>
__device__ int64_t da_row(const Layer& p, const Unit& u, int64_t step) {
  return u.kept_row(p, step, kSums<kCell>);
}

// dh and dc after the last step, a thread per unit.
template <Cell kCell, class T>
__global__ void begin_kernel(Layer p, BackwardTensors<T> t, Carried carried) {
  const int64_t i = my_element();
  if (i >= p.D * p.B * p.H) return;
  carried.dh[i] = float(t.dhT[i]);
  if constexpr (kCell == Cell::lstm) carried.dc[i] = float(t.dcT[i]);
}

// The gradients of a unit's sums at a step.
template <Cell kCell, class T>
__global__ void gates_kernel(Layer p, BackwardTensors<T> t, Carried carried, int64_t step) {
  const int64_t index = my_element();
  if (index >= p.D * p.B * p.H) return;
  Unit u(p, index);
  u.steps = p.steps_of(u.b);
  if (step >= u.steps) {  // at this time in both directions: no gradient
    for (int i = 0; i < kSums<kCell>; ++i) carried.da[p.kept_row(u.dir, u.b, step, kSums<kCell>) + i * p.H + u.j] = 0;
    return;
  }
  float da[kSums<kCell>], dh = carried.dh[index], dc = kCell == Cell::lstm ? carried.dc[index] : 0;
  backward_at<kCell>(p, u, step, t, h_before(p, u, step, t.y, t.h0), dh, dc, da);
  carried.dh[index] = dh;
  if constexpr (kCell == Cell::lstm) carried.dc[index] = dc;
  for (int i = 0; i < kSums<kCell>; ++i) carried.da[da_row<kCell>(p, u, step) + i * p.H + u.j] = da[i];
}

// dh += r' da: the gradient of h before the step, through the weights.
template <Cell kCell, class T>
__global__ void carry_kernel(Layer p, BackwardTensors<T> t, Carried carried, int64_t step) {
  constexpr int G = static_cast<int>(gates_of(kCell));
  const int64_t index = my_element();
  if (index >= p.D * p.B * p.H) return;
  Unit u(p, index);
  u.steps = p.steps_of(u.b);
  if (step >= u.steps) return;
  const float* da = carried.da + da_row<kCell>(p, u, step);
  float sum = 0;
  for (int g = 0; g < G; ++g) {
    const int part = kCell == Cell::gru && g == 2 ? 3 : g;
    for (int64_t i = 0; i < p.H; ++i) sum += float(t.r[((u.dir * G + g) * p.H + i) * p.H + u.j]) * da[part * p.H + i];
  }
  carried.dh[index] += sum;
}

// dh0 and dc0, a thread per unit.
template <Cell kCell, class T>
__global__ void end_kernel(Layer p, BackwardTensors<T> t, Carried carried) {
  const int64_t i = my_element();
  if (i >= p.D * p.B * p.H) return;
  t.dh0[i] = T(carried.dh[i]);
  if constexpr (kCell == Cell::lstm) t.dc0[i] = T(carried.dc[i]);
}

// dx: a sum over gates and directions, a thread per element.
template <Cell kCell, class T>
__global__ void dx_kernel(Layer p, BackwardTensors<T> t, const float* da) {
  constexpr int G = static_cast<int>(gates_of(kCell));
  const int64_t index = my_element();
  if (index >= p.T * p.B * p.I) return;
  const int64_t i = index % p.I, row = index / p.I;
  float sum = 0;
  for (int64_t dir = 0; dir < p.D; ++dir)
    for (int64_t g = 0; g < G * p.H; ++g)
      sum += float(t.w[(dir * G * p.H + g) * p.I + i]) * da[(dir * p.T * p.B + row) * kSums<kCell> * p.H + g];
  t.dx[index] = T(sum);
}

// A thread per element of dw, dr and dbias: D G H rows of (I + H + biases) columns, which are those of dw, of dr, then
// the biases.
template <Cell kCell, class T>
__global__ void weights_kernel(Layer p, BackwardTensors<T> t, const float* da) {
  constexpr int G = static_cast<int>(gates_of(kCell)), kBiases = static_cast<int>(biases_of(kCell));
  const int64_t width = p.I + p.H + kBiases, index = my_element();
  if (index >= p.D * G * p.H * width) return;
  const int64_t row = index / width, column = index % width, dir = row / (G * p.H), gate = row / p.H % G, j = row % p.H;
  const bool from_h = column >= p.I && column != p.I + p.H;  // h, and the bias that is added to its product
  const int64_t part = kCell == Cell::gru && gate == 2 && from_h ? 3 : gate;
  float sum = 0;
  for (int64_t step = 0; step < p.T; ++step)
    for (int64_t b = 0; b < p.B; ++b) {
      const Unit u(dir, b, j, p.steps_of(b));
      if (step >= u.steps) continue;
      float other = 1;
      if (column < p.I)
        other = float(t.x[(u.time(step) * p.B + b) * p.I + column]);
      else if (column < p.I + p.H)
        other = float(step > 0 ? t.y[u.y_row(p, step - 1) + column - p.I] : t.h0[(dir * p.B + b) * p.H + column - p.I]);
      sum += da[da_row<kCell>(p, u, step) + part * p.H + j] * other;
    }
  if (column < p.I)
    t.dw[row * p.I + column] = T(sum);
  else if (column < p.I + p.H)
    t.dr[row * p.H + column - p.I] = T(sum);
  else
    t.dbias[((dir * kBiases + column - p.I - p.H) * G + gate) * p.H + j] = T(sum);
}

template <class P>
Plan plan_backward(const P& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Layer shape(p);
    WorkspaceLayout workspace;
    const auto da = workspace.add<float>(p.T * shape.units() * kSums<P::kind>);
    const auto dh = workspace.add<float>(shape.units()), dc = workspace.add<float>(shape.units());
    return Plan([p, shape, da, dh, dc, &gpu](Args args) {
             const Layer layer = shape.in_run(p, args);
             const auto t = BackwardTensors<T>::of(p, args);
             const Carried carried{args.workspace(da), args.workspace(dh), args.workspace(dc)};
             const Grid units = grid_of(layer.units(), gpu);
             launch(begin_kernel<P::kind, T>, units, layer, t, carried);
             for (int64_t step = p.T - 1; step >= 0; --step) {
               launch(gates_kernel<P::kind, T>, units, layer, t, carried, step);
               launch(carry_kernel<P::kind, T>, units, layer, t, carried, step);
             }
             launch(end_kernel<P::kind, T>, units, layer, t, carried);
             launch(dx_kernel<P::kind, T>, grid_of(p.T * p.B * p.I, gpu), layer, t, args.workspace(da));
             const int64_t weights = layer.D * P::G * p.H * (p.I + p.H + biases_of(P::kind));
             launch(weights_kernel<P::kind, T>, grid_of(weights, gpu), layer, t, args.workspace(da));
           })
        .with(std::move(workspace));
  });
}
DUET_RECURRENT(naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
