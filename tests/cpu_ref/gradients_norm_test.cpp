// SPDX-License-Identifier: Apache-2.0
// The gradients of norms, pooling and embedding against finite differences; see gradient.h.
#include "ops/embedding/embedding.h"
#include "ops/norm/batchnorm.h"
#include "ops/norm/l2_normalise.h"
#include "ops/norm/layernorm.h"
#include "ops/norm/rmsnorm.h"
#include "ops/pool/avg_pool2d.h"
#include "ops/pool/global_avg_pool.h"
#include "ops/pool/max_pool2d_training.h"
#include "tests/cpu_ref/gradient.h"

namespace duet {
namespace {

TEST(Gradients, LayerNorm) {
  EXPECT_EQ(check_gradient(LayerNorm{.rows = 5, .cols = 33}, LayerNormBackward{.rows = 5, .cols = 33}),
            5 * 33 + 33 + 33);
  EXPECT_EQ(check_gradient(LayerNorm{.rows = 3, .cols = 1}, LayerNormBackward{.rows = 3, .cols = 1}), 3 + 1 + 1);
}

TEST(Gradients, RmsNorm) {
  EXPECT_EQ(check_gradient(RmsNorm{.rows = 5, .cols = 33}, RmsNormBackward{.rows = 5, .cols = 33}), 5 * 33 + 33);
  EXPECT_EQ(check_gradient(RmsNorm{.rows = 3, .cols = 1}, RmsNormBackward{.rows = 3, .cols = 1}), 3 + 1);
}

TEST(Gradients, L2Normalise) {
  using Backward = L2NormaliseBackward;
  EXPECT_EQ(check_gradient(L2Normalise{.rows = 5, .cols = 33}, Backward{.rows = 5, .cols = 33}), 5 * 33);
  // Rows that are shorter than eps.
  EXPECT_EQ(check_gradient(L2Normalise{.rows = 3, .cols = 2, .eps = 9}, Backward{.rows = 3, .cols = 2, .eps = 9}), 6);
}

TEST(Gradients, BatchNorm) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    for (const Channels& p : {Channels{.n = 3, .c = 4, .h = 3, .w = 5}, Channels{.n = 7, .c = 3, .h = 1, .w = 1}})
      for (const NormAct act : {NormAct::none, NormAct::relu})
        for (const bool residual : {false, true}) {
          if (residual && act == NormAct::none) continue;
          Channels q = p;
          q.layout = layout;
          q.act = act;
          q.residual = residual;
          EXPECT_EQ(check_gradient(BatchNorm{q}, BatchNormBackward{q}), (residual ? 2 : 1) * q.elements() + 2 * q.c);
        }
}

const Pool2d kWindows[] = {
    {.n = 2, .c = 3, .h = 6, .w = 5, .r = 2, .s = 2, .stride_h = 2, .stride_w = 2},
    {.n = 1, .c = 3, .h = 7, .w = 6, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1, .stride_h = 2, .stride_w = 2},
    {.n = 2, .c = 2, .h = 5, .w = 4, .r = 3, .s = 2, .pad_w = 1},
    {.n = 1, .c = 2, .h = 7, .w = 9, .r = 2, .s = 3, .pad_h = 1, .stride_w = 3, .dil_h = 3, .dil_w = 2}};

TEST(Gradients, MaxPool2d) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    for (Pool2d p : kWindows) {
      p.layout = layout;
      EXPECT_EQ(check_gradient(MaxPool2d{p}, MaxPool2dBackward{p}), p.x_elements());
      EXPECT_EQ(check_gradient(MaxPool2d{p}, MaxPool2dTraining{p}), p.x_elements());
    }
}

TEST(Gradients, AvgPool2d) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    for (const bool count_pad : {false, true})
      for (Pool2d p : kWindows) {
        p.layout = layout;
        EXPECT_EQ(check_gradient(AvgPool2d{p, count_pad}, AvgPool2dBackward{p, count_pad}), p.x_elements());
      }
}

TEST(Gradients, GlobalAvgPool) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    EXPECT_EQ(check_gradient(GlobalAvgPool{2, 3, 5, 4, layout}, GlobalAvgPoolBackward{2, 3, 5, 4, layout}), 120);
}

TEST(Gradients, Embedding) {
  EXPECT_EQ(check_gradient(Embedding{3, 4, 5, 3}, EmbeddingBackward{3, 4, 5, 3}), 5 * 3 + 4 * 3);
  const Embedding alone{.B = 3, .T = 4, .V = 50, .C = 3, .position = false};
  EXPECT_EQ(check_gradient(alone, EmbeddingBackward{.B = 3, .T = 4, .V = 50, .C = 3, .position = false}), 50 * 3);
}

}  // namespace
}  // namespace duet
