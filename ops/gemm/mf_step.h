// SPDX-License-Identifier: Apache-2.0
// A step of matrix factorisation with biases by stochastic gradient descent: a batch of ratings moves the factors of
// its users and items against the gradient of (e^2 + reg (|p|^2 + |q|^2 + bu^2 + bi^2)) / 2, summed over the batch. All
// gradients are those of the values before the step.
//   user, item: (n) i32; rating: (n); lr, the learning rate: (1); p: (users, f), q: (items, f), bu: (users), bi:
//   (items); loss: (1), the mean of e^2, 0 of no ratings. All in f32, row-major, dense, disjoint.
//   Users and items may repeat. A rating whose user or item is outside of the tables has e = 0 and moves nothing.
// Sums are formed in f32 or better, in any order.
// Source: Koren, Bell, Volinsky, Matrix factorization techniques for recommender systems, Computer 42(8), 2009.
#pragma once
#include "core/attributes.h"
#include "core/problem.h"
#include "ops/bounded_sum.h"

namespace duet {

struct MfStep {
  static constexpr const char* name = "mf_step";
  static constexpr const char* formula =
      "e[j] = rating[j] - mu - bu[u] - bi[i] - sum_c p[u,c] * q[i,c] with u = user[j], i = item[j];  "
      "p[u] += lr * sum_j (e[j] * q[i] - reg * p[u]),  q[i] += lr * sum_j (e[j] * p[u] - reg * q[i]),  "
      "bu[u] += lr * sum_j (e[j] - reg * bu[u]),  bi[i] likewise;  loss = mean_j e[j]^2";
  static constexpr Slot user = input(0, "user"), item = input(1, "item"), rating = input(2, "rating");
  static constexpr Slot lr = input(3, "lr"), p = inout(4, "p"), q = inout(5, "q"), bu = inout(6, "bu");
  static constexpr Slot bi = inout(7, "bi"), loss = output(8, "loss");

  int64_t users = 0, items = 0, f = 0, n = 0;
  double mu = 3.5, reg = 0.02;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of all but user and item: f32");
    field("users", users, "rows of p");
    field("items", items, "rows of q");
    field("f", f, "factors of each");
    field("n", n, "ratings of the batch");
    field.option("mu", mu, "mean of all ratings");
    field.option("reg", reg, "weight of the squares of factors and biases");
  }
  void infer(Shapes s) {
    n = s[user][0];
    users = s[p][0];
    f = s[p][1];
    items = s[q][0];
  }
  std::string invalid() const {
    if (dtype != DType::f32) return std::string("dtype ") + name_of(dtype) + ": allowed is f32";
    return std::max({users, items, n}) > INT32_MAX ? "users, items and n: below 2^31, indices are i32" : "";
  }
  std::vector<TensorSpec> tensors() const {
    return {user.of(DType::i32, {n}, Fill::below(std::max<int64_t>(1, users))),
            item.of(DType::i32, {n}, Fill::below(std::max<int64_t>(1, items))),
            rating.of(dtype, {n}, Fill::uniform(0.5, 5)),
            lr.of(dtype, {1}, Fill::constant(0.01)),
            p.of(dtype, {users, f}, Fill::uniform(-0.3, 0.3)).touching(std::min(users, n) * f),
            q.of(dtype, {items, f}, Fill::uniform(-0.3, 0.3)).touching(std::min(items, n) * f),
            bu.of(dtype, {users}, Fill::uniform(-0.5, 0.5)).touching(std::min(users, n)),
            bi.of(dtype, {items}, Fill::uniform(-0.5, 0.5)).touching(std::min(items, n)),
            loss.of(dtype, {1})};
  }
  double flops() const { return static_cast<double>(n) * (12.0 * static_cast<double>(f) + 16); }
  // abs_sum is an error in units of u = 2^-24 (ops/bounded_sum.h). A factor or bias is a sum of its old value and of
  // terms with the error of e and three roundings; loss a sum of squares, and a division.
  Tolerance tolerance() const {
    return {.rel = 2 * unit_roundoff(DType::f32), .abs_sum = kF32Roundoff, .abs = underflow(DType::f32)};
  }
  // A slice is 64 rows of p and bu, or of q and bi, or the loss. Each walks over all ratings, so rows share the walk.
  static constexpr int64_t kRowsOfSlice = 64;
  int64_t slices() const { return ceil_div(users, kRowsOfSlice) + ceil_div(items, kRowsOfSlice) + 1; }
  std::vector<int64_t> parts() const { return {ceil_div(users, kRowsOfSlice), ceil_div(items, kRowsOfSlice), 1}; }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/gemm/mf_step.cpp

  static Cases cases(Scale scale) {
    const Cases test{
        {"one rating", "users:1 items:1 f:1 n:1"},
        {"no ratings: nothing moves", "users:3 items:5 f:7 n:0"},
        {"no factors: biases alone", "users:3 items:5 f:0 n:17"},
        {"repeated users and items", "users:3 items:5 f:17 n:129"},
        {"whole vectors", "users:31 items:33 f:64 n:201"},
        {"a lane over a warp", "users:17 items:9 f:33 n:101"},
        {"several slices of users and of items", "users:129 items:65 f:3 n:300"},
        {"users and items that do not exist", "users:7 items:9 f:17 n:65 user=below:11 item=below:12"},
        {"no user exists", "users:3 items:5 f:8 n:17 user=-1"},
        {"infinite rows without ratings do not move", "users:3 items:5 f:7 n:0 p=inf q=-inf bu=-inf bi=inf"},
    };
    const Cases standard{
        {"MovieLens-1M", "users:6040 items:3952 f:64 n:1048576"},
        {"MovieLens-1M, a small batch", "users:6040 items:3952 f:64 n:16384"},
        {"MovieLens-20M", "users:138493 items:27278 f:64 n:1048576"},
    };
    return by_scale(scale, test, standard, {}, sweep("n", 1 << 8, 1 << 20, "users:6040 items:3952 f:64"));
  }
};

}  // namespace duet
