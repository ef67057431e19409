// SPDX-License-Identifier: Apache-2.0
// Recommendation by matrix factorisation with biases: a step is one batch of ratings by stochastic gradient descent,
// all of it the op mf_step. The sizes are those of MovieLens-1M: 6040 users, films numbered to 3952 as items, 64
// factors.
// Koren, Bell, Volinsky, Matrix factorization techniques for recommender systems, Computer 42(8), 2009.
// The op updates the parameters itself: there are no gradients and no other optimiser. Inputs: x, the users; item;
// label, the ratings. Outputs: loss, the mean square error before the step.
// With `top`, an inference finds the items that users would rate highest. Input: x, the users. Outputs: logits, the
// ratings p.q + bu + bi, the highest first; items, their numbers.
#include "models/layers.h"
#include "models/model.h"
#include "models/served_weights.h"
#include "models/tape.h"
#include "ops/elementwise/bias.h"
#include "ops/gemm/linear.h"
#include "ops/gemm/mf_step.h"
#include "ops/memory/gather.h"
#include "ops/reduction/top_k.h"

namespace duet {

struct Recommender {
  static constexpr const char* name = "recommender";
  static constexpr double kLearningRate = 0.005, kMeanRating = 3.5, kDecay = 0.02;

  int64_t batch = 1 << 16, users = 6040, items = 3952, factors = 64, top = 0;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of factors and ratings: f32, and of an inference with top bf16 and f16");
    field("batch", batch, "ratings of a step; users of an inference with top");
    field.option("users", users, "users");
    field.option("items", items, "items that are rated, such as films");
    field.option("factors", factors, "factors of a user and of an item");
    field.option("top", top, "of an inference: items that are found for a user; 0: the error of known ratings");
  }
  std::string invalid() const;
  std::string untrained() const {
    return top > 0 ? "top " + std::to_string(top) + ": only an inference finds items; a step allows 0" : "";
  }
  void train(Tape& tape) const { add_step(tape, kLearningRate, kDecay); }
  // The error on other ratings: a step with a learning rate of 0 moves nothing.
  void evaluate(Tape& tape) const { top > 0 ? add_ranking(tape) : add_step(tape, 0, 0); }
  static Cases served() {
    return {{"the five items that a user would like most", "top:5"},
            {"the five items that a user would like most, in bf16", "bf16 top:5"}};
  }
  // The mean rating, which a step adds, becomes a part of every item's bias.
  void adapt(Checkpoint& checkpoint) const;

  static Cases cases(Scale scale) {
    const Cases test{
        {"few of each", "batch:29 users:11 items:7 factors:9"},
    };
    const Cases standard{
        {"MovieLens-1M, a small batch", "batch:4096"},
        {"MovieLens-1M, the usual batch", "batch:65536"},
    };
    const Cases more{
        {"MovieLens-1M, all ratings in one batch", "batch:1000209"},
    };
    return by_scale(scale, test, standard, more, sweep("batch", 1, 1 << 20, "", 4));
  }

 private:
  struct Tables {
    Var user_factors, item_factors, user_bias, item_bias;
  };
  Tables declare(Tape& tape) const;
  void add_ranking(Tape& tape) const;
  void add_step(Tape& tape, double learning_rate, double decay) const;
};

std::string Recommender::invalid() const {
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  if (dtype != DType::f32 && !(half && top > 0))
    return std::string("dtype ") + name_of(dtype) + ": allowed is f32, and of an inference with top bf16 and f16";
  const int64_t max_batch = top > 0 ? 1 << 16 : 1 << 28;  // top: every item is rated for every user
  if (batch < 1 || batch > max_batch) return outside_range("batch", batch, max_batch);
  if (users < 1 || users > 1 << 28) return outside_range("users", users, 1 << 28);
  if (items < 1 || items > 1 << 28) return outside_range("items", items, 1 << 28);
  if (factors < 1 || factors > 1 << 12) return outside_range("factors", factors, 1 << 12);
  if (top < 0 || top > items)
    return "top: 0 to " + std::to_string(items) + ", the items, are allowed; is " + std::to_string(top);
  return "";
}

Recommender::Tables Recommender::declare(Tape& tape) const {
  return {tape.parameter("user.factors", {users, factors}, Fill::normal(0, 0.1), dtype),
          tape.parameter("item.factors", {items, factors}, Fill::normal(0, 0.1), dtype),
          tape.parameter("user.bias", {users}, Fill::constant(0), dtype),
          tape.parameter("item.bias", {items}, Fill::constant(0), dtype)};
}

void Recommender::add_step(Tape& tape, double learning_rate, double decay) const {
  const Var user = tape.input("x", DType::i32, {batch}, Fill::below(users)),
            item = tape.input("item", DType::i32, {batch}, Fill::below(items)),
            rating = tape.input("label", dtype, {batch}, Fill::uniform(0.5, 5));
  const Tables tables = declare(tape);
  const Var lr = learning_rate > 0 ? tape.state("lr", {1}, learning_rate, dtype)
                                   : tape.constant("no learning rate", {1}, 0, dtype);
  tape.phase("step");
  const MfStep step{
      .users = users, .items = items, .f = factors, .n = batch, .mu = kMeanRating, .reg = decay, .dtype = dtype};
  tape.output("loss", tape.add(step, {user, item, rating, lr, tables.user_factors, tables.item_factors,
                                      tables.user_bias, tables.item_bias}));
}

// Every item is rated, as a product of the users' factors and all items'. What is alike for all items of a user is
// added to those that were found.
void Recommender::add_ranking(Tape& tape) const {
  const Var user = tape.input("x", DType::i32, {batch}, Fill::below(users));
  const Tables tables = declare(tape);
  tape.phase("forward");
  const Var factors_of = tape.add(Gather{users, factors, batch, dtype}, {tables.user_factors, user}),
            bias_of = tape.add(Gather{users, 1, batch, dtype}, {tables.user_bias, user});
  const Linear rating{.n = batch, .in = factors, .out = items, .dtype = dtype};
  const Var ratings = tape.add(rating, {factors_of, tables.item_factors, tables.item_bias});
  const Outputs best = tape.add(TopK{.rows = batch, .cols = items, .dtype = dtype, .k = top}, {ratings});
  const Bias of_users{.outer = 1, .c = batch, .inner = top, .dtype = dtype};
  tape.output("logits", tape.add(of_users, {best[TopK::value], bias_of}));
  tape.output("items", best[TopK::index]);
}

void Recommender::adapt(Checkpoint& checkpoint) const {
  if (top == 0) return;
  std::vector<double> bias = values_of(checkpoint, "item.bias");
  for (double& b : bias) b += kMeanRating;
  const Checkpoint::Entry entry = checkpoint.tensors.at("item.bias");
  set_values(checkpoint, "item.bias", entry.dtype, entry.shape, bias);
}

DUET_MODEL(Recommender);

}  // namespace duet
