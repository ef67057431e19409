// SPDX-License-Identifier: Apache-2.0
// The learning rate over the updates of a training.
#include "models/schedule.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace duet {
namespace {
using Kind = Schedule::Kind;

TEST(Schedule, WarmsUpLinearlyInEveryKind) {
  for (const Kind kind : {Kind::constant, Kind::cosine, Kind::step, Kind::inverse_sqrt}) {
    const Schedule s{.kind = kind, .base = 8, .warm_up = 4, .updates = 100};
    EXPECT_EQ(s.at(0), 2) << name_of(kind);
    EXPECT_EQ(s.at(3), 8) << name_of(kind);
    EXPECT_LE(s.at(4), 8) << name_of(kind);
  }
}

TEST(Schedule, EachKindGoesOnInItsWay) {
  const auto at = [](Kind kind, int64_t update) {
    return Schedule{.kind = kind, .base = 1, .warm_up = 0, .updates = kind == Kind::cosine ? 91 : 90}.at(update);
  };
  EXPECT_EQ(at(Kind::constant, 89), 1);
  EXPECT_EQ(at(Kind::cosine, 0), 1);
  EXPECT_NEAR(at(Kind::cosine, 45), .5, 1e-12);
  EXPECT_GT(at(Kind::cosine, 89), 0);
  EXPECT_EQ(at(Kind::cosine, 90), 0) << "the last update";
  EXPECT_EQ(at(Kind::cosine, 1000), 0) << "beyond the planned end";
  EXPECT_EQ(at(Kind::step, 29), 1);
  EXPECT_EQ(at(Kind::step, 30), .1);
  EXPECT_EQ(at(Kind::step, 89), .01);
  EXPECT_NEAR(at(Kind::inverse_sqrt, 3), .5, 1e-12);
  EXPECT_NEAR((Schedule{.kind = Kind::inverse_sqrt, .base = 1, .warm_up = 25, .updates = 0}.at(99)), .5, 1e-12);
}

TEST(Schedule, NamesAreRead) {
  for (const Kind kind : {Kind::constant, Kind::cosine, Kind::step, Kind::inverse_sqrt})
    EXPECT_EQ(parse_schedule(name_of(kind)), kind);
  EXPECT_THROW(parse_schedule("linear"), Error);
}

}  // namespace
}  // namespace duet
