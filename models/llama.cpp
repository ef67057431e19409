// SPDX-License-Identifier: Apache-2.0
// Blocks as in Llama (arXiv:2302.13971, 2307.09288): root-mean-square normalisation, rotary positions, attention whose
// query heads share heads of keys and values, and a feed-forward gated by SiLU; no biases. A stack of them with its own
// table of tokens and head; cross-entropy of the next token, gradients clipped to norm 1, AdamW. The sizes are those of
// TinyLlama 1.1B (arXiv:2401.02385), of whose 22 blocks two are the default.
#include <vector>

#include "models/model.h"
#include "models/transformer_layers.h"
#include "ops/elementwise/rope.h"
#include "ops/elementwise/swiglu.h"
#include "ops/embedding/embedding.h"
#include "ops/gemm/gemm.h"
#include "ops/memory/cache_append.h"
#include "ops/memory/permute.h"
#include "ops/norm/add_rmsnorm.h"
#include "ops/norm/rmsnorm.h"

namespace duet {

struct Llama {
  static constexpr const char* name = "llama";
  static constexpr double kLearningRate = 4e-4 / 100, kBeta1 = 0.9, kBeta2 = 0.95, kDecay = 0.1, kMaxNorm = 1;

  int64_t batch = 1, tokens = 256;
  int64_t layers = 2, width = 2048, heads = 32, kv_heads = 4, inner = 5632, vocabulary = 32000, context = 2048;
  DType dtype = DType::f32;
  bool mixed = false, recompute = false;
  TextPhase phase = TextPhase::whole;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "sequences of a step");
    field("tokens", tokens, "tokens of a sequence");
    field.option("layers", layers, "blocks");
    field.option("width", width, "elements of a token");
    field.option("heads", heads, "heads of queries");
    field.option("kv_heads", kv_heads, "heads of keys and of values");
    field.option("inner", inner, "elements between the layers of a feed-forward");
    field.option("vocabulary", vocabulary, "different tokens");
    field.option("context", context, "tokens of a text at most, for which caches have room");
    field.option("mixed", mixed, kMixed);
    field.option("recompute", recompute, kRecompute);
    field.option("phase", phase, kTextPhase);
  }
  std::string invalid() const;
  std::string untrained() const { return untrained_phase(phase); }
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;
  int64_t rows() const { return batch * tokens; }
  int64_t rows_of_logits() const { return phase == TextPhase::whole ? rows() : batch; }
  int64_t head() const { return width / heads; }  // elements of a head

  static Cases cases(Scale scale) {
    const Cases test{
        {"every layer, narrowed", "batch:2 tokens:7 layers:2 width:24 heads:6 kv_heads:2 inner:36 vocabulary:31"},
    };
    const Cases standard{
        {"a block of TinyLlama, one short sequence", "batch:1 tokens:128 layers:1"},
    };
    const Cases more{
        {"a block of TinyLlama, one short sequence, mixed precision", "bf16 batch:1 tokens:128 layers:1 mixed:1"},
        {"two blocks of TinyLlama, a full sequence", "batch:1 tokens:2048"},
        {"two blocks of TinyLlama, four full sequences, mixed precision", "bf16 batch:4 tokens:2048 mixed:1"},
        {"two blocks of TinyLlama, four full sequences, mixed precision with loss scaling",
         "f16 batch:4 tokens:2048 mixed:1"},
    };
    return by_scale(scale, test, standard, more, sweep("tokens", 16, 2048, "batch:1 layers:1", 2));
  }
  static Cases served() { return text_phases(); }
};

namespace {

// y = x w', without a bias. Parameter <name>.weight (out, in).
class Projection {
 public:
  Projection(Tape& tape, const std::string& name, int64_t rows, int64_t in, int64_t out, DType dtype)
      : tape_(&tape), rows_(rows), in_(in), out_(out), dtype_(dtype) {
    w_ = tape.parameter(name + ".weight", {out, in}, Fill::normal(0, 0.02), dtype);
  }
  Var forward(Var x) {
    x_ = x;
    return tape_->add(Gemm{.m = rows_, .n = out_, .k = in_, .trans_b = true, .dtype = dtype_}, {x, w_});
  }
  Var backward(Var dy) {
    tape_->add(Gemm{.m = out_, .n = in_, .k = rows_, .trans_a = true, .dtype = dtype_}, {dy, x_},
               {{Gemm::c, tape_->gradient(w_)}});
    return tape_->add(Gemm{.m = rows_, .n = in_, .k = out_, .dtype = dtype_}, {dy, w_});
  }

 private:
  Tape* tape_;
  int64_t rows_, in_, out_;
  DType dtype_;
  Var w_, x_;
};

// Parameter <name>.weight (cols).
class RmsNormLayer {
 public:
  RmsNormLayer(Tape& tape, const std::string& name, int64_t rows, int64_t cols, DType dtype)
      : tape_(&tape), shape_{.rows = rows, .cols = cols, .dtype = dtype} {
    gamma_ = tape.parameter(name + ".weight", {cols}, Fill::constant(1), dtype);
  }
  Normed forward(Branches in) {
    if (in.fx.id < 0) {
      x_ = in.x;
      const Outputs out = tape_->add(shape_, {x_, gamma_});
      rstd_ = out[RmsNorm::rstd];
      return {x_, out};
    }
    const Outputs out =
        tape_->add(AddRmsNorm{.rows = shape_.rows, .cols = shape_.cols, .dtype = shape_.dtype}, {in.x, in.fx, gamma_});
    x_ = out[AddRmsNorm::s];
    rstd_ = out[AddRmsNorm::rstd];
    return {x_, out[AddRmsNorm::y]};
  }
  Var backward(Var dy) {
    return tape_->add(RmsNormBackward{.rows = shape_.rows, .cols = shape_.cols, .dtype = shape_.dtype},
                      {x_, gamma_, rstd_, dy}, {{RmsNormBackward::dgamma, tape_->gradient(gamma_)}});
  }

 private:
  Tape* tape_;
  RmsNorm shape_;
  Var gamma_, x_, rstd_;
};

// Queries, keys and values of every token, the first two turned by its position; attention; projection.
// Parameters <name>.q, .k, .v, .out; in the phases prefill and decode, states <name>.keys and .values.
class GroupedAttention {
 public:
  GroupedAttention(Tape& tape, const std::string& name, const Llama& m)
      : tape_(&tape),
        m_(m),
        q_(tape, name + ".q", m.rows(), m.width, m.width, m.dtype),
        k_(tape, name + ".k", m.rows(), m.width, m.kv_heads * m.head(), m.dtype),
        v_(tape, name + ".v", m.rows(), m.width, m.kv_heads * m.head(), m.dtype),
        out_(tape, name + ".out", m.rows(), m.width, m.width, m.dtype) {
    attention_.B = m.batch;
    attention_.H = m.heads;
    attention_.Hkv = m.kv_heads;
    attention_.D = m.head();
    attention_.Tq = attention_.Tk = m.tokens;
    attention_.causal = true;
    attention_.dtype = m.dtype;
    if (m.phase == TextPhase::whole) return;
    const auto cache = [&](const char* what) {
      return tape.state(name + what, {m.batch, m.kv_heads, m.context, m.head()}, Fill::uniform(-1, 1), m.dtype);
    };
    cached_keys_ = cache(".keys");
    cached_values_ = cache(".values");
  }
  Var forward(Var x, const TextInput& text) {
    queries_ = heads(turned(q_.forward(x), m_.heads, text), m_.heads);
    keys_ = heads(turned(k_.forward(x), m_.kv_heads, text), m_.kv_heads);
    values_ = heads(v_.forward(x), m_.kv_heads);
    if (m_.phase != TextPhase::whole) {
      append(keys_, text, cached_keys_);
      append(values_, text, cached_values_);
    }
    const Outputs out = attend(text);
    y_ = out[Attention::y];
    lse_ = out[Attention::lse];
    return out_.forward(joined(y_, m_.heads));
  }
  Var backward(Var dy) {
    AttentionBackward problem;
    static_cast<AttentionShape&>(problem) = attention_;
    const Outputs d = tape_->add(problem, {queries_, keys_, values_, y_, lse_, heads(out_.backward(dy), m_.heads)});
    const int64_t n = m_.rows() * m_.width;
    const Var dq = q_.backward(turned_back(joined(d[AttentionBackward::dq], m_.heads), m_.heads));
    const Var dk = k_.backward(turned_back(joined(d[AttentionBackward::dk], m_.kv_heads), m_.kv_heads));
    const Var dv = v_.backward(joined(d[AttentionBackward::dv], m_.kv_heads));
    return add_tensors(*tape_, add_tensors(*tape_, dq, dk, n, m_.dtype), dv, n, m_.dtype);
  }

 private:
  Var heads(Var x, int64_t count) { return permuted(x, count, false); }
  Var joined(Var x, int64_t count) { return permuted(x, count, true); }
  Var permuted(Var x, int64_t count, bool inverse) {
    if (m_.tokens == 1) return x;  // a single token's heads lie in the same order
    return tape_->add(
        Permute{.B = m_.batch, .T = m_.tokens, .H = count, .D = m_.head(), .inverse = inverse, .dtype = m_.dtype}, {x});
  }
  Var turned(Var x, int64_t count, const TextInput& text) {  // in place
    Rope problem{.B = m_.batch, .T = m_.tokens, .H = count, .D = m_.head(), .dtype = m_.dtype};
    problem.positioned = m_.phase == TextPhase::decode;
    return problem.positioned ? tape_->add(problem, {x, text.position}, {{Rope::y, x}})
                              : tape_->add(problem, {x}, {{Rope::y, x}});
  }
  Var turned_back(Var x, int64_t count) {  // in place
    return tape_->add(RopeBackward{.B = m_.batch, .T = m_.tokens, .H = count, .D = m_.head(), .dtype = m_.dtype}, {x},
                      {{RopeBackward::dx, x}});
  }
  void append(Var x, const TextInput& text, Var cache) {
    tape_->add(
        CacheAppend{
            .B = m_.batch, .H = m_.kv_heads, .T = m_.tokens, .D = m_.head(), .C = m_.context, .dtype = m_.dtype},
        {x, text.position, cache});
  }
  Outputs attend(const TextInput& text) {
    if (m_.phase != TextPhase::decode) return tape_->add(attention_, {queries_, keys_, values_});
    Attention problem = attention_;
    problem.Tk = m_.context;
    problem.causal = false;
    problem.padded = true;
    return tape_->add(problem, {queries_, cached_keys_, cached_values_, text.lengths});
  }

  Tape* tape_;
  Llama m_;
  Attention attention_;
  Projection q_, k_, v_, out_;
  Var queries_, keys_, values_, y_, lse_, cached_keys_, cached_values_;
};

// down(silu(gate(x)) up(x)). Parameters <name>.gate, .up, .down.
class GatedFeedForward {
 public:
  GatedFeedForward(Tape& tape, const std::string& name, const Llama& m)
      : tape_(&tape),
        m_(m),
        gate_(tape, name + ".gate", m.rows(), m.width, m.inner, m.dtype),
        up_(tape, name + ".up", m.rows(), m.width, m.inner, m.dtype),
        down_(tape, name + ".down", m.rows(), m.inner, m.width, m.dtype) {}
  Var forward(Var x) {
    before_ = gate_.forward(x);
    factor_ = up_.forward(x);
    return down_.forward(tape_->add(SwiGlu{.n = m_.rows() * m_.inner, .dtype = m_.dtype}, {before_, factor_}));
  }
  Var backward(Var dy) {
    const Var dinner = down_.backward(dy);
    const Outputs d = tape_->add(SwiGluBackward{.n = m_.rows() * m_.inner, .dtype = m_.dtype},
                                 {before_, factor_, dinner}, {{SwiGluBackward::dgate, dinner}});
    return add_tensors(*tape_, gate_.backward(d[SwiGluBackward::dgate]), up_.backward(d[SwiGluBackward::dup]),
                       m_.rows() * m_.width, m_.dtype);
  }

 private:
  Tape* tape_;
  Llama m_;
  Projection gate_, up_, down_;
  Var before_, factor_;
};

// x + attention(norm(x)), then that + feed_forward(norm(that)).
class LlamaBlock {
 public:
  LlamaBlock(Tape& tape, const std::string& name, const Llama& m)
      : tape_(&tape),
        n_(m.rows() * m.width),
        dtype_(m.dtype),
        recompute_(m.recompute),
        norm1_(tape, name + ".norm1", m.rows(), m.width, m.dtype),
        norm2_(tape, name + ".norm2", m.rows(), m.width, m.dtype),
        attention_(tape, name + ".attention", m),
        inner_(tape, name + ".mlp", m) {}
  Branches forward(Branches in, const TextInput& text) {
    const Normed first = norm1_.forward(in);
    x_ = first.sum;
    const Normed second = norm2_.forward({x_, attention_.forward(first.y, text)});
    return {second.sum, inner_.forward(second.y)};
  }
  Var backward(Var dy) {
    if (recompute_) tape_->recompute([&] { forward({x_}, {}); });
    const Var dh = add_tensors(*tape_, dy, norm2_.backward(inner_.backward(dy)), n_, dtype_);
    return add_tensors(*tape_, dh, norm1_.backward(attention_.backward(dh)), n_, dtype_);
  }

 private:
  Tape* tape_;
  int64_t n_;
  DType dtype_;
  bool recompute_;
  Var x_;
  RmsNormLayer norm1_, norm2_;
  GroupedAttention attention_;
  GatedFeedForward inner_;
};

class LlamaNet {
 public:
  LlamaNet(Tape& tape, const Llama& m)
      : tape_(&tape),
        m_(m),
        table_(tape.parameter("embedding", {m.vocabulary, m.width}, Fill::normal(0, 0.02), m.dtype)),
        last_(tape, "norm", m.rows_of_logits(), m.width, m.dtype),
        head_(tape, "head", m.rows_of_logits(), m.width, m.vocabulary, m.dtype) {
    for (int64_t i = 0; i < m.layers; ++i) blocks_.emplace_back(tape, "h." + std::to_string(i), m);
  }
  Var forward(const TextInput& text) {
    token_ = text.token;
    Branches h{tape_->add(shape<Embedding>(), {token_, table_})};
    for (LlamaBlock& b : blocks_) h = b.forward(h, text);
    h = rows_with_logits(*tape_, text, h, m_.batch, m_.tokens, m_.width, m_.dtype);
    return head_.forward(last_.forward(h).y);
  }
  void backward(Var dlogits) {
    Var dh = last_.backward(head_.backward(dlogits));
    for (size_t i = blocks_.size(); i-- > 0;) dh = blocks_[i].backward(dh);
    tape_->add(shape<EmbeddingBackward>(), {token_, dh}, {{EmbeddingBackward::dtable, tape_->gradient(table_)}});
  }

 private:
  template <class P>
  P shape() const {
    return {.B = m_.batch, .T = m_.tokens, .V = m_.vocabulary, .C = m_.width, .dtype = m_.dtype, .position = false};
  }
  Tape* tape_;
  Llama m_;
  Var table_, token_;
  RmsNormLayer last_;
  Projection head_;
  std::vector<LlamaBlock> blocks_;
};

TextInput text_of(Tape& tape, const Llama& m) {
  return text_input(tape, m.phase, m.batch, m.tokens, m.vocabulary, m.context);
}

}  // namespace

std::string Llama::invalid() const {
  if (const std::string why = invalid_model(batch, dtype) + invalid_mixed(mixed, dtype); !why.empty()) return why;
  if (context < 1 || context > 1 << 20) return outside_range("context", context, 1 << 20);
  if (tokens < 1 || tokens > context) return outside_range("tokens", tokens, context);
  if (layers < 1 || layers > 1000) return outside_range("layers", layers, 1000);
  if (inner < 1 || inner > 1 << 20) return outside_range("inner", inner, 1 << 20);
  if (vocabulary < 1 || vocabulary > 1 << 24) return outside_range("vocabulary", vocabulary, 1 << 24);
  if (width < 1 || width > 1 << 20) return outside_range("width", width, 1 << 20);
  if (heads < 1 || width < heads || width % (2 * heads) != 0)
    return "width " + std::to_string(width) + " and heads " + std::to_string(heads) +
           ": twice the heads must divide the width, since positions turn pairs of elements";
  if (kv_heads < 1 || heads % kv_heads != 0)
    return "kv_heads " + std::to_string(kv_heads) + ": must divide the " + std::to_string(heads) + " heads";
  return invalid_phase(phase, tokens);
}

void Llama::train(Tape& tape) const {
  const TextInput text = text_of(tape, *this);
  const Var label = tape.input("label", DType::i32, {batch, tokens}, Fill::below(vocabulary));
  LlamaNet net(tape, *this);
  CrossEntropyLoss loss(tape, rows(), vocabulary, dtype, {.mixed = mixed, .in_place = true});
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

void Llama::evaluate(Tape& tape) const {
  const TextInput text = text_of(tape, *this);
  LlamaNet net(tape, *this);
  tape.phase("forward");
  tape.output("logits", net.forward(text));
}

DUET_MODEL(Llama);

}  // namespace duet
