// SPDX-License-Identifier: Apache-2.0
// Stands in for cuDNN's recurrent layers, forward for inference, as Duet calls them: one layer without dropout, packed
// sequences of one length, two biases. The order of the weights in their space is the stand-in's own, and gates are
// numbered as cuDNN documents it (cudnnGetRNNWeightParams), so that the copies of Duet's host code are tested. Of its
// algorithms the standard one is supported.
#include <array>
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
  int64_t inputs = 0, units = 0, directions = 1;

  int64_t gates() const { return cell == CUDNN_LSTM ? 4 : cell == CUDNN_GRU ? 3 : 1; }
  // Elements from the beginning of the weight space. part: a gate's weights of the input, or behind all gates those of
  // the state. Each matrix is followed by its bias.
  int64_t matrix(int64_t direction, int64_t part) const {
    const int64_t of_input = units * inputs + units + 2 * kGap, of_state = units * units + units + 2 * kGap;
    return direction * gates() * (of_input + of_state) + std::min(part, gates()) * of_input +
           std::max<int64_t>(0, part - gates()) * of_state;
  }
  int64_t columns(int64_t part) const { return part < gates() ? inputs : units; }
  int64_t bias(int64_t direction, int64_t part) const { return matrix(direction, part) + units * columns(part) + kGap; }
  int64_t elements() const { return matrix(directions, 0); }
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

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Everything that a call of cudnnRNNForward is given.
struct Forward {
  Network net;
  int64_t T = 0, B = 0;
  const int32_t* lengths = nullptr;
  const void *x = nullptr, *h0 = nullptr, *c0 = nullptr, *weights = nullptr;
  void *y = nullptr, *hT = nullptr, *cT = nullptr;

  void run() const {
    const std::string call = "cudnnRNNForward, ";
    const int64_t H = net.units, I = net.inputs, G = net.gates(), D = net.directions;
    const Elements of_x(x, net.type, call + "x"), w(weights, net.type, call + "weights"),
        count(lengths, Element::i32, call + "lengths");
    Elements of_y(y, net.type, call + "y");
    for (int64_t b = 0; b < B; ++b)
      if (count.load(b) != static_cast<double>(T))
        throw duet::Error("cudnnRNNForward: length {} of sequence {} on the device, {} on the host", count.load(b), b,
                          T);
    for (int64_t d = 0; d < D; ++d)
      for (int64_t b = 0; b < B; ++b) {
        const auto state = [&](const void* from, const char* name) {
          std::vector<double> values(static_cast<size_t>(H));
          if (!from) return values;
          const Elements elements(from, net.type, call + name);
          for (int64_t u = 0; u < H; ++u) values[static_cast<size_t>(u)] = elements.load((d * B + b) * H + u);
          return values;
        };
        std::vector<double> h = state(h0, "h0"), c = state(net.cell == CUDNN_LSTM ? c0 : nullptr, "c0");
        std::vector<double> of_input(static_cast<size_t>(G * H)), of_state(of_input.size());
        for (int64_t step = 0; step < T; ++step) {
          const int64_t t = d == 0 ? step : T - 1 - step;
          for (int64_t g = 0; g < G; ++g)
            for (int64_t u = 0; u < H; ++u) {
              double in = w.load(net.bias(d, g) + u), back = w.load(net.bias(d, G + g) + u);
              for (int64_t i = 0; i < I; ++i)
                in += w.load(net.matrix(d, g) + u * I + i) * of_x.load((t * B + b) * I + i);
              for (int64_t k = 0; k < H; ++k)
                back += w.load(net.matrix(d, G + g) + u * H + k) * h[static_cast<size_t>(k)];
              of_input[static_cast<size_t>(g * H + u)] = in;
              of_state[static_cast<size_t>(g * H + u)] = back;
            }
          for (int64_t u = 0; u < H; ++u) {
            const auto in = [&](int64_t g) { return of_input[static_cast<size_t>(g * H + u)]; };
            const auto back = [&](int64_t g) { return of_state[static_cast<size_t>(g * H + u)]; };
            const auto both = [&](int64_t g) { return in(g) + back(g); };
            double& now = h[static_cast<size_t>(u)];
            if (net.cell == CUDNN_LSTM) {
              double& cell = c[static_cast<size_t>(u)];
              cell = sigmoid(both(1)) * cell + sigmoid(both(0)) * std::tanh(both(2));
              now = sigmoid(both(3)) * std::tanh(cell);
            } else if (net.cell == CUDNN_GRU) {
              const double r = sigmoid(both(0)), z = sigmoid(both(1));
              now = (1 - z) * std::tanh(in(2) + r * back(2)) + z * now;
            } else {
              now = std::tanh(both(0));
            }
          }
          for (int64_t u = 0; u < H; ++u) {
            const int64_t at = ((t * B + b) * D + d) * H + u;
            of_y.store(at, h[static_cast<size_t>(u)]);
            h[static_cast<size_t>(u)] = of_y.round(h[static_cast<size_t>(u)]);
          }
        }
        const auto leave = [&](void* to, const char* name, const std::vector<double>& values) {
          if (!to) return;
          Elements elements(to, net.type, call + name);
          for (int64_t u = 0; u < H; ++u) elements.store((d * B + b) * H + u, values[static_cast<size_t>(u)]);
        };
        leave(hT, "hT", h);
        if (net.cell == CUDNN_LSTM) leave(cT, "cT", c);
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
      input != CUDNN_LINEAR_INPUT || compute != CUDNN_DATA_FLOAT || projected != units || layers != 1 || flags != 0)
    return refuse_call(CUDNN_STATUS_NOT_SUPPORTED, "a recurrent layer that has no stand-in");
  networks[descriptor] = {cell, element_of(data), inputs, units, direction == CUDNN_BIDIRECTIONAL ? 2 : 1};
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
                                        cudnnRNNDataDescriptor_t, size_t* workspace, size_t* reserve) {
  return with_cudnn(handle, [&](CudnnHandle&) {
    network(descriptor);
    if (mode != CUDNN_FWD_MODE_INFERENCE) return refuse_cudnn("cudnnGetRNNTempSpaceSizes for training");
    *workspace = kWorkspaceBytes;
    *reserve = 0;
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, int32_t layer,
                                      size_t bytes, const void* weights, int32_t part,
                                      cudnnTensorDescriptor_t of_matrix, void** matrix, cudnnTensorDescriptor_t of_bias,
                                      void** bias) {
  return with_cudnn(handle, [&](CudnnHandle&) -> cudnnStatus_t {
    const Network& net = network(descriptor);
    if (layer < 0 || layer >= net.directions || part < 0 || part >= 2 * net.gates() ||
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
    const auto units = static_cast<int>(net.units), columns = static_cast<int>(net.columns(part));
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
                              const void* weights, size_t workspace_bytes, void* workspace, size_t, void*) {
  return with_cudnn(handle, [&](CudnnHandle& h) -> cudnnStatus_t {
    const Network& net = network(descriptor);
    const Sequences of_x(x_shape), of_y(y_shape);
    if (mode != CUDNN_FWD_MODE_INFERENCE || of_x.type != net.type || of_y.type != net.type ||
        of_x.features != net.inputs || of_y.features != net.directions * net.units || of_x.steps != of_y.steps ||
        of_x.batch != of_y.batch)
      return refuse_cudnn("cudnnRNNForward: sequences that do not fit the layer");
    if (weight_bytes < static_cast<size_t>(net.elements() * bytes_of(net.type)) || workspace_bytes < kWorkspaceBytes)
      return refuse_cudnn("cudnnRNNForward: too little memory");
    enqueue(h.stream,
            [workspace, forward = Forward{net, of_x.steps, of_x.batch, lengths, x, h0, c0, weights, y, hT, cT}] {
              spoil(workspace, kWorkspaceBytes, "cudnnRNNForward, workspace");
              forward.run();
            });
    return CUDNN_STATUS_SUCCESS;
  });
}
}
// NOLINTEND(readability-identifier-naming)
