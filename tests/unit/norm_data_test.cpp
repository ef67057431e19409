// Data that fills do not draw: means that dwarf the spread, constants, and an index as the forward pass leaves it.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <span>

#include "core/cpu_context.h"
#include "core/session.h"
#include "ops/norm/batchnorm.h"
#include "ops/norm/layernorm.h"
#include "ops/pool/max_pool2d.h"

namespace duet {
namespace {

// Every implementation on the CPU, on inputs that were changed after they were drawn.
void check_all(const Problem& problem, const std::function<void(HostTensors&)>& change) {
  CpuContext cpu(1);
  HostTensors in = draw_inputs(problem, FillMode::values, 1);
  change(in);
  const Expected expected = Expected::all(problem, in);
  int checked = 0;
  for (const Implementation* implementation : implementations(problem.name())) {
    if (implementation->device != Device::cpu) continue;
    Session session(problem, *implementation, cpu, in);
    if (!session.supported()) continue;
    cpu.enter([&] { session.run(); });
    const Check check = session.check(expected, false);
    EXPECT_TRUE(check.passed()) << problem.name() << " " << problem.label() << " " << implementation->name << ": "
                                << check.failure;
    ++checked;
  }
  EXPECT_GT(checked, 0) << problem.name();
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

TEST(NormData, MeansBeyondTheSpreadAndConstants) {
  check_means(LayerNorm{.rows = 5, .cols = 33});
  check_means(LayerNorm{.rows = 3, .cols = 1031});
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    check_means(BatchNorm{{.n = 4, .c = 5, .h = 3, .w = 7, .layout = layout}});
}

TEST(PoolData, IndexOfTheForwardPass) {
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
    const HostTensors out = run_oracle(forward, draw_inputs(forward, FillMode::values, 1));
    const auto index = static_cast<size_t>(MaxPool2d::index.index);
    check_all(Problem::of(MaxPool2dBackward{p}), [&](HostTensors& in) {
      std::memcpy(in.data(0), out.data(index), static_cast<size_t>(out.specs()[index].bytes()));
    });
  }
}

}  // namespace
}  // namespace duet
