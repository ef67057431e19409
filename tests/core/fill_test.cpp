// SPDX-License-Identifier: Apache-2.0
// Drawn data: reproducible, and for each named fill what its name says.
#include "core/fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

namespace duet {
namespace {

constexpr int64_t kElements = 4099;

struct Drawn {
  DType dtype;
  std::vector<unsigned char> bytes;
  double operator[](int64_t i) const { return load_as_double(bytes.data(), dtype, i); }
  uint64_t bits(int64_t i) const {
    uint64_t b = 0;
    const auto size = static_cast<size_t>(size_of(dtype));
    std::memcpy(&b, bytes.data() + static_cast<size_t>(i) * size, size);
    return b;
  }
};
Drawn draw(const char* fill, DType dtype, FillMode mode = FillMode::values, int64_t elements = kElements) {
  Drawn d{dtype, std::vector<unsigned char>(static_cast<size_t>(elements * size_of(dtype)), 0xFF)};
  fill_values(d.bytes.data(), dtype, elements, Fill::from(fill, {}), mode, 7);
  return d;
}

class NamedFills : public testing::TestWithParam<DType> {};

TEST_P(NamedFills, EdgesHoldEveryEdgeWithBothSigns) {
  const DType dtype = GetParam();
  const Drawn d = draw("edges", dtype);
  std::set<std::pair<double, bool>> seen;
  for (int64_t i = 0; i < kElements; ++i) {
    ASSERT_TRUE(std::isfinite(d[i])) << i;
    seen.insert({d[i], std::signbit(d[i])});
  }
  EXPECT_EQ(seen.size(), 16u);
  const double u = unit_roundoff(dtype), smallest = underflow(dtype);
  for (const double sign : {1.0, -1.0})
    for (const double value :
         {0.0, smallest * 2 * u, smallest * (1 - 2 * u), smallest, 1 - u, 1.0, 1 + 2 * u, largest(dtype)})
      EXPECT_TRUE(seen.contains({sign * value, sign < 0})) << name_of(dtype) << " " << sign * value;
}

TEST_P(NamedFills, InfinitiesAndNaNOnlyWhereNamed) {
  const DType dtype = GetParam();
  const auto count = [&](const char* fill, auto is) {
    const Drawn d = draw(fill, dtype);
    int64_t n = 0;
    for (int64_t i = 0; i < kElements; ++i) n += is(d[i]);
    return n;
  };
  const auto inf = [](double v) { return std::isinf(v); };
  const auto nan = [](double v) { return std::isnan(v); };
  EXPECT_GT(count("edges+inf", inf), 0);
  EXPECT_EQ(count("edges+inf", nan), 0);
  EXPECT_GT(count("edges+inf+nan", inf), 0);
  EXPECT_GT(count("edges+inf+nan", nan), 0);
  std::set<uint64_t> payloads;
  const Drawn d = draw("edges+inf+nan", dtype);
  for (int64_t i = 0; i < kElements; ++i) {
    const uint64_t unwritten = ~uint64_t{0} >> (64 - 8 * size_of(dtype));
    if (std::isnan(d[i]) && d.bits(i) != unwritten) payloads.insert(d.bits(i));
    EXPECT_NE(d.bits(i), unwritten) << "would read as never written";
  }
  EXPECT_GE(payloads.size(), 6u);
}

TEST_P(NamedFills, SubnormalsAreBelowTheSmallestNormal) {
  const Drawn d = draw("subnormal", GetParam());
  for (int64_t i = 0; i < kElements; ++i) {
    EXPECT_NE(d[i], 0);
    EXPECT_LT(std::abs(d[i]), underflow(GetParam()));
  }
}

TEST_P(NamedFills, TheLastElementIsTheNamedOne) {
  for (const FillMode mode : {FillMode::values, FillMode::integers}) {
    const Drawn d = draw("last:nan", GetParam(), mode);
    for (int64_t i = 0; i < kElements; ++i) EXPECT_EQ(std::isnan(d[i]), i == kElements - 1);
  }
  EXPECT_TRUE(draw("last:inf", GetParam(), FillMode::values, 0).bytes.empty());
}

TEST_P(NamedFills, AsIntegersAreSmallWholeNumbers) {
  for (const char* fill : {"edges", "edges+inf+nan", "subnormal", "halfway"}) {
    const Drawn d = draw(fill, GetParam(), FillMode::integers);
    for (int64_t i = 0; i < kElements; ++i) EXPECT_TRUE(std::abs(d[i]) <= 3 && d[i] == std::floor(d[i])) << fill;
  }
}

INSTANTIATE_TEST_SUITE_P(Fills, NamedFills, testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// A third of the values lies halfway between two values of a half, a third just above and a third just below.
TEST(Fills, HalfwayLiesBetweenTwoValuesOfAHalf) {
  const Drawn d = draw("halfway", DType::f32);
  for (const DType half : {DType::bf16, DType::f16}) {
    const auto is_tie = [&](float x) {
      const double below = round_to(half, std::nextafter(x, -INFINITY));
      const double above = round_to(half, std::nextafter(x, INFINITY));
      return below != above && (std::isinf(above - below) || x - below == above - x);
    };
    int64_t ties = 0, above = 0, below = 0;
    for (int64_t i = 0; i < kElements; ++i) {
      const auto x = static_cast<float>(d[i]);
      if (is_tie(x))
        ++ties;
      else if (is_tie(std::nextafter(x, -INFINITY)))
        ++above;
      else if (is_tie(std::nextafter(x, INFINITY)))
        ++below;
    }
    for (const int64_t n : {ties, above, below}) EXPECT_GT(n, kElements / 10) << name_of(half);
  }
}

}  // namespace
}  // namespace duet
