// SPDX-License-Identifier: Apache-2.0
// Stands in for cuDNN's recurrent layers as Duet calls them, forward for inference and both passes of training: layers
// without dropout, packed sequences of one length, two biases. The order of the weights in their space is the
// stand-in's own, and gates are numbered as cuDNN documents it (cudnnGetRNNWeightParams), so that the copies of Duet's
// host code are tested. Of its algorithms the standard one is supported.
#include <array>
#include <initializer_list>
#include <iterator>
#include <map>
#include <vector>

#include "softgpu/libraries/cudnn.h"

namespace {
using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

constexpr size_t kWorkspaceBytes = 512;
// Between two parts of the weight space lie elements that belong to none: they stay unwritten, or as the caller has
// cleared them.
constexpr int64_t kGap = 3;

struct Network {
  cudnnRNNMode_t cell{};
  Element type = Element::f32;
  int64_t inputs = 0, units = 0, directions = 1, layers = 1;

  int64_t gates() const { return cell == CUDNN_LSTM ? 4 : cell == CUDNN_GRU ? 3 : 1; }
  // A direction of a layer has a number: cuDNN's pseudo-layer. features: of its input.
  int64_t numbers() const { return layers * directions; }
  bool is_first(int64_t number) const { return number < directions; }
  bool is_last(int64_t number) const { return number >= numbers() - directions; }
  bool is_ahead(int64_t number) const { return number % directions == 0; }
  int64_t features(int64_t number) const { return is_first(number) ? inputs : directions * units; }
  // Elements from the beginning of the weight space. part: a gate's weights of the input, or behind all gates those of
  // the state. Each matrix is followed by its bias.
  int64_t matrix(int64_t number, int64_t part) const {
    const auto size = [&](int64_t columns) { return units * columns + units + 2 * kGap; };
    const auto sizes = [&](int64_t of) { return gates() * (size(features(of)) + size(units)); };
    const int64_t above = std::max<int64_t>(0, number - directions);
    return (number - above) * sizes(0) + above * sizes(directions) + std::min(part, gates()) * size(features(number)) +
           std::max<int64_t>(0, part - gates()) * size(units);
  }
  int64_t columns(int64_t number, int64_t part) const { return part < gates() ? features(number) : units; }
  int64_t bias(int64_t number, int64_t part) const {
    return matrix(number, part) + units * columns(number, part) + kGap;
  }
  int64_t elements() const { return matrix(numbers(), 0); }

  // The reserve of training, in doubles. For each number, step and sequence kParts parts of the units: what the
  // forward pass keeps (h; then lstm: i f g o c; gru: r z n and m, the sum that r multiplies; rnn_tanh: h once more),
  // then what the backward pass adds, the gradients of the gates' sums of x, and in gru that of m.
  static constexpr int64_t kState = 0, kCell = 1, kGradients = 6, kParts = 10;
  int64_t kept(int64_t number, int64_t steps, int64_t batch, int64_t step, int64_t sequence, int64_t part) const {
    return (((number * steps + step) * batch + sequence) * kParts + part) * units;
  }
  size_t reserve_bytes(int64_t steps, int64_t batch) const {
    return static_cast<size_t>(kept(numbers(), steps, batch, 0, 0, 0)) * sizeof(double);
  }
};
std::map<cudnnRNNDescriptor_t, Network> networks;

const Network& network(cudnnRNNDescriptor_t descriptor) {
  const auto found = networks.find(descriptor);
  if (found == networks.end()) throw duet::Error("cuDNN's stand-in: a recurrent layer that was not set");
  return found->second;
}

struct Sequences {
  Element type = Element::f32;
  int steps = 0, batch = 0, features = 0;
  explicit Sequences(cudnnRNNDataDescriptor_t descriptor) {
    cudnnDataType_t data;
    cudnnRNNDataLayout_t layout;
    float fill = 0;
    std::array<int, 1024> lengths{};
    if (cudnnGetRNNDataDescriptor(descriptor, &data, &layout, &steps, &batch, &features,
                                  static_cast<int>(lengths.size()), lengths.data(), &fill) != CUDNN_STATUS_SUCCESS ||
        layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED || batch > static_cast<int>(lengths.size()))
      throw duet::Error("cuDNN's stand-in: these sequences");
    for (int b = 0; b < batch; ++b)
      if (lengths[static_cast<size_t>(b)] != steps) throw duet::Error("cuDNN's stand-in: sequences of several lengths");
    type = element_of(data);
  }
};

// Whether the sequences of x and y are those of the layer.
bool fit(const Network& net, const Sequences& x, const Sequences& y) {
  return x.type == net.type && y.type == net.type && x.features == net.inputs &&
         y.features == net.directions * net.units && x.steps == y.steps && x.batch == y.batch;
}
// The lengths on the device have to be those of the sequences.
void check_lengths(const int32_t* lengths, int64_t steps, int64_t batch, const std::string& call) {
  const Elements count(lengths, Element::i32, call + "lengths");
  for (int64_t b = 0; b < batch; ++b)
    if (count.load(b) != static_cast<double>(steps))
      throw duet::Error("{}length {} of sequence {} on the device, {} on the host", call, count.load(b), b, steps);
}

// reserve: null for inference.
bool is_enough(const Network& net, const Sequences& x, size_t weights, size_t workspace, const size_t* reserve) {
  return weights >= static_cast<size_t>(net.elements() * bytes_of(net.type)) && workspace >= kWorkspaceBytes &&
         (reserve == nullptr || *reserve >= net.reserve_bytes(x.steps, x.batch));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Everything that a call of cudnnRNNForward is given.
struct Forward {
  Network net;
  int64_t T = 0, B = 0;
  const int32_t* lengths = nullptr;
  const void *x = nullptr, *h0 = nullptr, *c0 = nullptr, *weights = nullptr;
  void *y = nullptr, *hT = nullptr, *cT = nullptr, *reserve = nullptr;  // reserve: of training

  void run() const {
    const std::string call = "cudnnRNNForward, ";
    const Elements of_x(x, net.type, call + "x");
    check_lengths(lengths, T, B, call);
    std::vector<double> values;  // of a layer's input, then of its output
    for (int64_t i = 0; i < T * B * net.inputs; ++i) values.push_back(of_x.load(i));
    for (int64_t layer = 0; layer < net.layers; ++layer) {
      std::vector<double> output(static_cast<size_t>(T * B * net.directions * net.units));
      for (int64_t d = 0; d < net.directions; ++d) run(layer * net.directions + d, values, output, call);
      values = std::move(output);
    }
    Elements of_y(y, net.type, call + "y");
    for (size_t i = 0; i < values.size(); ++i) of_y.store(static_cast<int64_t>(i), values[i]);
  }
  // A direction of a layer. input, output: as x and y; the output is rounded.
  void run(int64_t number, const std::vector<double>& input, std::vector<double>& output,
           const std::string& call) const {
    const int64_t H = net.units, I = net.features(number), G = net.gates(), D = net.directions, d = number % D;
    const Elements w(weights, net.type, call + "weights");
    for (int64_t b = 0; b < B; ++b) {
      const auto state = [&](const void* from, const char* name) {
        std::vector<double> values(static_cast<size_t>(H));
        if (!from) return values;
        const Elements elements(from, net.type, call + name);
        for (int64_t u = 0; u < H; ++u) values[static_cast<size_t>(u)] = elements.load((number * B + b) * H + u);
        return values;
      };
      std::vector<double> h = state(h0, "h0"), c = state(net.cell == CUDNN_LSTM ? c0 : nullptr, "c0");
      std::vector<double> of_input(static_cast<size_t>(G * H)), of_state(of_input.size());
      for (int64_t step = 0; step < T; ++step) {
        const int64_t t = net.is_ahead(number) ? step : T - 1 - step;
        for (int64_t g = 0; g < G; ++g)
          for (int64_t u = 0; u < H; ++u) {
            double in = w.load(net.bias(number, g) + u), back = w.load(net.bias(number, G + g) + u);
            for (int64_t i = 0; i < I; ++i)
              in += w.load(net.matrix(number, g) + u * I + i) * input[static_cast<size_t>((t * B + b) * I + i)];
            for (int64_t k = 0; k < H; ++k)
              back += w.load(net.matrix(number, G + g) + u * H + k) * h[static_cast<size_t>(k)];
            of_input[static_cast<size_t>(g * H + u)] = in;
            of_state[static_cast<size_t>(g * H + u)] = back;
          }
        for (int64_t u = 0; u < H; ++u) {
          const auto keep = [&](int64_t first, std::initializer_list<double> values) {
            if (!reserve) return;
            Elements kept(reserve, Element::f64, call + "reserve");
            for (int64_t part = 0; part < std::ssize(values); ++part)
              kept.store(net.kept(number, T, B, t, b, first + part) + u, values.begin()[part]);
          };
          const auto in = [&](int64_t g) { return of_input[static_cast<size_t>(g * H + u)]; };
          const auto back = [&](int64_t g) { return of_state[static_cast<size_t>(g * H + u)]; };
          const auto both = [&](int64_t g) { return in(g) + back(g); };
          double& now = h[static_cast<size_t>(u)];
          if (net.cell == CUDNN_LSTM) {
            double& cell = c[static_cast<size_t>(u)];
            const double i = sigmoid(both(0)), f = sigmoid(both(1)), g = std::tanh(both(2)), o = sigmoid(both(3));
            cell = f * cell + i * g;
            now = o * std::tanh(cell);
            keep(Network::kCell, {i, f, g, o, cell});
          } else if (net.cell == CUDNN_GRU) {
            const double r = sigmoid(both(0)), z = sigmoid(both(1)), n = std::tanh(in(2) + r * back(2));
            now = (1 - z) * n + z * now;
            keep(Network::kCell, {r, z, n, back(2)});
          } else {
            now = std::tanh(both(0));
            keep(Network::kCell, {now});
          }
          now = w.round(now);
          keep(Network::kState, {now});
          output[static_cast<size_t>(((t * B + b) * D + d) * H + u)] = now;
        }
      }
      const auto leave = [&](void* to, const char* name, const std::vector<double>& values) {
        if (!to) return;
        Elements elements(to, net.type, call + name);
        for (int64_t u = 0; u < H; ++u) elements.store((number * B + b) * H + u, values[static_cast<size_t>(u)]);
      };
      leave(hT, "hT", h);
      if (net.cell == CUDNN_LSTM) leave(cT, "cT", c);
    }
  }
};

// What both calls of the backward pass are given. The gradients of the gates go from one to the other in the reserve.
struct Backward {
  Network net;
  int64_t T = 0, B = 0;
  const int32_t* lengths = nullptr;
  const void *x = nullptr, *y = nullptr, *dy = nullptr, *h0 = nullptr, *c0 = nullptr, *dhT = nullptr, *dcT = nullptr,
             *weights = nullptr;
  void *dx = nullptr, *dh0 = nullptr, *dc0 = nullptr, *dweights = nullptr, *reserve = nullptr;

  Elements of_reserve(const std::string& call) const { return {reserve, Element::f64, call + "reserve"}; }
  // Where a gate's gradient of a unit lies in it.
  int64_t gradient(int64_t number, int64_t t, int64_t b, int64_t gate, int64_t u) const {
    return net.kept(number, T, B, t, b, Network::kGradients + gate) + u;
  }
  // The gate's gradient that goes to the state: in gru that of m.
  int64_t of_state(int64_t gate) const { return net.cell == CUDNN_GRU && gate == 2 ? 3 : gate; }
  int64_t time(int64_t number, int64_t step) const { return net.is_ahead(number) ? step : T - 1 - step; }
  int64_t y_at(int64_t number, int64_t t, int64_t b) const {
    return ((t * B + b) * net.directions + number % net.directions) * net.units;
  }
  // The state after a step: y of the last layer is given, that of the others is kept.
  double h_at(const Elements& of_y, const Elements& kept, int64_t number, int64_t t, int64_t b, int64_t u) const {
    if (net.is_last(number)) return of_y.load(y_at(number, t, b) + u);
    return kept.load(net.kept(number, T, B, t, b, Network::kState) + u);
  }
  double h_before(const Elements& of_y, const Elements& kept, const Elements& of_h0, int64_t number, int64_t step,
                  int64_t b, int64_t u) const {
    return step > 0 ? h_at(of_y, kept, number, time(number, step - 1), b, u)
                    : of_h0.load((number * B + b) * net.units + u);
  }

  void run_data() const {
    const std::string call = "cudnnRNNBackwardData_v8, ";
    const Elements of_dy(dy, net.type, call + "dy");
    check_lengths(lengths, T, B, call);
    Elements to_x(dx, net.type, call + "dx");
    std::vector<double> gradients;  // of a layer's output, then of its input
    for (int64_t i = 0; i < T * B * net.directions * net.units; ++i) gradients.push_back(of_dy.load(i));
    for (int64_t layer = net.layers - 1; layer >= 0; --layer) {
      const int64_t first = layer * net.directions;
      std::vector<double> sums(static_cast<size_t>(T * B * net.features(first)));
      for (int64_t d = 0; d < net.directions; ++d) run_data(first + d, gradients, sums, call);
      for (double& sum : sums) sum = to_x.round(sum);
      gradients = std::move(sums);
    }
    for (size_t i = 0; i < gradients.size(); ++i) to_x.store(static_cast<int64_t>(i), gradients[i]);
  }
  // A direction of a layer, which adds to the gradients of its input.
  void run_data(int64_t number, const std::vector<double>& output, std::vector<double>& input,
                const std::string& call) const {
    const int64_t H = net.units, I = net.features(number), G = net.gates();
    const Elements w(weights, net.type, call + "weights"), of_y(y, net.type, call + "y"),
        of_h0(h0, net.type, call + "h0"), of_dhT(dhT, net.type, call + "dhT");
    Elements to_h0(dh0, net.type, call + "dh0"), kept = of_reserve(call);
    for (int64_t b = 0; b < B; ++b) {
      const auto state = [&](int64_t u) { return (number * B + b) * H + u; };
      std::vector<double> dh(static_cast<size_t>(H)), dc(dh.size());
      for (int64_t u = 0; u < H; ++u) {
        dh[static_cast<size_t>(u)] = of_dhT.load(state(u));
        if (net.cell == CUDNN_LSTM) dc[static_cast<size_t>(u)] = Elements(dcT, net.type, call + "dcT").load(state(u));
      }
      for (int64_t step = T - 1; step >= 0; --step) {
        const int64_t t = time(number, step);
        for (int64_t u = 0; u < H; ++u) {
          double &now = dh[static_cast<size_t>(u)], &cell = dc[static_cast<size_t>(u)];
          now += output[static_cast<size_t>(y_at(number, t, b) + u)];
          gates(kept, number, step, b, u, h_before(of_y, kept, of_h0, number, step, b, u), now, cell);
        }
        for (int64_t g = 0; g < G; ++g)
          for (int64_t u = 0; u < H; ++u) {
            const double da = kept.load(gradient(number, t, b, g, u)),
                         dm = kept.load(gradient(number, t, b, of_state(g), u));
            for (int64_t i = 0; i < I; ++i)
              input[static_cast<size_t>((t * B + b) * I + i)] += w.load(net.matrix(number, g) + u * I + i) * da;
            for (int64_t k = 0; k < H; ++k)
              dh[static_cast<size_t>(k)] += w.load(net.matrix(number, G + g) + u * H + k) * dm;
          }
      }
      for (int64_t u = 0; u < H; ++u) {
        to_h0.store(state(u), dh[static_cast<size_t>(u)]);
        if (net.cell == CUDNN_LSTM) Elements(dc0, net.type, call + "dc0").store(state(u), dc[static_cast<size_t>(u)]);
      }
    }
  }
  // The gradients of a unit's gates at a step. dh becomes what goes to the state before without the weights.
  void gates(Elements& kept, int64_t number, int64_t step, int64_t b, int64_t u, double h, double& dh,
             double& dc) const {
    const int64_t t = time(number, step);
    const auto put = [&](int64_t gate, double value) { kept.store(gradient(number, t, b, gate, u), value); };
    const auto at = [&](int64_t part) { return kept.load(net.kept(number, T, B, t, b, Network::kCell + part) + u); };
    if (net.cell == CUDNN_LSTM) {
      const double i = at(0), f = at(1), g = at(2), o = at(3), tanh_c = std::tanh(at(4));
      const double before =
          step > 0 ? kept.load(net.kept(number, T, B, time(number, step - 1), b, Network::kCell + 4) + u)
                   : Elements(c0, net.type, "cudnnRNNBackwardData_v8, c0").load((number * B + b) * net.units + u);
      const double total = dc + dh * o * (1 - tanh_c * tanh_c);
      put(0, total * g * i * (1 - i));
      put(1, total * before * f * (1 - f));
      put(2, total * i * (1 - g * g));
      put(3, dh * tanh_c * o * (1 - o));
      dc = total * f;
      dh = 0;
    } else if (net.cell == CUDNN_GRU) {
      const double r = at(0), z = at(1), n = at(2), m = at(3), dn = dh * (1 - z) * (1 - n * n);
      put(0, dn * m * r * (1 - r));
      put(1, dh * (h - n) * z * (1 - z));
      put(2, dn);
      put(3, dn * r);
      dh *= z;
    } else {
      put(0, dh * (1 - at(0) * at(0)));
      dh = 0;
    }
  }

  void run_weights() const {
    const std::string call = "cudnnRNNBackwardWeights_v8, ";
    const int64_t H = net.units, G = net.gates();
    const Elements of_x(x, net.type, call + "x"), of_y(y, net.type, call + "y"), of_h0(h0, net.type, call + "h0");
    check_lengths(lengths, T, B, call);
    const Elements kept = of_reserve(call);
    const auto input = [&](int64_t number, int64_t t, int64_t b, int64_t i) {
      if (net.is_first(number)) return of_x.load((t * B + b) * net.inputs + i);
      return h_at(of_y, kept, (number / net.directions - 1) * net.directions + i / H, t, b, i % H);
    };
    Elements to(dweights, net.type, call + "gradients of weights");
    for (int64_t number = 0; number < net.numbers(); ++number)
      for (int64_t part = 0; part < 2 * G; ++part) {
        const bool from_state = part >= G;
        const int64_t gate = from_state ? of_state(part - G) : part;
        for (int64_t u = 0; u < H; ++u) {
          const int64_t columns = net.columns(number, part);
          for (int64_t k = 0; k <= columns; ++k) {  // the last one is the bias
            double sum = 0;
            for (int64_t step = 0; step < T; ++step)
              for (int64_t b = 0; b < B; ++b) {
                const int64_t t = time(number, step);
                const double other = k == columns ? 1
                                     : from_state ? h_before(of_y, kept, of_h0, number, step, b, k)
                                                  : input(number, t, b, k);
                sum += kept.load(gradient(number, t, b, gate, u)) * other;
              }
            const int64_t at = k == columns ? net.bias(number, part) + u : net.matrix(number, part) + u * columns + k;
            to.store(at, to.load(at) + sum);
          }
        }
      }
  }
};
}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t handle, float dropout, void*, size_t,
                                        unsigned long long) {
  return with_cudnn(handle, [&](CudnnHandle&) {
    return dropout == 0 ? CUDNN_STATUS_SUCCESS : refuse_cudnn("cudnnSetDropoutDescriptor with dropout");
  });
}
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t cell,
                                       cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction,
                                       cudnnRNNInputMode_t input, cudnnDataType_t data, cudnnDataType_t compute,
                                       cudnnMathType_t, int32_t inputs, int32_t units, int32_t projected,
                                       int32_t layers, cudnnDropoutDescriptor_t, uint32_t flags) {
  if (algorithm != CUDNN_RNN_ALGO_STANDARD) return CUDNN_STATUS_NOT_SUPPORTED;
  if ((cell != CUDNN_LSTM && cell != CUDNN_GRU && cell != CUDNN_RNN_TANH) || bias != CUDNN_RNN_DOUBLE_BIAS ||
      input != CUDNN_LINEAR_INPUT || compute != CUDNN_DATA_FLOAT || projected != units || layers < 1 || flags != 0)
    return refuse_call(CUDNN_STATUS_NOT_SUPPORTED, "a recurrent layer that has no stand-in");
  networks[descriptor] = {cell, element_of(data), inputs, units, direction == CUDNN_BIDIRECTIONAL ? 2 : 1, layers};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, size_t* bytes) {
  return with_cudnn(handle, [&](CudnnHandle&) {
    const Network& net = network(descriptor);
    *bytes = static_cast<size_t>(net.elements() * bytes_of(net.type));
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, cudnnForwardMode_t mode,
                                        cudnnRNNDataDescriptor_t x_shape, size_t* workspace, size_t* reserve) {
  return with_cudnn(handle, [&](CudnnHandle&) {
    const Sequences of_x(x_shape);
    *workspace = kWorkspaceBytes;
    *reserve = mode == CUDNN_FWD_MODE_INFERENCE ? 0 : network(descriptor).reserve_bytes(of_x.steps, of_x.batch);
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, int32_t layer,
                                      size_t bytes, const void* weights, int32_t part,
                                      cudnnTensorDescriptor_t of_matrix, void** matrix, cudnnTensorDescriptor_t of_bias,
                                      void** bias) {
  return with_cudnn(handle, [&](CudnnHandle&) -> cudnnStatus_t {
    const Network& net = network(descriptor);
    if (layer < 0 || layer >= net.numbers() || part < 0 || part >= 2 * net.gates() ||
        bytes < static_cast<size_t>(net.elements() * bytes_of(net.type)))
      return refuse_cudnn(fmt::format("cudnnGetRNNWeightParams of layer {}, part {}", layer, part));
    const auto place = [&](int64_t element) {
      return const_cast<char*>(static_cast<const char*>(weights)) + element * bytes_of(net.type);
    };
    *matrix = place(net.matrix(layer, part));
    *bias = place(net.bias(layer, part));
    const auto type = net.type == Element::f32    ? CUDNN_DATA_FLOAT
                      : net.type == Element::bf16 ? CUDNN_DATA_BFLOAT16
                                                  : CUDNN_DATA_HALF;
    const auto units = static_cast<int>(net.units), columns = static_cast<int>(net.columns(layer, part));
    const int dims[] = {1, units, columns}, strides[] = {units * columns, columns, 1}, bias_dims[] = {1, units, 1},
              bias_strides[] = {units, 1, 1};
    const cudnnStatus_t status = cudnnSetTensorNdDescriptor(of_matrix, type, 3, dims, strides);
    return status != CUDNN_STATUS_SUCCESS ? status
                                          : cudnnSetTensorNdDescriptor(of_bias, type, 3, bias_dims, bias_strides);
  });
}
cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, cudnnForwardMode_t mode,
                              const int32_t* lengths, cudnnRNNDataDescriptor_t x_shape, const void* x,
                              cudnnRNNDataDescriptor_t y_shape, void* y, cudnnTensorDescriptor_t, const void* h0,
                              void* hT, cudnnTensorDescriptor_t, const void* c0, void* cT, size_t weight_bytes,
                              const void* weights, size_t workspace_bytes, void* workspace, size_t reserve_bytes,
                              void* reserve) {
  return with_cudnn(handle, [&](CudnnHandle& h) -> cudnnStatus_t {
    const Network& net = network(descriptor);
    const Sequences of_x(x_shape), of_y(y_shape);
    if (!fit(net, of_x, of_y)) return refuse_cudnn("cudnnRNNForward: sequences that do not fit the layer");
    const bool training = mode == CUDNN_FWD_MODE_TRAINING;
    if (!is_enough(net, of_x, weight_bytes, workspace_bytes, training ? &reserve_bytes : nullptr))
      return refuse_cudnn("cudnnRNNForward: too little memory");
    enqueue(h.stream, [workspace, forward = Forward{net, of_x.steps, of_x.batch, lengths, x, h0, c0, weights, y, hT, cT,
                                                    training ? reserve : nullptr}] {
      spoil(workspace, kWorkspaceBytes, "cudnnRNNForward, workspace");
      forward.run();
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, const int32_t* lengths,
                                      cudnnRNNDataDescriptor_t y_shape, const void* y, const void* dy,
                                      cudnnRNNDataDescriptor_t x_shape, void* dx, cudnnTensorDescriptor_t,
                                      const void* h0, const void* dhT, void* dh0, cudnnTensorDescriptor_t,
                                      const void* c0, const void* dcT, void* dc0, size_t weight_bytes,
                                      const void* weights, size_t workspace_bytes, void* workspace,
                                      size_t reserve_bytes, void* reserve) {
  return with_cudnn(handle, [&](CudnnHandle& h) -> cudnnStatus_t {
    const Network& net = network(descriptor);
    const Sequences of_x(x_shape), of_y(y_shape);
    if (!fit(net, of_x, of_y)) return refuse_cudnn("cudnnRNNBackwardData_v8: sequences that do not fit the layer");
    if (!is_enough(net, of_x, weight_bytes, workspace_bytes, &reserve_bytes))
      return refuse_cudnn("cudnnRNNBackwardData_v8: too little memory");
    enqueue(h.stream, [workspace, backward = Backward{.net = net,
                                                      .T = of_y.steps,
                                                      .B = of_y.batch,
                                                      .lengths = lengths,
                                                      .y = y,
                                                      .dy = dy,
                                                      .h0 = h0,
                                                      .c0 = c0,
                                                      .dhT = dhT,
                                                      .dcT = dcT,
                                                      .weights = weights,
                                                      .dx = dx,
                                                      .dh0 = dh0,
                                                      .dc0 = dc0,
                                                      .reserve = reserve}] {
      spoil(workspace, kWorkspaceBytes, "cudnnRNNBackwardData_v8, workspace");
      backward.run_data();
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, cudnnWgradMode_t mode,
                                         const int32_t* lengths, cudnnRNNDataDescriptor_t x_shape, const void* x,
                                         cudnnTensorDescriptor_t, const void* h0, cudnnRNNDataDescriptor_t y_shape,
                                         const void* y, size_t weight_bytes, void* dweights, size_t workspace_bytes,
                                         void* workspace, size_t reserve_bytes, void* reserve) {
  return with_cudnn(handle, [&](CudnnHandle& h) -> cudnnStatus_t {
    const Network& net = network(descriptor);
    const Sequences of_x(x_shape), of_y(y_shape);
    if (!fit(net, of_x, of_y)) return refuse_cudnn("cudnnRNNBackwardWeights_v8: sequences that do not fit the layer");
    if (mode != CUDNN_WGRAD_MODE_ADD) return refuse_cudnn("cudnnRNNBackwardWeights_v8 that does not add");
    if (!is_enough(net, of_x, weight_bytes, workspace_bytes, &reserve_bytes))
      return refuse_cudnn("cudnnRNNBackwardWeights_v8: too little memory");
    enqueue(h.stream, [workspace, backward = Backward{.net = net,
                                                      .T = of_x.steps,
                                                      .B = of_x.batch,
                                                      .lengths = lengths,
                                                      .x = x,
                                                      .y = y,
                                                      .h0 = h0,
                                                      .dweights = dweights,
                                                      .reserve = reserve}] {
      spoil(workspace, kWorkspaceBytes, "cudnnRNNBackwardWeights_v8, workspace");
      backward.run_weights();
    });
    return CUDNN_STATUS_SUCCESS;
  });
}
}
// NOLINTEND(readability-identifier-naming)
