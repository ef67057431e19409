// SPDX-License-Identifier: Apache-2.0
// Attributes that a contract refuses, each with its own message. A line here for each new reason.
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/registry.h"

namespace duet {
namespace {

struct Refused {
  const char *op, *words, *message;  // message: a part of it
};

class RefusedProblems : public testing::TestWithParam<Refused> {};

TEST_P(RefusedProblems, NameTheValueAndWhatIsAllowed) {
  const Refused& r = GetParam();
  const Problem problem = find_op(r.op).make().with_words(r.words);
  try {
    problem.validate();
    FAIL() << r.op << " " << r.words << " is accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(r.message), std::string::npos) << e.what();
  }
}

const Refused kAttention[]{
    {"attention", "B:1 H:2 Tq:3 Tk:3 D:4 scale:1e-40", "1e-30 to 1e30"},
    {"attention", "B:1 H:2 Tq:3 Tk:3 D:4 scale:-1e31", "1e-30 to 1e30"},
    {"attention", "B:1 H:2 Tq:3 Tk:3 D:4 window:2", "window 2: only with causal:1"},
    {"attention", "B:1 H:6 Tq:3 Tk:3 D:4 Hkv:4", "0 or a divisor of H"},
    {"attention_backward", "B:1 H:6 Tq:3 Tk:3 D:4 Hkv:-2", "0 or a divisor of H"},
    {"attention", "B:1 H:2 Tq:3 Tk:3 D:4 causal:1 window:-1", "window -1: 0 for no limit"},
    {"attention", "B:1 H:2 Tq:4 Tk:3 D:4 causal:1 window:2", "Tq 4 above Tk 3"},
    {"attention_backward", "B:1 H:2 Tq:3 Tk:3 D:4 causal:1 window:2 padded:1", "window with padded"},
    {"attention_backward", "B:2000000 H:1 Tq:1 Tk:1 D:1 padded:1", "padded: B 2000000, at most 1048576"},
    {"attention_packed", "B:1 T:3 H:2 D:4 scale:1e-40", "1e-30 to 1e30"},
    {"attention_packed_backward", "B:1 T:3 H:2 D:4 dtype:i32", "dtype i32"},
};
const Refused kGemm[]{
    {"gemm", "m:1 n:1 k:1 dtype:i8 alpha:2", "alpha: only 1 with dtype i8"},
    {"gemm", "m:1 n:1 k:1 dtype:i8 math:tf32", "math tf32: only with dtype f32"},
    {"gemm", "m:1 n:1 k:131072 dtype:i8", "k 131072: at most 131071"},
    {"gemm_acc", "m:1 n:1 k:1 dtype:i8", "dtype i8"},
    {"spmm", "m:2147483648 k:1 n:1 nnz:0", "m, k and nnz: below 2^31"},
    {"mf_step", "users:3 items:2147483648 f:2 n:5", "users, items and n: below 2^31"},
};
const Refused kElementwise[]{
    {"prune", "n:8 scheme:magnitude sparsity:-0.5", "sparsity must lie in 0 to 1, is -0.5"},
};
const Refused kOptimisers[]{
    {"adam", "n:7 beta1:1", "beta1 1: 0 or more and below 1"},
    {"adamw", "n:7 beta2:-0.5", "beta2 -0.5: 0 or more and below 1"},
    {"clip_grad_norm", "n:7 max_norm:-1", "max_norm -1: a finite norm above 0 is allowed"},
    {"clip_grad_norm", "n:7 max_norm:0", "max_norm 0: a finite norm above 0 is allowed"},
};
const Refused kRecurrent[]{
    {"lstm", "T:1 B:2000000 I:1 H:1 padded:1", "padded: B 2000000, at most 1048576"},
    {"gru_backward", "T:1 B:2000000 I:1 H:1 padded:1", "padded: B 2000000, at most 1048576"},
    {"lstm_training", "T:1 B:2000000 I:1 H:1 padded:1", "padded: B 2000000, at most 1048576"},
    {"gru_training", "T:1 B:1 I:1 H:1 dtype:i8", "dtype i8"},
    {"gru_training", "T:1 B:1 I:1 H:1 layers:0", "layers 0: 1 to 64"},
    {"rnn_tanh_training", "T:1 B:1 I:1 H:1 layers:65", "layers 65: 1 to 64"},
    {"lstm_training", "T:1 B:1 I:1 H:1 dropout:0.5", "it lies between layers, there is one"},
    {"lstm_training", "T:1 B:1 I:1 H:1 layers:2 dropout:1", "from 0 to below 1"},
    {"lstm_training", "T:1 B:1 I:1 H:1 layers:2 dropout:-0.5", "from 0 to below 1"},
};
const Refused kConv[]{
    {"conv2d", "n:1 c:6 h:5 w:5 k:8 r:3 s:3 groups:4", "groups 4: must divide c and k"},
    {"conv2d_bias", "n:1 c:4 h:5 w:5 k:6 r:3 s:3 groups:4", "groups 4: must divide c and k"},
    {"conv2d", "n:1 c:2 h:5 w:5 k:3 r:0 s:1", "r 0, s 1: a filter has 1 or more rows and columns"},
    {"conv2d_bias", "n:1 c:2 h:5 w:5 k:3 r:3 s:0", "r 3, s 0: a filter has 1 or more rows and columns"},
    {"conv2d_backward_data", "n:1 c:2 h:5 w:5 k:3 r:0 s:1", "r 0, s 1: a filter has 1 or more rows and columns"},
    {"conv2d_backward_filter", "n:1 c:2 h:5 w:5 k:3 r:1 s:0", "r 1, s 0: a filter has 1 or more rows and columns"},
    {"conv2d_bias", "n:1 c:1 h:5 w:5 k:1 r:3 s:3 act:gelu", "allowed are none and relu"},
    {"conv2d", "n:1 c:1 h:5 w:5 k:1 r:3 s:3 groups:0", "groups 0: must divide c and k, 1 or more"},
    {"conv2d_backward_data", "n:1 c:1 h:5 w:5 k:1 r:3 s:3 stride_w:0", "stride_h, stride_w: 1 or more"},
    {"conv2d_backward_filter", "n:1 c:1 h:5 w:5 k:1 r:3 s:3 dil_h:0", "dil_h, dil_w: 1 or more"},
    {"conv2d", "n:1 c:1 h:5 w:5 k:1 r:3 s:3 pad_h:-1", "pad_h, pad_w: 0 or more"},
    {"conv2d", "n:1 c:1 h:5 w:5 k:1 r:3 s:3 pad_w:2147483648", "2147483648: extents, pads"},
};
const Refused kPool[]{
    {"max_pool2d", "n:1 c:1 h:5 w:5 r:2 s:2 pad_h:2", "pad_h, pad_w: less than a window"},
    {"avg_pool2d", "n:1 c:1 h:5 w:5 r:0 s:2", "r, s: 1 or more"},
    {"avg_pool2d", "n:1 c:1 h:5 w:5 r:2 s:2 stride_h:0", "stride_h, stride_w: 1 or more"},
    {"max_pool2d_backward", "n:1 c:1 h:5 w:5 r:2 s:2 dil_w:0", "dil_h, dil_w: 1 or more"},
    {"max_pool2d", "n:1 c:1 h:16777217 w:1 r:1 s:1", "16777217: extents, pads"},
};
INSTANTIATE_TEST_SUITE_P(Conv, RefusedProblems, testing::ValuesIn(kConv));
INSTANTIATE_TEST_SUITE_P(Pool, RefusedProblems, testing::ValuesIn(kPool));
INSTANTIATE_TEST_SUITE_P(Elementwise, RefusedProblems, testing::ValuesIn(kElementwise));
INSTANTIATE_TEST_SUITE_P(Optimisers, RefusedProblems, testing::ValuesIn(kOptimisers));
INSTANTIATE_TEST_SUITE_P(Recurrent, RefusedProblems, testing::ValuesIn(kRecurrent));
INSTANTIATE_TEST_SUITE_P(Gemm, RefusedProblems, testing::ValuesIn(kGemm));
INSTANTIATE_TEST_SUITE_P(Attention, RefusedProblems, testing::ValuesIn(kAttention));

}  // namespace
}  // namespace duet
