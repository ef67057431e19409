// SPDX-License-Identifier: Apache-2.0
// cuDNN's recurrent layers, forward, and both passes as one problem, also of several layers: their reserve is opaque,
// so that a pass by itself is served only where the contract has no reserve. All sequences have T steps, so x is
// already in cuDNN's packed layout. cuDNN takes the weights in one space with an order of its own, and leaves their
// gradients in another: each run copies them there and back. The algorithm is chosen when the plan is made, by
// running all that cuDNN supports.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/cuda/cudnn.h"
#include "core/error.h"
#include "ops/recurrent/recurrent_training.h"

namespace duet::cuda {
namespace {

using RnnDescriptor = Owned<cudnnRNNDescriptor_t, &cudnnDestroyRNNDescriptor>;
using RnnData = Owned<cudnnRNNDataDescriptor_t, &cudnnDestroyRNNDataDescriptor>;
using Dropout = Owned<cudnnDropoutDescriptor_t, &cudnnDestroyDropoutDescriptor>;
using TensorNd = Owned<cudnnTensorDescriptor_t, &cudnnDestroyTensorDescriptor>;

template <Cell kCell>
constexpr cudnnRNNMode_t kCellMode = kCell == Cell::lstm  ? CUDNN_LSTM
                                     : kCell == Cell::gru ? CUDNN_GRU
                                                          : CUDNN_RNN_TANH;

// cuDNN's number of a gate. lstm: i f g o, as here. gru: r z n, here z r n.
template <Cell kCell>
constexpr int32_t gate_of(int64_t gate) {
  return static_cast<int32_t>(kCell == Cell::gru && gate < 2 ? 1 - gate : gate);
}

// A part of w, r or bias and its place in the weight space; offsets and sizes in bytes.
struct Copy {
  Slot from;
  int64_t at, to, bytes;
};

RnnData sequences(DType dtype, int64_t T, int64_t B, int64_t features) {
  RnnData d;
  const std::vector<int> lengths(static_cast<size_t>(B), static_cast<int>(T));
  DUET_CUDNN(cudnnCreateRNNDataDescriptor(d.out()));
  DUET_CUDNN(cudnnSetRNNDataDescriptor(d.get(), cudnn_dtype(dtype), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                       static_cast<int>(T), static_cast<int>(B), static_cast<int>(features),
                                       lengths.data(), nullptr));
  return d;
}

template <class P>
int64_t layers_of(const P& p) {
  if constexpr (requires { p.layers; }) return p.layers;
  return 1;
}

// Layers with one of cuDNN's algorithms: descriptors, weight space, workspace.
template <class P>
class Network {
 public:
  static constexpr bool kTraining = requires { P::dx; };
  Network(const P& p, GpuContext& gpu, cudnnRNNAlgo_t algorithm)
      : gpu_(&gpu),
        handle_(gpu.cudnn()),
        x_(sequences(p.dtype, p.T, p.B, p.I)),
        y_(sequences(p.dtype, p.T, p.B, p.directions() * p.H)) {
    const int state[] = {static_cast<int>(layers_of(p) * p.directions()), static_cast<int>(p.B), static_cast<int>(p.H)};
    const int strides[] = {state[1] * state[2], state[2], 1};
    DUET_CUDNN(cudnnCreateTensorDescriptor(state_.out()));
    DUET_CUDNN(cudnnSetTensorNdDescriptor(state_.get(), cudnn_dtype(p.dtype), 3, state, strides));
    DUET_CUDNN(cudnnCreateDropoutDescriptor(dropout_.out()));
    DUET_CUDNN(cudnnSetDropoutDescriptor(dropout_.get(), handle_, 0, nullptr, 0, 0));
    DUET_CUDNN(cudnnCreateRNNDescriptor(rnn_.out()));
    status_ = cudnnSetRNNDescriptor_v8(
        rnn_.get(), algorithm, kCellMode<P::kind>,
        CUDNN_RNN_DOUBLE_BIAS,  // the only mode of the persistent algorithms
        p.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, cudnn_dtype(p.dtype),
        CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, static_cast<int32_t>(p.I), static_cast<int32_t>(p.H),
        static_cast<int32_t>(p.H), static_cast<int32_t>(layers_of(p)), dropout_.get(), CUDNN_RNN_PADDED_IO_DISABLED);
    size_t weights = 0, workspace = 0, reserve = 0;  // reserve: of training
    if (good()) status_ = cudnnGetRNNWeightSpaceSize(handle_, rnn_.get(), &weights);
    if (good()) status_ = cudnnGetRNNTempSpaceSizes(handle_, rnn_.get(), kMode, x_.get(), &workspace, &reserve);
    if (!good()) return;
    weights_ = Buffer(gpu, static_cast<int64_t>(weights));
    gpu.fill_bytes(weights_.data(), 0, weights_.bytes());  // the second bias of lstm and rnn_tanh stays 0
    piece_ = workspace_.add_bytes(static_cast<int64_t>(workspace));
    reserve_ = workspace_.add_bytes(kTraining ? static_cast<int64_t>(reserve) : 0);
    gradients_ = workspace_.add_bytes(kTraining ? weights_.bytes() : 0);
    lengths_ = Buffer(gpu, p.B * int64_t{sizeof(int32_t)});
    const std::vector<int32_t> lengths(static_cast<size_t>(p.B), static_cast<int32_t>(p.T));
    gpu.upload(lengths_.data(), lengths.data(), lengths_.bytes());
    place_weights(p);
  }

  bool good() const { return status_ == CUDNN_STATUS_SUCCESS; }
  cudnnStatus_t status() const { return status_; }
  const WorkspaceLayout& workspace() const { return workspace_; }

  void run(Args t) {
    for (const Copy& c : copies_)
      gpu_->copy_within(weights_.as<char>() + c.to, static_cast<const char*>(t[c.from].data) + c.at, c.bytes);
    const void* c0 = nullptr;
    void* cT = nullptr;
    if constexpr (P::has_c) {
      c0 = cudnn_data(t[P::c0]);
      cT = cudnn_data(t[P::cT]);
    }
    status_ = cudnnRNNForward(handle_, rnn_.get(), kMode, lengths_.as<const int32_t>(), x_.get(), cudnn_data(t[P::x]),
                              y_.get(), cudnn_data(t[P::y]), state_.get(), cudnn_data(t[P::h0]), cudnn_data(t[P::hT]),
                              state_.get(), c0, cT, bytes(weights_), weights_.data(), bytes(piece_),
                              t.workspace(piece_), bytes(reserve_), t.workspace(reserve_));
    if constexpr (kTraining)
      if (good()) run_backward(t);
  }

 private:
  static constexpr cudnnForwardMode_t kMode = kTraining ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  static size_t bytes(const auto& memory) { return static_cast<size_t>(memory.bytes()); }

  void run_backward(Args t) {
    const void *c0 = nullptr, *dc = nullptr;
    void* dc0 = nullptr;
    if constexpr (P::has_c) {
      c0 = cudnn_data(t[P::c0]);
      dc = cudnn_data(t[P::dcT]);
      dc0 = cudnn_data(t[P::dc0]);
    }
    void* const gradients = t.workspace(gradients_);
    gpu_->fill_bytes(gradients, 0, gradients_.bytes());  // cuDNN adds to them
    status_ = cudnnRNNBackwardData_v8(handle_, rnn_.get(), lengths_.as<const int32_t>(), y_.get(), cudnn_data(t[P::y]),
                                      cudnn_data(t[P::dy]), x_.get(), cudnn_data(t[P::dx]), state_.get(),
                                      cudnn_data(t[P::h0]), cudnn_data(t[P::dhT]), cudnn_data(t[P::dh0]), state_.get(),
                                      c0, dc, dc0, bytes(weights_), weights_.data(), bytes(piece_), t.workspace(piece_),
                                      bytes(reserve_), t.workspace(reserve_));
    if (!good()) return;
    status_ = cudnnRNNBackwardWeights_v8(handle_, rnn_.get(), CUDNN_WGRAD_MODE_ADD, lengths_.as<const int32_t>(),
                                         x_.get(), cudnn_data(t[P::x]), state_.get(), cudnn_data(t[P::h0]), y_.get(),
                                         cudnn_data(t[P::y]), bytes(weights_), gradients, bytes(piece_),
                                         t.workspace(piece_), bytes(reserve_), t.workspace(reserve_));
    if (!good()) return;
    for (const Copy& c : copies_)
      gpu_->copy_within(static_cast<char*>(t[gradient_of(c.from)].data) + c.at,
                        static_cast<const char*>(gradients) + c.to, c.bytes);
  }
  static Slot gradient_of(Slot weights) {
    for (const auto& [of, gradient] : {std::pair(P::w, P::dw), std::pair(P::w_above, P::dw_above),
                                       std::pair(P::r, P::dr), std::pair(P::bias, P::dbias)})
      if (weights.index == of.index) return gradient;
    throw Error("{} has no gradient", weights.name);
  }
  void place_weights(const P& p) {
    TensorNd matrix, bias;
    DUET_CUDNN(cudnnCreateTensorDescriptor(matrix.out()));
    DUET_CUDNN(cudnnCreateTensorDescriptor(bias.out()));
    const int64_t size = size_of(p.dtype), G = P::G, H = p.H;
    for (int64_t number = 0; number < layers_of(p) * p.directions(); ++number)  // layer by layer, as cuDNN has them
      for (const bool recurrent : {false, true})
        for (int64_t g = 0; g < G; ++g) {
          void *m = nullptr, *b = nullptr;
          DUET_CUDNN(cudnnGetRNNWeightParams(
              handle_, rnn_.get(), static_cast<int32_t>(number), static_cast<size_t>(weights_.bytes()), weights_.data(),
              static_cast<int32_t>(recurrent ? G : 0) + gate_of<P::kind>(g), matrix.get(), &m, bias.get(), &b));
          const int64_t row = (number * G + g) * H;
          if (recurrent)
            place(P::r, row * H * size, m, H * H * size);
          else
            place_of_input(p, number, g, m);
          if (!recurrent || biases_of(P::kind) == 2) {
            const int64_t first = biases_of(P::kind) == 2 ? ((number * 2 + recurrent) * G + g) * H : row;
            place(P::bias, first * size, b, H * size);
          }
        }
    // Copies that are adjacent in both source and target become one.
    std::sort(copies_.begin(), copies_.end(), [](const Copy& a, const Copy& b) { return a.to < b.to; });
    std::vector<Copy> joined;
    for (const Copy& c : copies_) {
      Copy* last = joined.empty() ? nullptr : &joined.back();
      if (last && last->from.index == c.from.index && last->to + last->bytes == c.to && last->at + last->bytes == c.at)
        last->bytes += c.bytes;
      else
        joined.push_back(c);
    }
    copies_ = std::move(joined);
  }
  // A gate's weights of the layer's input.
  void place_of_input(const P& p, int64_t number, int64_t gate, const void* to) {
    const int64_t size = size_of(p.dtype), above = number - p.directions();
    if constexpr (kTraining)
      if (above >= 0) {
        const int64_t columns = p.directions() * p.H;
        return place(P::w_above, (above * P::G + gate) * p.H * columns * size, to, p.H * columns * size);
      }
    place(P::w, (number * P::G + gate) * p.H * p.I * size, to, p.H * p.I * size);
  }
  void place(Slot from, int64_t at, const void* to, int64_t bytes) {
    const int64_t offset = static_cast<const char*>(to) - weights_.as<const char>();
    if (!to || offset < 0 || offset + bytes > weights_.bytes()) throw Error("cuDNN has no space for {}", from.name);
    copies_.push_back({from, at, offset, bytes});
  }

  GpuContext* gpu_;
  cudnnHandle_t handle_;
  RnnData x_, y_;
  TensorNd state_;
  Dropout dropout_;
  RnnDescriptor rnn_;
  Buffer weights_, lengths_;
  WorkspaceLayout workspace_;
  WorkspacePiece<void> piece_, reserve_, gradients_;  // gradients: of the weights, in cuDNN's order
  std::vector<Copy> copies_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

struct Algorithm {
  cudnnRNNAlgo_t algorithm;
  const char* name;
};
constexpr Algorithm kAlgorithms[] = {{CUDNN_RNN_ALGO_STANDARD, "standard"},
                                     {CUDNN_RNN_ALGO_PERSIST_STATIC, "persist_static"},
                                     {CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "persist_static_small_h"}};

template <class P>
Plan plan(const P& p, GpuContext& gpu) {
  constexpr bool kTraining = Network<P>::kTraining;
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  if (p.dtype == DType::f32)
    return Unsupported{"f32: the errors of cuDNN's sigmoid and tanh are several times its rounding (5e-6 on an H100)"};
  if (p.padded) return Unsupported{"cuDNN wants lengths on the host when the plan is made; here they are a tensor"};
  if constexpr (kTraining)
    if (p.dropout > 0) return Unsupported{"cuDNN draws the masks of its dropout by itself"};
  if constexpr (!kTraining)
    if (P::K > 0 && !p.inference) return Unsupported{"cuDNN's reserve is opaque: for inference only"};
  if (p.T * p.B * p.I * p.H == 0) return Unsupported{"cuDNN takes no empty tensor"};
  for (const int64_t d : {p.T, p.B, p.I, p.directions() * p.H, p.B * p.H})
    if (d > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};

  // The tensors that the search runs on.
  std::vector<Buffer> memory;
  std::vector<Tensor> tensors;
  for (const TensorSpec& spec : p.tensors()) {
    memory.emplace_back(gpu, spec.bytes());
    gpu.fill_bytes(memory.back().data(), 0, spec.bytes());
    tensors.push_back({memory.back().data(), spec.dtype, spec.role});
  }
  std::optional<Network<P>> best;
  const char* name = "";
  double best_s = 0;
  std::string unsupported_reason;
  for (const Algorithm& a : kAlgorithms) {
    Network<P> tried(p, gpu, a.algorithm);
    const Buffer workspace(gpu, tried.workspace().bytes());
    const Args args(tensors.data(), workspace.data(), workspace.bytes());
    if (tried.good()) tried.run(args);
    if (!tried.good()) {
      if (unsupported_reason.empty())
        unsupported_reason = fmt::format("cuDNN: {}", cudnnGetErrorString(tried.status()));
      continue;
    }
    bool synchronises = false;
    const double s = gpu.device_time([&] { tried.run(args); }, 3, synchronises);
    if (!tried.good() || (best && s >= best_s)) continue;
    best.emplace(std::move(tried));
    best_s = s;
    name = a.name;
  }
  if (!best) return Unsupported{unsupported_reason};
  WorkspaceLayout workspace = best->workspace();
  return Plan([network = std::move(*best)](Args t) mutable {
           network.run(t);
           DUET_CUDNN(network.status());
         })
      .with(name, std::move(workspace))
      .varying(kTraining);  // sums of gradients: cuDNN promises no order
}

Plan rnn_tanh_cudnn(const RnnTanh& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(rnn_tanh_cudnn);
Plan gru_cudnn(const Gru& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(gru_cudnn);
Plan lstm_cudnn(const Lstm& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(lstm_cudnn);
Plan rnn_tanh_training_cudnn(const RnnTanhTraining& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(rnn_tanh_training_cudnn);
Plan gru_training_cudnn(const GruTraining& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(gru_training_cudnn);
Plan lstm_training_cudnn(const LstmTraining& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(lstm_training_cudnn);

}  // namespace
}  // namespace duet::cuda
