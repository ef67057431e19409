// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_packed.h"
#include "tests/cpu_ref/gradient.h"

namespace duet {
namespace {

int check(const AttentionShape& shape) { return check_gradient(Attention{shape}, AttentionBackward{shape}); }

TEST(Gradients, Attention) {
  EXPECT_EQ(check({.B = 2, .H = 2, .Tq = 3, .Tk = 5, .D = 4}), 2 * 2 * (3 + 2 * 5) * 4);
  EXPECT_EQ(check({.B = 1, .H = 1, .Tq = 1, .Tk = 1, .D = 1}), 3);
  EXPECT_EQ(check({.B = 1, .H = 1, .Tq = 3, .Tk = 5, .D = 3, .causal = true}), (3 + 2 * 5) * 3);
  EXPECT_EQ(check({.B = 1, .H = 1, .Tq = 7, .Tk = 4, .D = 3, .causal = true}), (7 + 2 * 4) * 3);
  EXPECT_EQ(check({.B = 2, .H = 4, .Tq = 3, .Tk = 3, .D = 2, .Hkv = 2, .causal = true, .scale = 0.3}),
            2 * (4 * 3 + 2 * 2 * 3) * 2);
  EXPECT_EQ(check({.B = 1, .H = 1, .Tq = 5, .Tk = 7, .D = 2, .causal = true, .window = 2}), (5 + 2 * 7) * 2);
  EXPECT_EQ(check({.B = 2, .H = 2, .Tq = 3, .Tk = 6, .D = 2, .Hkv = 1, .padded = true}), 2 * (2 * 3 + 2 * 6) * 2);
}

int check_packed(const PackedAttentionShape& shape) {
  return check_gradient(AttentionPacked{shape}, AttentionPackedBackward{shape});
}

TEST(Gradients, AttentionPacked) {
  EXPECT_EQ(check_packed({.B = 2, .T = 5, .H = 3, .D = 2}), 2 * 5 * 3 * 3 * 2);
  EXPECT_EQ(check_packed({.B = 1, .T = 4, .H = 2, .D = 3, .causal = true, .scale = 0.3}), 4 * 3 * 2 * 3);
}

}  // namespace
}  // namespace duet
