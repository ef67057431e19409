// SPDX-License-Identifier: Apache-2.0
#include "models/transformer_layers.h"

#include "ops/elementwise/add.h"
#include "ops/elementwise/gelu.h"
#include "ops/memory/cache_append.h"
#include "ops/memory/gather.h"
#include "ops/memory/permute.h"
#include "ops/norm/add_layernorm.h"

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

Normed NormLayer::forward(Branches in) {
  if (in.fx.id < 0) {
    x_ = in.x;
    const Outputs out = tape_->add(shape_, {x_, gamma_, beta_});
    mean_ = out[LayerNorm::mean];
    rstd_ = out[LayerNorm::rstd];
    return {x_, out};
  }
  const Outputs out = tape_->add(AddLayerNorm{.rows = shape_.rows, .cols = shape_.cols, .dtype = shape_.dtype},
                                 {in.x, in.fx, gamma_, beta_});
  x_ = out[AddLayerNorm::s];
  mean_ = out[AddLayerNorm::mean];
  rstd_ = out[AddLayerNorm::rstd];
  return {x_, out[AddLayerNorm::y]};
}

Var NormLayer::backward(Var dy) {
  return tape_->add(
      LayerNormBackward{.rows = shape_.rows, .cols = shape_.cols, .dtype = shape_.dtype},
      {x_, gamma_, mean_, rstd_, dy},
      {{LayerNormBackward::dgamma, tape_->gradient(gamma_)}, {LayerNormBackward::dbeta, tape_->gradient(beta_)}});
}

// --- the phases of a text --------------------------------------------------------------------------------------------

Cases text_phases() {
  return {{"the beginning of a text (prefill)", "phase:prefill"},
          {"the next token of a text (decode)", "phase:decode tokens:1"}};
}

std::string untrained_phase(TextPhase phase) {
  if (phase == TextPhase::whole) return "";
  return fmt::format("phase {}: a training step reads whole texts; only an inference has phases",
                     names_of(phase)[static_cast<size_t>(phase)]);
}

std::string invalid_phase(TextPhase phase, int64_t tokens) {
  if (phase != TextPhase::decode || tokens == 1) return "";
  return "tokens " + std::to_string(tokens) + ": with phase decode 1 is allowed";
}

TextInput text_input(Tape& tape, TextPhase phase, int64_t batch, int64_t tokens, int64_t vocabulary, int64_t context) {
  const auto place = [&](const char* name, int64_t value) {
    return tape.input(name, DType::i32, {batch}, Fill::constant(static_cast<double>(value)));
  };
  TextInput text{tape.input("x", DType::i32, {batch, tokens}, Fill::below(vocabulary)), {}, {}, {}};
  if (phase == TextPhase::prefill) {
    text.position = tape.constant("begin", {batch}, 0, DType::i32);
    text.last = tape.drawn_input("last", DType::i32, {batch}, [tokens](int64_t sequence, uint32_t) {
      return static_cast<double>(sequence * tokens + tokens - 1);
    });
  } else if (phase == TextPhase::decode) {  // timed with full caches
    text.position = place("position", context - 1);
    text.lengths = place("lengths", context);
  }
  return text;
}

Branches rows_with_logits(Tape& tape, const TextInput& text, Branches h, int64_t batch, int64_t tokens, int64_t width,
                          DType dtype) {
  if (text.last.id < 0) return h;
  const Gather rows{.rows = batch * tokens, .cols = width, .n = batch, .dtype = dtype};
  const Var x = tape.add(rows, {h.x, text.last});
  return {x, h.fx.id < 0 ? h.fx : tape.add(rows, {h.fx, text.last})};
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
  if (options.cached > 0)
    cache_ = tape.state(name + ".cache", {2, options.batch, options.heads, options.cached, attention_.D},
                        Fill::uniform(-1, 1), options.dtype);
  if (options.cross) {
    q_.emplace(tape, name + ".q", project(options.batch * options.tokens, options.width, 1, options.dtype));
    kv_.emplace(tape, name + ".kv", project(options.batch * options.memory_tokens, options.width, 2, options.dtype));
  } else {
    packed_.emplace(tape, name + ".qkv", project(options.batch * options.tokens, options.width, 3, options.dtype));
  }
}

PackedAttentionShape AttentionLayer::packed_shape() const {
  return {.B = attention_.B,
          .T = attention_.Tq,
          .H = attention_.H,
          .D = attention_.D,
          .causal = attention_.causal,
          .dtype = attention_.dtype};
}

Var AttentionLayer::split_heads(Var rows, int64_t tokens, int64_t parts) {
  // A single token's heads lie in the same order.
  if (tokens == 1 && (parts == 1 || options_.batch == 1)) return rows;
  return tape_->add(Permute{.B = options_.batch,
                            .T = tokens,
                            .H = options_.heads,
                            .D = attention_.D,
                            .split = parts,
                            .dtype = options_.dtype},
                    {rows});
}

Var AttentionLayer::project_packed(Var x) {
  const int64_t size = options_.batch * options_.tokens * options_.width;
  const Var all = split_heads(packed_->forward(x), options_.tokens, 3);
  queries_ = tape_->slice(all, 0, attention_.q_shape());
  keys_ = tape_->slice(all, size, attention_.q_shape());
  values_ = tape_->slice(all, 2 * size, attention_.q_shape());
  return all;
}

Var AttentionLayer::project_out(Var y) {
  if (options_.tokens == 1) return out_.forward(y);
  return out_.forward(tape_->add(Permute{.B = options_.batch,
                                         .T = options_.tokens,
                                         .H = options_.heads,
                                         .D = attention_.D,
                                         .inverse = true,
                                         .dtype = options_.dtype},
                                 {y}));
}

Var AttentionLayer::forward(Var x, Var memory) {
  if (reads_packed()) {
    qkv_ = packed_->forward(x);
    const Outputs out = tape_->add(AttentionPacked{packed_shape()}, {qkv_});
    y_ = out[AttentionPacked::y];
    lse_ = out[AttentionPacked::lse];
    return out_.forward(y_);
  }
  if (options_.cross) {
    const Shape k_shape = attention_.k_shape();
    queries_ = split_heads(q_->forward(x), options_.tokens, 1);
    const Var both = split_heads(kv_->forward(memory), options_.memory_tokens, 2);
    keys_ = tape_->slice(both, 0, k_shape);
    values_ = tape_->slice(both, options_.batch * options_.memory_tokens * options_.width, k_shape);
  } else {
    project_packed(x);
  }
  const Outputs out = tape_->add(attention_, {queries_, keys_, values_});
  y_ = out[Attention::y];
  lse_ = out[Attention::lse];
  return project_out(y_);
}

Var AttentionLayer::forward_cached(Var x, const TextInput& text) {
  const int64_t size = options_.batch * options_.tokens * options_.width;
  const Var all = project_packed(x);
  tape_->add(CacheAppend{.B = options_.batch,
                         .H = options_.heads,
                         .T = options_.tokens,
                         .D = attention_.D,
                         .C = options_.cached,
                         .split = 2,
                         .dtype = options_.dtype},
             {tape_->slice(all, size, {2 * size}), text.position, cache_});
  if (text.lengths.id < 0) return project_out(tape_->add(attention_, {queries_, keys_, values_}));
  Attention problem = attention_;
  problem.Tk = options_.cached;
  problem.causal = false;
  problem.padded = true;
  const Var keys = tape_->slice(cache_, 0, problem.k_shape()),
            values = tape_->slice(cache_, options_.batch * options_.cached * options_.width, problem.k_shape());
  return project_out(tape_->add(problem, {queries_, keys, values, text.lengths}));
}

AttentionLayer::Gradients AttentionLayer::backward(Var dy) {
  const Var dheads = out_.backward(dy);
  if (reads_packed()) {
    const Outputs out = tape_->add(AttentionPackedBackward{packed_shape()}, {qkv_, y_, lse_, dheads});
    return {packed_->backward(out[AttentionPackedBackward::dqkv]), {}};
  }
  const auto join_heads = [&](Var from, int64_t tokens, int64_t parts) -> Var {
    return tape_->add(Permute{.B = options_.batch,
                              .T = tokens,
                              .H = options_.heads,
                              .D = attention_.D,
                              .split = parts,
                              .inverse = true,
                              .dtype = options_.dtype},
                      {from});
  };
  const Shape q_shape = attention_.q_shape(), k_shape = attention_.k_shape();
  const int64_t q_size = options_.batch * options_.tokens * options_.width,
                k_size = options_.batch * options_.memory_tokens * options_.width;
  const AttentionBackward problem{attention_};
  const Var dy_heads = split_heads(dheads, options_.tokens, 1);
  const std::initializer_list<Var> inputs{queries_, keys_, values_, y_, lse_, dy_heads};
  if (!options_.cross) {
    const Var dall = tape_->pieces("dqkv", options_.dtype, {3 * q_size});
    tape_->add(problem, inputs,
               {{AttentionBackward::dq, tape_->slice(dall, 0, q_shape)},
                {AttentionBackward::dk, tape_->slice(dall, q_size, k_shape)},
                {AttentionBackward::dv, tape_->slice(dall, 2 * q_size, k_shape)}});
    return {packed_->backward(join_heads(dall, options_.tokens, 3)), {}};
  }
  const Var dboth = tape_->pieces("dkv", options_.dtype, {2 * k_size});
  const Outputs out = tape_->add(problem, inputs,
                                 {{AttentionBackward::dk, tape_->slice(dboth, 0, k_shape)},
                                  {AttentionBackward::dv, tape_->slice(dboth, k_size, k_shape)}});
  const Var dmemory = kv_->backward(join_heads(dboth, options_.memory_tokens, 2));
  return {q_->backward(join_heads(out[AttentionBackward::dq], options_.tokens, 1)), dmemory};
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
  if (hidden_ == Hidden::gelu) return second_.backward_through_gelu(dy, before_, first_);
  return first_.backward(second_.backward(dy));
}

}  // namespace duet
