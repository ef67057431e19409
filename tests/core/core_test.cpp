// SPDX-License-Identifier: Apache-2.0
// The vocabulary: dtypes, labels, attributes, fills, buffers, plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string_view>
#include <tuple>

#include "core/build_info.h"
#include "core/context.h"
#include "core/cpu_context.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/fill.h"
#include "core/registry.h"
#include "core/session.h"
#include "ops/norm/softmax.h"

namespace duet {
namespace {

TEST(DTypes, HalvesRoundTripExhaustively) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    f16 h;
    h.bits = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(h);
    if (std::isnan(value)) continue;
    EXPECT_EQ(f16(value).bits, h.bits);
    EXPECT_EQ(round_to(DType::f16, value), value);
    bf16 b;
    b.bits = static_cast<uint16_t>(bits);
    if (const float wide = static_cast<float>(b); !std::isnan(wide)) {
      EXPECT_EQ(bf16(wide).bits, b.bits);
      EXPECT_EQ(round_to(DType::bf16, wide), wide);
    }
  }
}

TEST(DTypes, EightBitFloatsRoundTripExhaustively) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    f8e4m3 f;
    f.bits = static_cast<uint8_t>(bits);
    const auto value = static_cast<float>(f);
    EXPECT_EQ(f8e4m3(value).bits, f.bits);
    EXPECT_EQ(std::isnan(value), (bits & 0x7f) == 0x7f) << bits;
    if (!std::isnan(value)) {
      EXPECT_EQ(round_to(DType::f8e4m3, value), value);
    }
  }
  const auto value_of = [](uint8_t bits) {
    f8e4m3 f;
    f.bits = bits;
    return static_cast<float>(f);
  };
  // From table 3 of the OCP specification: largest, smallest normal, largest and smallest subnormal; and 1.
  EXPECT_EQ(value_of(0x7e), 448);
  EXPECT_EQ(value_of(0x08), 0x1p-6f);
  EXPECT_EQ(value_of(0x07), 0.875f * 0x1p-6f);
  EXPECT_EQ(value_of(0x01), 0x1p-9f);
  EXPECT_EQ(value_of(0x38), 1);
  EXPECT_EQ(value_of(0xb8), -1);
}

TEST(DTypes, RoundsHalfwayToEven) {
  EXPECT_EQ(round_to(DType::bf16, 1 + 0x1p-8), 1);
  EXPECT_EQ(round_to(DType::bf16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(round_to(DType::f16, 1 + 0x1p-11), 1);
  EXPECT_EQ(round_to(DType::f16, 65520), INFINITY);
  EXPECT_EQ(round_to(DType::f16, 65519), 65504);
  EXPECT_EQ(round_to(DType::f16, 0x1p-25), 0);
  EXPECT_EQ(round_to(DType::f16, 3 * 0x1p-25), 0x1p-23);
  EXPECT_EQ(round_to(DType::i8, 200), 127);
  EXPECT_EQ(round_to(DType::u8, -1), 0);
  EXPECT_EQ(round_to(DType::f8e4m3, 1 + 0x1p-4), 1);
  EXPECT_EQ(round_to(DType::f8e4m3, 1 + 3 * 0x1p-4), 1.25);
  EXPECT_EQ(round_to(DType::f8e4m3, 0x1p-10), 0);
  EXPECT_EQ(round_to(DType::f8e4m3, 3 * 0x1p-10), 0x1p-8);
  EXPECT_EQ(round_to(DType::f8e4m3, 1000), 448);
  EXPECT_EQ(round_to(DType::f8e4m3, -INFINITY), -448);
  // One rounding, not two by way of f32: just above a halfway point that f32 cannot tell from it.
  EXPECT_EQ(round_to(DType::bf16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
}

// round_to() works on the bits of a double; here is what it has to give.
TEST(DTypes, RoundsToTheNearestMultipleOfTheUnit) {
  std::mt19937_64 random(1);
  for (const auto& [dtype, significand_bits, min_exponent] :
       {std::tuple{DType::bf16, 8, -126}, {DType::f16, 11, -14}, {DType::f8e4m3, 4, -6}})
    for (int i = 0; i < 100'000; ++i) {
      // Of all exponents around the range of the dtype, every third value within a few steps of a halfway point.
      const int exponent = static_cast<int>(random() % 300) - 150;
      double value = std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, exponent);
      const double unit = std::ldexp(1.0, std::max(std::ilogb(value), min_exponent) - significand_bits + 1);
      if (i % 3 == 0) {
        value = (std::floor(value / unit) + 0.5) * unit;
        for (uint64_t step = random() % 3; step > 0; --step) value = std::nextafter(value, i % 2 ? 0 : INFINITY);
      }
      double want = std::nearbyint(value / unit) * unit;
      if (want > largest(dtype)) want = dtype == DType::f8e4m3 ? largest(dtype) : INFINITY;
      EXPECT_EQ(round_to(dtype, value), want) << value;
      EXPECT_EQ(round_to(dtype, -value), -want) << -value;
    }
}

TEST(DTypes, NamesAreChecked) {
  EXPECT_EQ(dtype_from("bf16"), DType::bf16);
  EXPECT_THROW(dtype_from("float"), Error);
}

TEST(Labels, DimensionsAlwaysOptionsWhenNotDefault) {
  const Problem p = Problem::of(Softmax{.rows = 3, .cols = 31});
  EXPECT_EQ(p.label(), "f32/rows:3/cols:31");
  EXPECT_EQ(p.with("dtype", "bf16").label(), "bf16/rows:3/cols:31");
  EXPECT_EQ(p.with_words("x=edges").label(), "f32/rows:3/cols:31/x=edges");
}

TEST(Labels, BadInputNamesTheValue) {
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const Problem p = Problem::of(Softmax{});
  EXPECT_NE(message([&] { p.with("row", "3"); }).find("'row'"), std::string::npos);
  EXPECT_NE(message([&] { p.with("rows", "3x"); }).find("'3x'"), std::string::npos);
  EXPECT_NE(message([&] { p.with("rows", "99999999999999999999"); }).find("64 bits"), std::string::npos);
  EXPECT_NE(message([&] { p.with("dtype", "f31"); }).find("f31"), std::string::npos);
  EXPECT_NE(message([&] { p.with("rows", "-1").validate(); }).find("-1"), std::string::npos);
  EXPECT_NE(message([&] { find_op("sofmax"); }).find("did you mean softmax"), std::string::npos);
  EXPECT_NE(message([&] { JobName::parse("softmax"); }).find("softmax"), std::string::npos);
}

TEST(Fills, AreReproducibleAndFarFromConstant) {
  const Problem p = Problem::of(Softmax{.rows = 40, .cols = 50});
  const HostTensors a = draw_inputs(p, FillMode::values, 1), b = draw_inputs(p, FillMode::values, 1),
                    c = draw_inputs(p, FillMode::values, 2);
  EXPECT_EQ(std::memcmp(a.data(0), b.data(0), 8000), 0);
  EXPECT_NE(std::memcmp(a.data(0), c.data(0), 8000), 0);
  const auto* x = static_cast<const float*>(a.data(0));
  EXPECT_GT(std::set<float>(x, x + 2000).size(), 1900u);
  EXPECT_TRUE(std::all_of(x, x + 2000, [](float v) { return v >= -20 && v <= 20; }));
  const HostTensors whole = draw_inputs(p, FillMode::integers, 1);
  const auto* w = static_cast<const float*>(whole.data(0));
  EXPECT_TRUE(std::all_of(w, w + 2000, [](float v) { return v == std::floor(v) && std::abs(v) <= 3; }));
}

TEST(Buffers, GuardsSeeAWriteOutside) {
  CpuContext cpu(1);
  for (const int64_t bytes : {int64_t{0}, int64_t{12}, int64_t{3} << 20}) {
    Buffer b(cpu, bytes);
    EXPECT_TRUE(b.guards_intact());
    if (bytes) {
      EXPECT_TRUE(std::isnan(*b.as<float>()));
    }
    for (const int64_t at : {bytes, bytes + 4096, bytes + 16383, int64_t{-1}, int64_t{-16384}}) {
      const uint8_t before = b.as<uint8_t>()[at];
      b.as<uint8_t>()[at] = static_cast<uint8_t>(before + 1);
      EXPECT_FALSE(b.guards_intact()) << at;
      b.as<uint8_t>()[at] = before;
      EXPECT_TRUE(b.guards_intact());
    }
  }
}

// No byte value is the right one everywhere: not 0xFF, with which memory is poisoned, and no other.
TEST(Buffers, GuardsSeeConstantBytes) {
  CpuContext cpu(1);
  for (const int value : {0xFF, 0x00, 0x7F}) {
    Buffer b(cpu, 64);
    std::memset(b.as<uint8_t>() + 64, value, 16);
    EXPECT_FALSE(b.guards_intact()) << value;
  }
}

TEST(Buffers, GuardsWithinTheData) {
  CpuContext cpu(1);
  Buffer b(cpu, 4096);
  b.add_guard(100, 200);
  EXPECT_TRUE(b.guards_intact());
  std::memset(b.as<uint8_t>() + 96, 0xFF, 4);
  EXPECT_TRUE(b.guards_intact());
  ++b.as<uint8_t>()[199];
  EXPECT_NE(b.guard_failure().find("byte 199"), std::string::npos) << b.guard_failure();
}

// With a fence the data ends, or begins, where access does.
TEST(BuffersDeathTest, AFenceEndsTheProcess) {
  for (const Fence fence : {Fence::behind, Fence::before}) {
    CpuContext cpu(1, fence);
    Buffer b(cpu, 12, "x", 4);
    EXPECT_TRUE(b.guards_intact());
    b.as<volatile float>()[0] = 1;
    b.as<volatile float>()[2] = 1;
    EXPECT_TRUE(b.guards_intact());
    EXPECT_DEATH(b.as<volatile float>()[fence == Fence::behind ? 3 : -1], "");
  }
}

TEST(Buffers, RefuseWhatCannotFit) {
  CpuContext cpu(1);
  EXPECT_THROW(Buffer(cpu, int64_t{1} << 50), Error);
}

TEST(Plans, RefuseTheWrongView) {
  Tensor t{nullptr, DType::f32, Role::in};
  EXPECT_NO_THROW(t.as<const float>());
  EXPECT_THROW(t.as<float>(), Error);
  EXPECT_THROW(t.as<const bf16>(), Error);
}

TEST(CpuContexts, CheckTheirThreads) {
  EXPECT_THROW(CpuContext(0), Error);
  EXPECT_THROW(CpuContext(100000), Error);
}

TEST(CpuContexts, FlushDenormalsInsideOnly) {
  CpuContext cpu(std::min(2, usable_threads()));
  volatile float small = 1e-38f, half = 0.5f;
  std::atomic<int> flushed{0}, kept{0};
  const auto count = [&](int64_t, int64_t) { ++(small * half == 0 ? flushed : kept); };
  cpu.enter([&] { cpu.parallel_for(1000, 1, count); });
  EXPECT_GT(flushed, 0);
  EXPECT_EQ(kept, 0) << "a worker thread keeps denormals";
  EXPECT_NE(small * half, 0) << "the caller's own mode is put back";
}

// The golden list names every implementation of every flavour: one that vanishes is missed.
TEST(Registry, IsTheGoldenList) {
  std::set<std::string> golden;
  for (const GoldenLine& g : registry_golden()) golden.insert(g.op + " " + g.implementation);
  ASSERT_FALSE(golden.empty());
  std::string reason;
  std::set<Device> built;
  for (const auto& [name, op] : ops())
    for (const Implementation* i : implementations(name)) {
      EXPECT_TRUE(golden.contains(name + " " + i->name))
          << "add to ops/registry_golden.txt: " << name << " " << i->name;
      built.insert(i->device);
    }
  const auto libraries = build_info().libraries;
  std::set<std::string> off;  // without their libraries, which are optional
  for (const auto& [implementation, library] :
       {std::pair{"cpu.onednn", "oneDNN"}, std::pair{"cuda.cub", "CUB"}, std::pair{"cuda.cusparse", "cuSPARSE"},
        std::pair{"cpu.onednn_packed", "oneDNN"}, std::pair{"cuda.cusparselt", "cuSPARSELt"}})
    if (std::none_of(libraries.begin(), libraries.end(),
                     [&](const BuildLibrary& l) { return std::string_view(l.name) == library; }))
      off.insert(implementation);
  for (const GoldenLine& g : registry_golden()) {
    const Device d = g.implementation.starts_with("cpu.")    ? Device::cpu
                     : g.implementation.starts_with("simt.") ? Device::simt
                                                             : Device::cuda;
    if (off.contains(g.implementation)) continue;
    if (built.contains(d)) {
      EXPECT_TRUE(find_implementation(g.op, g.implementation)) << g.op << " " << g.implementation << " vanished";
    }
  }
}

}  // namespace
}  // namespace duet
