// SPDX-License-Identifier: Apache-2.0
// GPT-2: embeddings of tokens and positions, pre-norm blocks of causal attention and a GELU feed-forward, a head that
// shares its weights with the token embedding; cross-entropy of the next token, gradients clipped to norm 1, AdamW, no
// dropout. The default is the 124M model of Radford et al., Language models are unsupervised multitask learners, 2019.
#include <vector>

#include "models/model.h"
#include "models/transformer_layers.h"
#include "ops/embedding/embedding.h"
#include "ops/gemm/gemm.h"
#include "ops/memory/fill.h"

namespace duet {

struct Gpt2 {
  static constexpr const char* name = "gpt2";
  static constexpr double kLearningRate = 6e-4 / 100, kBeta1 = 0.9, kBeta2 = 0.95, kDecay = 0.1, kMaxNorm = 1;

  int64_t batch = 1, tokens = 256;
  int64_t layers = 12, width = 768, heads = 12, vocabulary = 50257, context = 1024;
  DType dtype = DType::f32;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "sequences of a step");
    field("tokens", tokens, "tokens of a sequence");
    field.option("layers", layers, "blocks");
    field.option("width", width, "elements of a token");
    field.option("heads", heads, "heads of attention");
    field.option("vocabulary", vocabulary, "different tokens");
    field.option("context", context, "positions with an embedding");
    field.option(
        "mixed", mixed,
        "master parameters and the optimiser's state in f32 beside parameters in dtype; in f16 the loss is scaled");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static Cases cases(Scale scale) {
    const Cases test{
        {"every layer, narrowed", "batch:2 tokens:7 layers:2 width:24 heads:3 vocabulary:31 context:11"},
    };
    const Cases standard{
        {"124M, one short sequence", "batch:1 tokens:256"},
    };
    const Cases more{
        {"124M, four full sequences", "batch:4 tokens:1024"},
        {"124M, four full sequences, mixed precision", "bf16 batch:4 tokens:1024 mixed:1"},
        {"124M, four full sequences, mixed precision with loss scaling", "f16 batch:4 tokens:1024 mixed:1"},
    };
    // A step takes 2.0 GB and 0.32 GB a sequence: 64 is the last power of two within 24 GiB.
    return by_scale(scale, test, standard, more, sweep("batch", 1, 64, "tokens:256", 2));
  }
};

namespace {

// x + attention(norm(x)), then that + feed_forward(norm(that)).
class Block {
 public:
  Block(Tape& tape, const std::string& name, const Gpt2& m)
      : tape_(&tape),
        n_(m.batch * m.tokens * m.width),
        dtype_(m.dtype),
        norm1_(tape, name + ".norm1", m.batch * m.tokens, m.width, m.dtype),
        norm2_(tape, name + ".norm2", m.batch * m.tokens, m.width, m.dtype),
        attention_(tape, name + ".attention",
                   {.batch = m.batch,
                    .tokens = m.tokens,
                    .memory_tokens = m.tokens,
                    .width = m.width,
                    .heads = m.heads,
                    .causal = true,
                    .dtype = m.dtype}),
        inner_(tape, name + ".mlp", m.batch * m.tokens, m.width, 4 * m.width, Hidden::gelu, m.dtype) {}

  Var forward(Var x) {
    const Var h = add_tensors(*tape_, x, attention_.forward(norm1_.forward(x)), n_, dtype_);
    return add_tensors(*tape_, h, inner_.forward(norm2_.forward(h)), n_, dtype_);
  }
  Var backward(Var dy) {
    const Var dh = add_tensors(*tape_, dy, norm2_.backward(inner_.backward(dy)), n_, dtype_);
    return add_tensors(*tape_, dh, norm1_.backward(attention_.backward(dh).dx), n_, dtype_);
  }

 private:
  Tape* tape_;
  int64_t n_;
  DType dtype_;
  NormLayer norm1_, norm2_;
  AttentionLayer attention_;
  FeedForward inner_;
};

class Net {
 public:
  Net(Tape& tape, const Gpt2& m)
      : tape_(&tape),
        m_(m),
        rows_(m.batch * m.tokens),
        table_(tape.parameter("wte", {m.vocabulary, m.width}, Fill::normal(0, 0.02), m.dtype)),
        position_(tape.parameter("wpe", {m.context, m.width}, Fill::normal(0, 0.02), m.dtype)),
        last_(tape, "norm", rows_, m.width, m.dtype) {
    for (int64_t i = 0; i < m.layers; ++i) blocks_.emplace_back(tape, "h." + std::to_string(i), m);
  }

  Var forward(Var token) {
    token_ = token;
    // The table begins with the positions 0 .. tokens - 1.
    const Var position = tape_->slice(position_, 0, {m_.tokens, m_.width});
    Var h = tape_->add(embedding(), {token, table_, position});
    for (Block& b : blocks_) h = b.forward(h);
    h_ = last_.forward(h);
    return tape_->add(Gemm{.m = rows_, .n = m_.vocabulary, .k = m_.width, .trans_b = true, .dtype = m_.dtype},
                      {h_, table_});
  }
  void backward(Var dlogits) {
    tape_->add(Gemm{.m = m_.vocabulary, .n = m_.width, .k = rows_, .trans_a = true, .dtype = m_.dtype}, {dlogits, h_},
               {{Gemm::c, tape_->gradient(table_)}});
    Var dh = tape_->add(Gemm{.m = rows_, .n = m_.width, .k = m_.vocabulary, .dtype = m_.dtype}, {dlogits, table_});
    dh = last_.backward(dh);
    for (size_t i = blocks_.size(); i-- > 0;) dh = blocks_[i].backward(dh);
    // The embedding shares the table's gradient with the head. Positions beyond `tokens` have none.
    const Var dposition = tape_->gradient(position_);
    if (const int64_t rest = (m_.context - m_.tokens) * m_.width; rest > 0)
      tape_->add(FillValue{.n = rest, .dtype = m_.dtype}, {},
                 {{FillValue::y, tape_->slice(dposition, m_.tokens * m_.width, {rest})}});
    const EmbeddingBackward problem{
        .B = m_.batch, .T = m_.tokens, .V = m_.vocabulary, .C = m_.width, .dtype = m_.dtype, .accumulate = true};
    tape_->add(problem, {token_, dh, tape_->gradient(table_)},
               {{EmbeddingBackward::dposition, tape_->slice(dposition, 0, {m_.tokens, m_.width})}});
  }

 private:
  Embedding embedding() const {
    return {.B = m_.batch, .T = m_.tokens, .V = m_.vocabulary, .C = m_.width, .dtype = m_.dtype};
  }
  Tape* tape_;
  Gpt2 m_;
  int64_t rows_;
  Var table_, position_, token_, h_;
  NormLayer last_;
  std::vector<Block> blocks_;
};

Var text(Tape& tape, const Gpt2& m) {
  return tape.input("x", DType::i32, {m.batch, m.tokens}, Fill::below(m.vocabulary));
}

}  // namespace

std::string Gpt2::invalid() const {
  if (const std::string why = invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); !why.empty()) return why;
  const auto range = [](const char* what, int64_t value, int64_t max) {
    return std::string(what) + " " + std::to_string(value) + ": 1 to " + std::to_string(max) + " are allowed";
  };
  if (context < 1 || context > 1 << 20) return range("context", context, 1 << 20);
  if (tokens < 1 || tokens > context) return range("tokens", tokens, context);
  if (layers < 1 || layers > 1000) return range("layers", layers, 1000);
  if (vocabulary < 1 || vocabulary > 1 << 24) return range("vocabulary", vocabulary, 1 << 24);
  if (heads < 1 || width < heads || width % heads != 0)
    return "width " + std::to_string(width) + " and heads " + std::to_string(heads) +
           ": the heads must divide the width";
  return invalid_packing(batch, tokens, width, dtype);
}

void Gpt2::train(Tape& tape) const {
  const Var token = text(tape, *this),
            label = tape.input("label", DType::i32, {batch, tokens}, Fill::below(vocabulary));
  Net net(tape, *this);
  CrossEntropyLoss loss(tape, batch * tokens, vocabulary, dtype, mixed);
  tape.phase("forward");
  loss.forward(net.forward(token), label);
  tape.phase("backward");
  net.backward(loss.backward());

  add_optimiser(tape, dtype,
                AdamOptions{.learning_rate = kLearningRate,
                            .beta1 = kBeta1,
                            .beta2 = kBeta2,
                            .weight_decay = kDecay,
                            .decoupled = true,
                            .mixed = mixed,
                            .max_norm = kMaxNorm});
}

void Gpt2::evaluate(Tape& tape) const {
  const Var token = text(tape, *this);
  Net net(tape, *this);
  tape.phase("forward");
  tape.output("logits", net.forward(token));
}

DUET_MODEL(Gpt2);

}  // namespace duet
