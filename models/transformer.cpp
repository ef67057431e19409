// SPDX-License-Identifier: Apache-2.0
// The encoder-decoder Transformer of Vaswani et al., arXiv:1706.03762: normalisation after each residual sum,
// cross-entropy of the next target token, Adam, dropout 0.1. Source, target and head share one table of tokens.
//   transformer: the paper's base model, 6 + 6 layers, 512 wide, 8 heads, feed-forward 2048, 37000 tokens; sinusoids as
//     positions, dropout of the embeddings as well, labels smoothed by 0.1. The table holds what the paper's embedding
//     gives, sqrt(512) times the shared weights; so the head's product is divided by sqrt(512).
//   transformer_small: 3 + 3 layers, 256 wide, 4 heads, feed-forward 1024, 8000 tokens; learnt positions.
#include <cmath>
#include <optional>
#include <vector>

#include "models/model.h"
#include "models/transformer_layers.h"
#include "ops/embedding/embedding.h"
#include "ops/gemm/gemm.h"

namespace duet {

// What the two models share.
struct EncoderDecoder {
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.98, kEpsilon = 1e-9;

  int64_t batch, tokens;
  int64_t layers, width, heads, inner, vocabulary;
  double smooth, learning_rate;
  bool learnt_positions;
  double dropout = 0.1;
  DType dtype = DType::f32;
  bool mixed = false, recompute = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "pairs of sequences of a step");
    field("tokens", tokens, "tokens of a sequence, source and target alike");
    field.option("layers", layers, "layers of the encoder, and of the decoder");
    field.option("width", width, "elements of a token");
    field.option("heads", heads, "heads of attention");
    field.option("inner", inner, "elements between the two layers of a feed-forward");
    field.option("vocabulary", vocabulary, "different tokens");
    field.option("dropout", dropout, "probability that an element is dropped");
    field.option("smooth", smooth, "share of the target that is spread over all tokens");
    field.option("mixed", mixed, kMixed);
    field.option("recompute", recompute, kRecompute);
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;
};

struct TransformerSmall : EncoderDecoder {
  static constexpr const char* name = "transformer_small";
  TransformerSmall()
      : EncoderDecoder{.batch = 16,
                       .tokens = 64,
                       .layers = 3,
                       .width = 256,
                       .heads = 4,
                       .inner = 1024,
                       .vocabulary = 8000,
                       .smooth = 0,
                       .learning_rate = 1e-5,
                       .learnt_positions = true} {}

  static Cases cases(Scale scale) {
    const Cases test{
        {"every layer, narrowed", "batch:2 tokens:8 layers:2 width:24 heads:3 inner:40 vocabulary:31"},
    };
    const Cases standard{
        {"one pair of 64 tokens", "batch:1"},
        {"between them, for the break-even", "batch:2"},
        {"between them, for the break-even", "batch:4"},
        {"16 pairs of 64 tokens", "batch:16"},
        {"large enough to fill a device?", "batch:64"},
        {"16 pairs of 64 tokens, mixed precision", "bf16 batch:16 mixed:1"},
        {"16 pairs of 64 tokens, mixed precision with loss scaling", "f16 batch:16 mixed:1"},
    };
    return by_scale(scale, test, standard, {}, sweep("batch", 1, 128, "", 2));
  }
};

struct Transformer : EncoderDecoder {
  static constexpr const char* name = "transformer";
  Transformer()
      : EncoderDecoder{.batch = 64,
                       .tokens = 64,
                       .layers = 6,
                       .width = 512,
                       .heads = 8,
                       .inner = 2048,
                       .vocabulary = 37000,
                       .smooth = 0.1,
                       .learning_rate = 1e-4,
                       .learnt_positions = false} {}

  static Cases cases(Scale scale) {
    const Cases test{
        {"every layer, narrowed", "batch:2 tokens:8 layers:1 width:24 heads:3 inner:40 vocabulary:31"},
    };
    const Cases standard{
        {"base, one pair of 64 tokens", "batch:1"},
    };
    const Cases more{
        {"base, four pairs of 64 tokens", "batch:4"},
        {"base, four pairs of 64 tokens, mixed precision", "bf16 batch:4 mixed:1"},
        {"base, 64 pairs of 64 tokens", "batch:64"},
        {"base, 64 pairs of 64 tokens, mixed precision", "bf16 batch:64 mixed:1"},
        {"base, 64 pairs of 64 tokens, mixed precision with loss scaling", "f16 batch:64 mixed:1"},
        {"base, the paper's 25000 tokens a step, mixed precision", "bf16 batch:390 mixed:1"},
    };
    return by_scale(scale, test, standard, more, sweep("batch", 1, 64, "", 2));
  }
};

namespace {

// y = norm(x + dropout(f)): follows every attention and feed-forward, whose result is f.
class Residual {
 public:
  Residual(Tape& tape, const std::string& name, const EncoderDecoder& m, double p)
      : tape_(&tape),
        n_(m.batch * m.tokens * m.width),
        dtype_(m.dtype),
        dropout_(tape, name + ".dropout", n_, p, m.dtype),
        norm_(tape, name + ".norm", m.batch * m.tokens, m.width, m.dtype) {}
  Var forward(Var x, Var fx) { return norm_.forward({x, dropout_.forward(fx)}).y; }
  struct Gradients {
    Var dx, dfx;
  };
  Gradients backward(Var dy) {
    const Var sum = norm_.backward(dy);
    return {sum, dropout_.backward(sum)};
  }
  Var join(Var a, Var b) { return add_tensors(*tape_, a, b, n_, dtype_); }

 private:
  Tape* tape_;
  int64_t n_;
  DType dtype_;
  DropoutLayer dropout_;
  NormLayer norm_;
};

AttentionLayer::Options attention_options(const EncoderDecoder& m, bool causal, bool cross) {
  return {.batch = m.batch,
          .tokens = m.tokens,
          .memory_tokens = m.tokens,
          .width = m.width,
          .heads = m.heads,
          .causal = causal,
          .cross = cross,
          .dtype = m.dtype};
}

class EncoderLayer {
 public:
  EncoderLayer(Tape& tape, const std::string& name, const EncoderDecoder& m, double p)
      : tape_(&tape),
        recompute_(m.recompute),
        attention_(tape, name + ".self", attention_options(m, false, false)),
        after_attention_(tape, name + ".self", m, p),
        inner_(tape, name + ".mlp", m.batch * m.tokens, m.width, m.inner, Hidden::relu, m.dtype),
        after_inner_(tape, name + ".mlp", m, p) {}
  Var forward(Var x) {
    x_ = x;
    const Var h = after_attention_.forward(x, attention_.forward(x));
    return after_inner_.forward(h, inner_.forward(h));
  }
  Var backward(Var dy) {
    if (recompute_) tape_->recompute([&] { forward(x_); });
    const auto last = after_inner_.backward(dy);
    const auto first = after_attention_.backward(after_inner_.join(last.dx, inner_.backward(last.dfx)));
    return after_attention_.join(first.dx, attention_.backward(first.dfx).dx);
  }

 private:
  Tape* tape_;
  bool recompute_;
  Var x_;
  AttentionLayer attention_;
  Residual after_attention_;
  FeedForward inner_;
  Residual after_inner_;
};

class DecoderLayer {
 public:
  DecoderLayer(Tape& tape, const std::string& name, const EncoderDecoder& m, double p)
      : tape_(&tape),
        recompute_(m.recompute),
        self_(tape, name + ".self", attention_options(m, true, false)),
        after_self_(tape, name + ".self", m, p),
        cross_(tape, name + ".cross", attention_options(m, false, true)),
        after_cross_(tape, name + ".cross", m, p),
        inner_(tape, name + ".mlp", m.batch * m.tokens, m.width, m.inner, Hidden::relu, m.dtype),
        after_inner_(tape, name + ".mlp", m, p) {}
  Var forward(Var x, Var memory) {
    x_ = x;
    memory_ = memory;
    const Var h = after_self_.forward(x, self_.forward(x));
    const Var g = after_cross_.forward(h, cross_.forward(h, memory));
    return after_inner_.forward(g, inner_.forward(g));
  }
  AttentionLayer::Gradients backward(Var dy) {
    if (recompute_) tape_->recompute([&] { forward(x_, memory_); });
    const auto last = after_inner_.backward(dy);
    const auto middle = after_cross_.backward(after_inner_.join(last.dx, inner_.backward(last.dfx)));
    const AttentionLayer::Gradients cross = cross_.backward(middle.dfx);
    const auto first = after_self_.backward(after_cross_.join(middle.dx, cross.dx));
    return {after_self_.join(first.dx, self_.backward(first.dfx).dx), cross.dmemory};
  }

 private:
  Tape* tape_;
  bool recompute_;
  Var x_, memory_;
  AttentionLayer self_;
  Residual after_self_;
  AttentionLayer cross_;
  Residual after_cross_;
  FeedForward inner_;
  Residual after_inner_;
};

// The paper's section 3.5: sines of even elements, cosines of odd ones. Shape (tokens, width).
double sinusoid(int64_t element, int64_t width) {
  const int64_t position = element / width, i = element % width;
  const double angle =
      static_cast<double>(position) * std::pow(10000.0, -static_cast<double>(i / 2 * 2) / static_cast<double>(width));
  return i % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

class Net {
 public:
  Net(Tape& tape, const EncoderDecoder& m, double p)
      : tape_(&tape),
        m_(m),
        rows_(m.batch * m.tokens),
        table_(tape.parameter("embedding", {m.vocabulary, m.width}, Fill::normal(0, m.learnt_positions ? 0.02 : 1),
                              m.dtype)) {
    if (m.learnt_positions) {
      source_position_ = tape.parameter("encoder.position", {m.tokens, m.width}, Fill::normal(0, 0.02), m.dtype);
      target_position_ = tape.parameter("decoder.position", {m.tokens, m.width}, Fill::normal(0, 0.02), m.dtype);
    } else {
      source_position_ = target_position_ = tape.constant(
          "position", {m.tokens, m.width}, [width = m.width](int64_t i, uint32_t) { return sinusoid(i, width); },
          m.dtype);
      source_dropout_.emplace(tape, "encoder.dropout", rows_ * m.width, p, m.dtype);
      target_dropout_.emplace(tape, "decoder.dropout", rows_ * m.width, p, m.dtype);
    }
    for (int64_t i = 0; i < m.layers; ++i) encoder_.emplace_back(tape, "encoder." + std::to_string(i), m, p);
    for (int64_t i = 0; i < m.layers; ++i) decoder_.emplace_back(tape, "decoder." + std::to_string(i), m, p);
  }
  Var forward(Var source, Var target) {
    source_ = source;
    target_ = target;
    const Embedding embedding{.B = m_.batch, .T = m_.tokens, .V = m_.vocabulary, .C = m_.width, .dtype = m_.dtype};
    Var memory = tape_->add(embedding, {source, table_, source_position_});
    if (source_dropout_) memory = source_dropout_->forward(memory);
    for (EncoderLayer& layer : encoder_) memory = layer.forward(memory);
    h_ = tape_->add(embedding, {target, table_, target_position_});
    if (target_dropout_) h_ = target_dropout_->forward(h_);
    for (DecoderLayer& layer : decoder_) h_ = layer.forward(h_, memory);
    Gemm head{.m = rows_, .n = m_.vocabulary, .k = m_.width, .trans_b = true, .dtype = m_.dtype};
    head.alpha = head_factor();
    return tape_->add(head, {h_, table_});
  }
  void backward(Var dlogits) {
    const int64_t n = rows_ * m_.width;
    Gemm to_table{.m = m_.vocabulary, .n = m_.width, .k = rows_, .trans_a = true, .dtype = m_.dtype};
    Gemm to_tokens{.m = rows_, .n = m_.width, .k = m_.vocabulary, .dtype = m_.dtype};
    to_table.alpha = to_tokens.alpha = head_factor();
    tape_->add(to_table, {dlogits, h_}, {{Gemm::c, tape_->gradient(table_)}});
    Var dh = tape_->add(to_tokens, {dlogits, table_});
    Var dmemory;
    for (size_t i = decoder_.size(); i-- > 0;) {  // every layer of the decoder has read the encoder's result
      const AttentionLayer::Gradients g = decoder_[i].backward(dh);
      dh = g.dx;
      dmemory = dmemory.id < 0 ? g.dmemory : add_tensors(*tape_, dmemory, g.dmemory, n, m_.dtype);
    }
    embed_backward(target_, target_dropout_ ? target_dropout_->backward(dh) : dh, target_position_);
    for (size_t i = encoder_.size(); i-- > 0;) dmemory = encoder_[i].backward(dmemory);
    embed_backward(source_, source_dropout_ ? source_dropout_->backward(dmemory) : dmemory, source_position_);
  }

 private:
  void embed_backward(Var token, Var dy, Var position) {  // adds to the table's gradient, which the head has written
    const EmbeddingBackward problem{.B = m_.batch,
                                    .T = m_.tokens,
                                    .V = m_.vocabulary,
                                    .C = m_.width,
                                    .dtype = m_.dtype,
                                    .position = m_.learnt_positions,
                                    .accumulate = true};
    const Var dtable = tape_->gradient(table_);
    if (m_.learnt_positions)
      tape_->add(problem, {token, dy, dtable}, {{EmbeddingBackward::dposition, tape_->gradient(position)}});
    else
      tape_->add(problem, {token, dy, dtable});
  }
  float head_factor() const {
    return m_.learnt_positions ? 1 : static_cast<float>(1 / std::sqrt(static_cast<double>(m_.width)));
  }
  Tape* tape_;
  EncoderDecoder m_;
  int64_t rows_;
  Var table_, source_position_, target_position_, source_, target_, h_;
  std::optional<DropoutLayer> source_dropout_, target_dropout_;
  std::vector<EncoderLayer> encoder_;
  std::vector<DecoderLayer> decoder_;
};

Var tokens_of(Tape& tape, const EncoderDecoder& m, const char* name) {
  return tape.input(name, DType::i32, {m.batch, m.tokens}, Fill::below(m.vocabulary));
}

}  // namespace

std::string EncoderDecoder::invalid() const {
  if (const std::string why = invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); !why.empty()) return why;
  if (tokens < 1 || tokens > 1 << 16) return "tokens " + std::to_string(tokens) + ": 1 to 65536 are allowed";
  if (layers < 1 || inner < 1 || vocabulary < 1) return "layers, inner and vocabulary must be at least 1";
  if (heads < 1 || width < heads || width % heads != 0)
    return "width " + std::to_string(width) + " and heads " + std::to_string(heads) +
           ": the heads must divide the width";
  if (const std::string why = invalid_packing(batch, tokens, width, dtype); !why.empty()) return why;
  if (!(smooth >= 0 && smooth <= 1)) return "smooth " + std::to_string(smooth) + ": 0 to 1 is allowed";
  return dropout >= 0 && dropout < 1 ? "" : "dropout " + std::to_string(dropout) + ": 0 to below 1 is allowed";
}

void EncoderDecoder::train(Tape& tape) const {
  const Var source = tokens_of(tape, *this, "x"), target = tokens_of(tape, *this, "target");
  const Var label = tokens_of(tape, *this, "label");
  Net net(tape, *this, dropout);
  CrossEntropyLoss loss(tape, batch * tokens, vocabulary, dtype, {.mixed = mixed, .smooth = smooth, .in_place = true});
  tape.phase("forward");
  loss.forward(net.forward(source, target), label);
  tape.phase("backward");
  net.backward(loss.backward());

  add_optimiser(
      tape, dtype,
      AdamOptions{.learning_rate = learning_rate, .beta1 = kBeta1, .beta2 = kBeta2, .eps = kEpsilon, .mixed = mixed});
}

void EncoderDecoder::evaluate(Tape& tape) const {
  const Var source = tokens_of(tape, *this, "x"), target = tokens_of(tape, *this, "target");
  Net net(tape, *this, 0);
  tape.phase("forward");
  tape.output("logits", net.forward(source, target));
}

DUET_MODEL(TransformerSmall);
DUET_MODEL(Transformer);

}  // namespace duet
