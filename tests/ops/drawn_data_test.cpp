// SPDX-License-Identifier: Apache-2.0
// Data that fills do not draw: means that dwarf the spread, constants, scores that overflow an exp, labels and tokens
// that there are not, zeros at a kink, and what the forward pass leaves for the backward one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <span>

#include "core/cpu_context.h"
#include "core/session.h"
#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/cross_entropy.h"
#include "ops/norm/batchnorm.h"
#include "ops/norm/layernorm.h"
#include "ops/norm/softmax.h"
#include "ops/pool/max_pool2d_training.h"
#include "ops/recurrent/recurrent.h"
#include "simt/simt.h"

namespace duet {
namespace {

// Every implementation on the CPU and every kernel on the host, on inputs that were changed after they were drawn.
void check_all(const Problem& problem, const std::function<void(HostTensors&)>& change) {
  CpuContext cpu(1);
  std::string reason;
  const std::unique_ptr<Context> simt = open_simt(reason);
  HostTensors in = draw_inputs(problem, FillMode::values, 1);
  change(in);
  const Expected expected = Expected::all(problem, in);
  int checked = 0;
  for (const Implementation* implementation : implementations(problem.name())) {
    if (implementation->device == Device::cuda || (implementation->device == Device::simt && !simt)) continue;
    Context& context = implementation->device == Device::cpu ? cpu : *simt;
    Session session(problem, *implementation, context, in);
    if (!session.supported()) continue;
    context.enter([&] { session.run(); });
    const Check check = session.check(expected, false);
    EXPECT_TRUE(check.passed()) << problem.name() << " " << problem.label() << " " << implementation->name << ": "
                                << check.failure;
    ++checked;
  }
  EXPECT_GT(checked, 0) << problem.name();
}

std::span<float> floats(HostTensors& in, Slot slot) {
  const auto s = static_cast<size_t>(slot.index);
  return {static_cast<float*>(in.data(s)), static_cast<size_t>(in.specs()[s].elements())};
}
std::span<int32_t> numbers(HostTensors& in, Slot slot) {
  const auto s = static_cast<size_t>(slot.index);
  return {static_cast<int32_t*>(in.data(s)), static_cast<size_t>(in.specs()[s].elements())};
}
auto scaled(Slot slot, float by) {
  return [slot, by](HostTensors& in) {
    for (float& v : floats(in, slot)) v *= by;
  };
}

// Inputs of a backward pass by name: those of the forward pass, and its outputs.
void hand_over(const Problem& forward, const HostTensors& given, HostTensors& in) {
  const HostTensors out = run_reference(forward, given);
  for (size_t to = 0; to < in.size(); ++to)
    for (size_t from = 0; from < out.size(); ++from) {
      const TensorSpec &target = in.specs()[to], &source = out.specs()[from];
      if (target.role == Role::out || std::string(target.name) != source.name) continue;
      const HostTensors& holder = source.role == Role::in ? given : out;
      std::memcpy(in.data(to), holder.data(from), static_cast<size_t>(source.bytes()));
    }
}

template <class P>
void check_means(const P& p) {
  const auto elements = [](HostTensors& in) {
    return std::span(static_cast<float*>(in.data(0)), static_cast<size_t>(in.specs()[0].elements()));  // x
  };
  check_all(Problem::of(p), [&](HostTensors& in) {
    for (float& v : elements(in)) v += 10000;
  });
  check_all(Problem::of(p), [&](HostTensors& in) {
    for (float& v : elements(in)) v = 3;
  });
}

TEST(DrawnData, MeansBeyondTheSpreadAndConstants) {
  check_means(LayerNorm{.rows = 5, .cols = 33});
  check_means(LayerNorm{.rows = 3, .cols = 1031});
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    check_means(BatchNorm{{.n = 4, .c = 5, .h = 3, .w = 7, .layout = layout}});
}

TEST(DrawnData, IndexOfTheForwardPass) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    const Pool2d p{.n = 2,
                   .c = 3,
                   .h = 33,
                   .w = 35,
                   .r = 3,
                   .s = 3,
                   .pad_h = 1,
                   .pad_w = 1,
                   .stride_h = 2,
                   .stride_w = 2,
                   .layout = layout};
    const Problem forward = Problem::of(MaxPool2d{p});
    const HostTensors out = run_reference(forward, draw_inputs(forward, FillMode::values, 1));
    const auto index = static_cast<size_t>(MaxPool2d::index.index);
    check_all(Problem::of(MaxPool2dBackward{p}), [&](HostTensors& in) {
      std::memcpy(in.data(0), out.data(index), static_cast<size_t>(out.specs()[index].bytes()));
    });
  }
}

// exp overflows f32 at 88. Scores of 160 that differ by about 6: what is left of them is no smaller than usual.
void far_away(HostTensors& in) {
  for (float& v : floats(in, Attention::q)) v += 10;
  for (float& v : floats(in, Attention::k)) v += 4;
}
TEST(DrawnData, ScoresBeyondTheRangeOfExp) {
  for (const bool causal : {false, true}) {
    const AttentionShape shape{.B = 1, .H = 2, .Tq = 33, .Tk = 67, .D = 16, .causal = causal};
    const Problem forward = Problem::of(Attention{shape});
    check_all(forward, far_away);
    HostTensors given = draw_inputs(forward, FillMode::values, 1);
    far_away(given);
    check_all(Problem::of(AttentionBackward{shape}), [&](HostTensors& in) { hand_over(forward, given, in); });
  }
  const Problem forward = Problem::of(CrossEntropy{.rows = 5, .cols = 67});
  const auto far = scaled(CrossEntropy::x, 100);
  check_all(forward, far);
  HostTensors given = draw_inputs(forward, FillMode::values, 1);
  far(given);
  check_all(Problem::of(CrossEntropyBackward{.rows = 5, .cols = 67}),
            [&](HostTensors& in) { hand_over(forward, given, in); });
}

// The product of four exp, by which the gates of a cell share a division, is infinite from 88 in sum.
// Attention masks are -inf. Implementations cut long rows into parts, and here a whole part is masked.
TEST(DrawnData, RowsOfWhichAWholePartIsMasked) {
  constexpr int64_t kPart = 2048;
  for (const int64_t first : {int64_t{0}, kPart, 5000 - kPart})
    check_all(Problem::of(Softmax{.rows = 2, .cols = 5000}), [first](HostTensors& in) {
      const std::span<float> x = floats(in, Softmax::x);
      for (int64_t c = first; c < first + kPart; ++c) x[static_cast<size_t>(c)] = -INFINITY;
    });
}

TEST(DrawnData, GatesFarIntoSaturation) {
  const RecurrentShape shape{.T = 3, .B = 3, .I = 5, .H = 9, .bidirectional = true};
  check_all(Problem::of(Lstm{shape}), scaled(Lstm::x, 45));
  check_all(Problem::of(Gru{shape}), scaled(Gru::x, 45));
  check_all(Problem::of(RnnTanh{shape}), scaled(RnnTanh::x, 45));
}

TEST(DrawnData, LabelsAndTokensThatThereAreNot) {
  constexpr int32_t kNone[] = {-1, 7, INT32_MIN, INT32_MAX, 6};
  const auto outside = [&](Slot slot) {
    return [&, slot](HostTensors& in) {
      for (size_t i = 0; i < numbers(in, slot).size(); ++i) numbers(in, slot)[i] = kNone[i % std::size(kNone)];
    };
  };
  for (const double smooth : {0., 0.25}) {
    check_all(Problem::of(CrossEntropy{.rows = 12, .cols = 7, .smooth = smooth}), outside(CrossEntropy::label));
    check_all(Problem::of(CrossEntropyBackward{.rows = 12, .cols = 7, .smooth = smooth}),
              outside(CrossEntropyBackward::label));
  }
  check_all(Problem::of(Embedding{.B = 3, .T = 4, .V = 7, .C = 33}), outside(Embedding::token));
  check_all(Problem::of(EmbeddingBackward{.B = 3, .T = 4, .V = 7, .C = 33}), outside(EmbeddingBackward::token));
}

// relu passes nothing on where y is 0, which drawn values never are.
TEST(DrawnData, ZerosAtTheKink) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    BatchNormBackward p{{.n = 3, .c = 5, .h = 3, .w = 7, .layout = layout}};
    p.act = NormAct::relu;
    check_all(Problem::of(p), [](HostTensors& in) {
      for (size_t i = 0; i < floats(in, BatchNormBackward::y).size(); i += 3) floats(in, BatchNormBackward::y)[i] = 0;
    });
  }
}

// max_pool2d_backward reads indices as a forward pass leaves them: in each window one of its pixels, -1 where it has
// none. Most of them are not alike.
TEST(DrawnData, IndicesOfMaxPoolLieInTheirWindows) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    MaxPool2dBackward p;
    p.n = 2;
    p.c = 5;
    p.h = 7;
    p.w = 9;
    p.r = p.s = 3;
    p.pad_h = p.pad_w = 2;
    p.dil_h = 2;
    p.layout = layout;
    HostTensors in = draw_inputs(Problem::of(p), FillMode::values, 1);
    const auto index = numbers(in, MaxPool2dBackward::index);
    int64_t first = 0;
    for (size_t at = 0; at < index.size(); ++at) {
      const int64_t place = static_cast<int64_t>(at) / p.depth() % (p.ho() * p.wo());
      std::vector<int64_t> window;
      p.in_window(place / p.wo(), place % p.wo(), [&](int64_t pixel) { window.push_back(pixel); });
      if (window.empty()) window.push_back(-1);
      EXPECT_NE(std::find(window.begin(), window.end(), index[at]), window.end()) << at;
      first += index[at] == window.front();
    }
    EXPECT_LT(first, static_cast<int64_t>(index.size()) / 2);
  }
}

// max_pool2d_training: libraries choose differently among equal elements of a window, so there are none.
TEST(DrawnData, NoWindowOfMaxPoolTrainingHasEqualElements) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      MaxPool2dTraining p{{.n = 2, .c = 5, .h = 17, .w = 19, .r = 3, .s = 2}};
      p.pad_h = 2;
      p.pad_w = 1;
      p.stride_w = 2;
      p.dil_h = 2;
      p.dil_w = 3;
      p.dtype = dtype;
      p.layout = layout;
      const HostTensors in = draw_inputs(Problem::of(p), FillMode::values, 1);
      const auto x = static_cast<size_t>(MaxPool2dTraining::x.index);
      std::set<double> all;
      for (int64_t image = 0; image < p.images(); ++image)
        for (int64_t channel = 0; channel < p.depth(); ++channel)
          for (int64_t place = 0; place < p.ho() * p.wo(); ++place) {
            std::set<double> of_window;
            size_t pixels = 0;
            p.in_window(place / p.wo(), place % p.wo(), [&](int64_t pixel) {
              of_window.insert(load_as_double(in.data(x), dtype, (image * p.h * p.w + pixel) * p.depth() + channel));
              ++pixels;
            });
            ASSERT_EQ(of_window.size(), pixels) << "window " << place << " of image " << image;
            all.insert(of_window.begin(), of_window.end());
          }
      EXPECT_GT(all.size(), 200u);
      EXPECT_GE(*all.begin(), -128);
      EXPECT_LE(*all.rbegin(), 127);
    }
}

}  // namespace
}  // namespace duet
