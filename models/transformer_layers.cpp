// SPDX-License-Identifier: Apache-2.0
#include "models/transformer_layers.h"

#include "ops/elementwise/add.h"
#include "ops/elementwise/gelu.h"
#include "ops/memory/permute.h"

namespace duet {

std::string invalid_packing(int64_t batch, int64_t tokens, int64_t width, DType dtype) {
  const int64_t pack = 16 / size_of(dtype);
  if (batch * tokens * width % pack == 0) return "";
  return fmt::format("batch {} x tokens {} x width {}: a multiple of {} is allowed in {}", batch, tokens, width, pack,
                     name_of(dtype));
}

Var add_tensors(Tape& tape, Var a, Var b, int64_t n, DType dtype) {
  return tape.add(Add{.n = n, .dtype = dtype}, {a, b});
}

// --- normalisation ---------------------------------------------------------------------------------------------------

NormLayer::NormLayer(Tape& tape, const std::string& name, int64_t rows, int64_t cols, DType dtype)
    : tape_(&tape), shape_{.rows = rows, .cols = cols, .dtype = dtype} {
  gamma_ = tape.parameter(name + ".weight", {cols}, Fill::constant(1), dtype);
  beta_ = tape.parameter(name + ".bias", {cols}, Fill::constant(0), dtype);
}

Var NormLayer::forward(Var x) {
  x_ = x;
  const Outputs out = tape_->add(shape_, {x, gamma_, beta_});
  mean_ = out[LayerNorm::mean];
  rstd_ = out[LayerNorm::rstd];
  return out;
}

Var NormLayer::backward(Var dy) {
  return tape_->add(
      LayerNormBackward{.rows = shape_.rows, .cols = shape_.cols, .dtype = shape_.dtype},
      {x_, gamma_, mean_, rstd_, dy},
      {{LayerNormBackward::dgamma, tape_->gradient(gamma_)}, {LayerNormBackward::dbeta, tape_->gradient(beta_)}});
}

// --- attention -------------------------------------------------------------------------------------------------------

namespace {
Linear project(int64_t rows, int64_t width, int64_t times, DType dtype) {
  return {.n = rows, .in = width, .out = times * width, .dtype = dtype};
}
}  // namespace

AttentionLayer::AttentionLayer(Tape& tape, const std::string& name, const Options& options)
    : tape_(&tape),
      options_(options),
      out_(tape, name + ".out", project(options.batch * options.tokens, options.width, 1, options.dtype)) {
  attention_.B = options.batch;
  attention_.H = options.heads;
  attention_.D = options.width / options.heads;
  attention_.Tq = options.tokens;
  attention_.Tk = options.memory_tokens;
  attention_.causal = options.causal;
  attention_.dtype = options.dtype;
  if (options.cross) {
    q_.emplace(tape, name + ".q", project(options.batch * options.tokens, options.width, 1, options.dtype));
    kv_.emplace(tape, name + ".kv", project(options.batch * options.memory_tokens, options.width, 2, options.dtype));
  } else {
    packed_.emplace(tape, name + ".qkv", project(options.batch * options.tokens, options.width, 3, options.dtype));
  }
}

Var AttentionLayer::forward(Var x, Var memory) {
  const auto heads = [&](Var rows, int64_t tokens, int64_t split) -> Var {
    return tape_->add(Permute{.B = options_.batch,
                              .T = tokens,
                              .H = options_.heads,
                              .D = attention_.D,
                              .split = split,
                              .dtype = options_.dtype},
                      {rows});
  };
  const Shape q_shape = attention_.q_shape(), k_shape = attention_.k_shape();
  const int64_t q_size = options_.batch * options_.tokens * options_.width,
                k_size = options_.batch * options_.memory_tokens * options_.width;
  if (options_.cross) {
    queries_ = heads(q_->forward(x), options_.tokens, 1);
    const Var both = heads(kv_->forward(memory), options_.memory_tokens, 2);
    keys_ = tape_->slice(both, 0, k_shape);
    values_ = tape_->slice(both, k_size, k_shape);
  } else {
    const Var all = heads(packed_->forward(x), options_.tokens, 3);
    queries_ = tape_->slice(all, 0, q_shape);
    keys_ = tape_->slice(all, q_size, k_shape);
    values_ = tape_->slice(all, 2 * q_size, k_shape);
  }
  const Outputs out = tape_->add(attention_, {queries_, keys_, values_});
  y_ = out[Attention::y];
  lse_ = out[Attention::lse];
  return out_.forward(tape_->add(Permute{.B = options_.batch,
                                         .T = options_.tokens,
                                         .H = options_.heads,
                                         .D = attention_.D,
                                         .inverse = true,
                                         .dtype = options_.dtype},
                                 {y_}));
}

AttentionLayer::Gradients AttentionLayer::backward(Var dy) {
  const auto permute = [&](Var from, int64_t tokens, int64_t split, bool inverse) -> Var {
    return tape_->add(Permute{.B = options_.batch,
                              .T = tokens,
                              .H = options_.heads,
                              .D = attention_.D,
                              .split = split,
                              .inverse = inverse,
                              .dtype = options_.dtype},
                      {from});
  };
  const Shape q_shape = attention_.q_shape(), k_shape = attention_.k_shape();
  const int64_t q_size = options_.batch * options_.tokens * options_.width,
                k_size = options_.batch * options_.memory_tokens * options_.width;
  const Var dheads = permute(out_.backward(dy), options_.tokens, 1, false);
  AttentionBackward problem;
  static_cast<AttentionShape&>(problem) = attention_;
  const std::initializer_list<Var> inputs{queries_, keys_, values_, y_, lse_, dheads};
  if (options_.cross) {
    const Var dboth = tape_->pieces("dkv", options_.dtype, {2 * k_size});
    const Outputs out = tape_->add(problem, inputs,
                                   {{AttentionBackward::dk, tape_->slice(dboth, 0, k_shape)},
                                    {AttentionBackward::dv, tape_->slice(dboth, k_size, k_shape)}});
    const Var dmemory = kv_->backward(permute(dboth, options_.memory_tokens, 2, true));
    return {q_->backward(permute(out[AttentionBackward::dq], options_.tokens, 1, true)), dmemory};
  }
  const Var dall = tape_->pieces("dqkv", options_.dtype, {3 * q_size});
  tape_->add(problem, inputs,
             {{AttentionBackward::dq, tape_->slice(dall, 0, q_shape)},
              {AttentionBackward::dk, tape_->slice(dall, q_size, k_shape)},
              {AttentionBackward::dv, tape_->slice(dall, 2 * q_size, k_shape)}});
  return {packed_->backward(permute(dall, options_.tokens, 3, true)), {}};
}

// --- feed-forward ----------------------------------------------------------------------------------------------------

FeedForward::FeedForward(Tape& tape, const std::string& name, int64_t rows, int64_t width, int64_t inner, Hidden hidden,
                         DType dtype)
    : tape_(&tape),
      elements_(rows * inner),
      hidden_(hidden),
      dtype_(dtype),
      first_(tape, name + ".fc1",
             {.n = rows,
              .in = width,
              .out = inner,
              .act = hidden == Hidden::relu ? Act::relu : Act::none,
              .dtype = dtype}),
      second_(tape, name + ".fc2", {.n = rows, .in = inner, .out = width, .dtype = dtype}) {}

Var FeedForward::forward(Var x) {
  before_ = first_.forward(x);
  if (hidden_ == Hidden::relu) return second_.forward(before_);
  return second_.forward(tape_->add(Gelu{.n = elements_, .dtype = dtype_}, {before_}));
}

Var FeedForward::backward(Var dy) {
  Var dinner = second_.backward(dy);
  if (hidden_ == Hidden::gelu)
    dinner = tape_->add(GeluBackward{.n = elements_, .dtype = dtype_}, {before_, dinner}, {{GeluBackward::dx, dinner}});
  return first_.backward(dinner);
}

}  // namespace duet
