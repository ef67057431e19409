// SPDX-License-Identifier: Apache-2.0
// GPT-2: embeddings of tokens and positions, pre-norm blocks of causal attention and a GELU feed-forward, a head that
// shares its weights with the token embedding; cross-entropy of the next token, gradients clipped to norm 1, AdamW, no
// dropout. The default is the 124M model of Radford et al., Language models are unsupervised multitask learners, 2019.
// With padding:128 the table has a multiple of 128 rows and the logits as many columns, so that every row begins at a
// whole vector of a GPU's matrix units (50257 is odd). The further columns get a bias so low that their exp is 0: loss
// and gradients are those of the true vocabulary.
#include <vector>

#include "models/model.h"
#include "models/transformer_layers.h"
#include "ops/embedding/embedding.h"
#include "ops/gemm/gemm.h"
#include "ops/memory/fill.h"
#include "ops/memory/gather.h"

namespace duet {

struct Gpt2 {
  static constexpr const char* name = "gpt2";
  static constexpr double kLearningRate = 6e-4 / 100, kBeta1 = 0.9, kBeta2 = 0.95, kDecay = 0.1, kMaxNorm = 1;
  static constexpr double kNever = -30000;  // a logit; finite in f16

  int64_t batch = 1, tokens = 256;
  int64_t layers = 12, width = 768, heads = 12, vocabulary = 50257, context = 1024, padding = 1;
  DType dtype = DType::f32;
  bool mixed = false, recompute = false;
  TextPhase phase = TextPhase::whole;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "sequences of a step");
    field("tokens", tokens, "tokens of a sequence");
    field.option("layers", layers, "blocks");
    field.option("width", width, "elements of a token");
    field.option("heads", heads, "heads of attention");
    field.option("vocabulary", vocabulary, "different tokens");
    field.option("context", context, "positions with an embedding, and tokens for which caches have room");
    field.option("padding", padding, "the table has a multiple of so many rows, and the logits as many columns");
    field.option("mixed", mixed, kMixed);
    field.option("recompute", recompute, kRecompute);
    field.option("phase", phase, kTextPhase);
  }
  std::string invalid() const;
  std::string untrained() const { return untrained_phase(phase); }
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;
  int64_t rows_of_table() const { return ceil_div(vocabulary, padding) * padding; }
  int64_t rows_of_logits() const { return phase == TextPhase::whole ? batch * tokens : batch; }

  static Cases cases(Scale scale) {
    const Cases test{
        {"every layer, narrowed", "batch:2 tokens:7 layers:2 width:24 heads:3 vocabulary:31 context:11"},
        {"heads of more than 128 features", "batch:1 tokens:8 layers:1 width:136 heads:1 vocabulary:31 context:8"},
        {"a padded table", "batch:2 tokens:8 layers:1 width:24 heads:3 vocabulary:31 context:8 padding:8"},
        {"activations recomputed", "batch:2 tokens:8 layers:2 width:24 heads:3 vocabulary:31 context:8 recompute:1"},
    };
    const Cases standard{
        {"124M, one short sequence", "batch:1 tokens:256"},
        {"124M, one short sequence, mixed precision", "bf16 batch:1 tokens:256 padding:128 mixed:1"},
    };
    const Cases more{
        {"124M, one short sequence, padded", "batch:1 tokens:256 padding:128"},
        {"124M, four full sequences", "batch:4 tokens:1024"},
        {"124M, four full sequences, activations recomputed", "batch:4 tokens:1024 recompute:1"},
        {"124M, four full sequences, padded", "batch:4 tokens:1024 padding:128"},
        {"124M, four full sequences, mixed precision", "bf16 batch:4 tokens:1024 padding:128 mixed:1"},
        {"124M, four full sequences, mixed precision with loss scaling", "f16 batch:4 tokens:1024 padding:128 mixed:1"},
        {"124M, eight full sequences, mixed precision", "bf16 batch:8 tokens:1024 padding:128 mixed:1"},
        {"124M, sixteen full sequences, mixed precision", "bf16 batch:16 tokens:1024 padding:128 mixed:1"},
        {"124M, sixteen full sequences, mixed precision, activations recomputed",
         "bf16 batch:16 tokens:1024 padding:128 mixed:1 recompute:1"},
    };
    // A step takes 2.0 GB and 0.21 GB a sequence: 64 is the last power of two within 24 GiB.
    return by_scale(scale, test, standard, more, sweep("batch", 1, 64, "tokens:256", 2));
  }
  static Cases served() { return text_phases(); }
};

namespace {

// x + attention(norm(x)), then that + feed_forward(norm(that)).
class Block {
 public:
  Block(Tape& tape, const std::string& name, const Gpt2& m)
      : tape_(&tape),
        n_(m.batch * m.tokens * m.width),
        dtype_(m.dtype),
        cached_(m.phase != TextPhase::whole),
        recompute_(m.recompute),
        norm1_(tape, name + ".norm1", m.batch * m.tokens, m.width, m.dtype),
        norm2_(tape, name + ".norm2", m.batch * m.tokens, m.width, m.dtype),
        attention_(tape, name + ".attention",
                   {.batch = m.batch,
                    .tokens = m.tokens,
                    .memory_tokens = m.tokens,
                    .width = m.width,
                    .heads = m.heads,
                    .causal = true,
                    .dtype = m.dtype,
                    .cached = cached_ ? m.context : 0}),
        inner_(tape, name + ".mlp", m.batch * m.tokens, m.width, 4 * m.width, Hidden::gelu, m.dtype) {}

  Branches forward(Branches in, const TextInput& text) {
    const Normed first = norm1_.forward(in);
    x_ = first.sum;
    const Var attended = cached_ ? attention_.forward_cached(first.y, text) : attention_.forward(first.y);
    const Normed second = norm2_.forward({x_, attended});
    return {second.sum, inner_.forward(second.y)};
  }
  Var backward(Var dy) {
    if (recompute_) tape_->recompute([&] { forward({x_}, {}); });
    const Var dh = add_tensors(*tape_, dy, norm2_.backward(inner_.backward(dy)), n_, dtype_);
    return add_tensors(*tape_, dh, norm1_.backward(attention_.backward(dh).dx), n_, dtype_);
  }

 private:
  Tape* tape_;
  int64_t n_;
  DType dtype_;
  bool cached_, recompute_;
  Var x_;
  NormLayer norm1_, norm2_;
  AttentionLayer attention_;
  FeedForward inner_;
};

class Net {
 public:
  Net(Tape& tape, const Gpt2& m)
      : tape_(&tape),
        m_(m),
        rows_(m.rows_of_logits()),
        columns_(m.rows_of_table()),
        table_(tape.parameter("wte", {columns_, m.width}, Fill::normal(0, 0.02), m.dtype)),
        position_(tape.parameter("wpe", {m.context, m.width}, Fill::normal(0, 0.02), m.dtype)),
        last_(tape, "norm", rows_, m.width, m.dtype) {
    for (int64_t i = 0; i < m.layers; ++i) blocks_.emplace_back(tape, "h." + std::to_string(i), m);
  }

  Var forward(const TextInput& text) {
    token_ = text.token;
    Branches h{embedded(text)};
    for (Block& b : blocks_) h = b.forward(h, text);
    h_ = last_.forward(rows_with_logits(*tape_, text, h, m_.batch, m_.tokens, m_.width, m_.dtype)).y;
    if (columns_ == m_.vocabulary)
      return tape_->add(Gemm{.m = rows_, .n = columns_, .k = m_.width, .trans_b = true, .dtype = m_.dtype},
                        {h_, table_});
    const auto bias = [words = m_.vocabulary](int64_t i, uint32_t) { return i < words ? 0 : Gpt2::kNever; };
    return tape_->add(Linear{.n = rows_, .in = m_.width, .out = columns_, .dtype = m_.dtype},
                      {h_, table_, tape_->constant("padding", {columns_}, bias, m_.dtype)});
  }
  void backward(Var dlogits) {
    tape_->add(Gemm{.m = columns_, .n = m_.width, .k = rows_, .trans_a = true, .dtype = m_.dtype}, {dlogits, h_},
               {{Gemm::c, tape_->gradient(table_)}});
    Var dh = tape_->add(Gemm{.m = rows_, .n = m_.width, .k = columns_, .dtype = m_.dtype}, {dlogits, table_});
    dh = last_.backward(dh);
    for (size_t i = blocks_.size(); i-- > 0;) dh = blocks_[i].backward(dh);
    // The embedding shares the table's gradient with the head. Positions beyond `tokens` have none.
    const Var dposition = tape_->gradient(position_);
    if (const int64_t rest = (m_.context - m_.tokens) * m_.width; rest > 0)
      tape_->add(FillValue{.n = rest, .dtype = m_.dtype}, {},
                 {{FillValue::y, tape_->slice(dposition, m_.tokens * m_.width, {rest})}});
    const EmbeddingBackward problem{
        .B = m_.batch, .T = m_.tokens, .V = m_.vocabulary, .C = m_.width, .dtype = m_.dtype, .accumulate = true};
    tape_->add(problem, {token_, dh, words(tape_->gradient(table_))},
               {{EmbeddingBackward::dposition, tape_->slice(dposition, 0, {m_.tokens, m_.width})}});
  }

 private:
  Var words(Var table) { return columns_ == m_.vocabulary ? table : tape_->slice(table, 0, {m_.vocabulary, m_.width}); }
  Var embedded(const TextInput& text) {
    const auto embedding = [this](int64_t sequences, int64_t tokens) {
      return Embedding{.B = sequences, .T = tokens, .V = m_.vocabulary, .C = m_.width, .dtype = m_.dtype};
    };
    if (m_.phase != TextPhase::decode)  // the table begins with the positions 0 .. tokens - 1
      return tape_->add(embedding(m_.batch, m_.tokens),
                        {text.token, words(table_), tape_->slice(position_, 0, {m_.tokens, m_.width})});
    // Each sequence has a position of its own: as if they were the tokens of one.
    const Var position = tape_->add(Gather{.rows = m_.context, .cols = m_.width, .n = m_.batch, .dtype = m_.dtype},
                                    {position_, text.position});
    return tape_->add(embedding(1, m_.batch), {text.token, words(table_), position});
  }
  Tape* tape_;
  Gpt2 m_;
  int64_t rows_, columns_;  // of the logits
  Var table_, position_, token_, h_;
  NormLayer last_;
  std::vector<Block> blocks_;
};

TextInput text_of(Tape& tape, const Gpt2& m) {
  return text_input(tape, m.phase, m.batch, m.tokens, m.vocabulary, m.context);
}

}  // namespace

std::string Gpt2::invalid() const {
  if (const std::string why = invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); !why.empty()) return why;
  if (context < 1 || context > 1 << 20) return outside_range("context", context, 1 << 20);
  if (tokens < 1 || tokens > context) return outside_range("tokens", tokens, context);
  if (layers < 1 || layers > 1000) return outside_range("layers", layers, 1000);
  if (vocabulary < 1 || vocabulary > 1 << 24) return outside_range("vocabulary", vocabulary, 1 << 24);
  if (padding < 1 || padding > 1 << 16) return outside_range("padding", padding, 1 << 16);
  if (heads < 1 || width < heads || width % heads != 0)
    return "width " + std::to_string(width) + " and heads " + std::to_string(heads) +
           ": the heads must divide the width";
  if (const std::string why = invalid_phase(phase, tokens); !why.empty()) return why;
  return invalid_packing(batch, tokens, width, dtype);
}

void Gpt2::train(Tape& tape) const {
  const TextInput text = text_of(tape, *this);
  const Var label = tape.input("label", DType::i32, {batch, tokens}, Fill::below(vocabulary));
  Net net(tape, *this);
  CrossEntropyLoss loss(tape, batch * tokens, rows_of_table(), dtype, {.mixed = mixed, .in_place = true});
  tape.phase("forward");
  loss.forward(net.forward(text), label);
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
  const TextInput text = text_of(tape, *this);
  Net net(tape, *this);
  tape.phase("forward");
  tape.output("logits", net.forward(text));
}

DUET_MODEL(Gpt2);

}  // namespace duet
