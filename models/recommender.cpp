// SPDX-License-Identifier: Apache-2.0
// Recommendation by matrix factorisation with biases: a step is one batch of ratings by stochastic gradient descent,
// all of it the op mf_step. The sizes are those of MovieLens-1M: 6040 users, films numbered to 3952, 64 factors.
// Koren, Bell, Volinsky, Matrix factorization techniques for recommender systems, Computer 42(8), 2009.
// The op updates the parameters itself: there are no gradients and no other optimiser. Inputs: x, the users; item;
// label, the ratings. Outputs: loss, the mean square error before the step.
#include "models/layers.h"
#include "models/model.h"
#include "models/tape.h"
#include "ops/gemm/mf_step.h"

namespace duet {

struct Recommender {
  static constexpr const char* name = "recommender";
  static constexpr double kLearningRate = 0.005, kMeanRating = 3.5, kDecay = 0.02;

  int64_t batch = 1 << 16, users = 6040, items = 3952, factors = 64;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of factors and ratings: f32");
    field("batch", batch, "ratings of a step");
    field.option("users", users, "users");
    field.option("items", items, "films");
    field.option("factors", factors, "factors of a user and of a film");
  }
  std::string invalid() const;
  void train(Tape& tape) const { add_step(tape, kLearningRate, kDecay); }
  // The error on other ratings: a step with a learning rate of 0 moves nothing.
  void evaluate(Tape& tape) const { add_step(tape, 0, 0); }

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
  void add_step(Tape& tape, double learning_rate, double decay) const;
};

std::string Recommender::invalid() const {
  if (dtype != DType::f32) return std::string("dtype ") + name_of(dtype) + ": allowed is f32";
  if (batch < 1 || batch > 1 << 28) return outside_range("batch", batch, 1 << 28);
  if (users < 1 || users > 1 << 28) return outside_range("users", users, 1 << 28);
  if (items < 1 || items > 1 << 28) return outside_range("items", items, 1 << 28);
  if (factors < 1 || factors > 1 << 12) return outside_range("factors", factors, 1 << 12);
  return "";
}

void Recommender::add_step(Tape& tape, double learning_rate, double decay) const {
  const Var user = tape.input("x", DType::i32, {batch}, Fill::below(users)),
            item = tape.input("item", DType::i32, {batch}, Fill::below(items)),
            rating = tape.input("label", dtype, {batch}, Fill::uniform(0.5, 5));
  const Var p = tape.parameter("user.factors", {users, factors}, Fill::normal(0, 0.1), dtype),
            q = tape.parameter("item.factors", {items, factors}, Fill::normal(0, 0.1), dtype),
            bu = tape.parameter("user.bias", {users}, Fill::constant(0), dtype),
            bi = tape.parameter("item.bias", {items}, Fill::constant(0), dtype);
  const Var lr = learning_rate > 0 ? tape.state("lr", {1}, learning_rate, dtype)
                                   : tape.constant("no learning rate", {1}, 0, dtype);
  tape.phase("step");
  const MfStep step{
      .users = users, .items = items, .f = factors, .n = batch, .mu = kMeanRating, .reg = decay, .dtype = dtype};
  tape.output("loss", tape.add(step, {user, item, rating, lr, p, q, bu, bi}));
}

DUET_MODEL(Recommender);

}  // namespace duet
