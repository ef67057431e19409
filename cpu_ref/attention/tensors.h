// SPDX-License-Identifier: Apache-2.0
// The tensors of attention and of packed attention in one form, for attention_tuned.cpp: addresses, and where the rows
// of their heads lie. Where packed, q, k and v have one address.
#pragma once
#include "core/plan.h"
#include "ops/attention/attention_packed.h"

namespace duet::flash {

// lse: (heads, Tq). lengths: (B), or null.
struct Forward {
  AttentionRows rows;
  const void *q, *k, *v;
  void* y;
  float* lse;
  const int32_t* lengths;
};
inline Forward tensors_of(const Attention& p, const Args& t) {
  using A = Attention;
  return {.rows = p.rows(),
          .q = t[A::q].data,
          .k = t[A::k].data,
          .v = t[A::v].data,
          .y = t[A::y].data,
          .lse = t[A::lse].as<float>(),
          .lengths = p.padded ? t[A::lengths].as<const int32_t>() : nullptr};
}
inline Forward tensors_of(const AttentionPacked& p, const Args& t) {
  using A = AttentionPacked;
  const void* qkv = t[A::qkv].data;
  return {p.rows(), qkv, qkv, qkv, t[A::y].data, t[A::lse].as<float>(), nullptr};
}

struct Backward {
  AttentionRows rows;
  const void *q, *k, *v, *y, *dy;
  const float* lse;
  void *dq, *dk, *dv;
  const int32_t* lengths;
};
inline Backward tensors_of(const AttentionBackward& p, const Args& t) {
  using A = AttentionBackward;
  return {.rows = p.rows(),
          .q = t[A::q].data,
          .k = t[A::k].data,
          .v = t[A::v].data,
          .y = t[A::y].data,
          .dy = t[A::dy].data,
          .lse = t[A::lse].as<const float>(),
          .dq = t[A::dq].data,
          .dk = t[A::dk].data,
          .dv = t[A::dv].data,
          .lengths = p.padded ? t[A::lengths].as<const int32_t>() : nullptr};
}
inline Backward tensors_of(const AttentionPackedBackward& p, const Args& t) {
  using A = AttentionPackedBackward;
  const void* qkv = t[A::qkv].data;
  void* dqkv = t[A::dqkv].data;
  return {p.rows(), qkv, qkv, qkv, t[A::y].data, t[A::dy].data, t[A::lse].as<const float>(), dqkv, dqkv, dqkv, nullptr};
}

}  // namespace duet::flash
