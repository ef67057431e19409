// SPDX-License-Identifier: Apache-2.0
// How the learning rate goes with the updates of a training. models/trainer.h sets it before each update; it depends on
// the number of updates alone, so that a training that is resumed goes on as it would have.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace duet {

// All begin with a warm-up, if it is not 0: update u of it (from 1) has the rate base u / warm_up. Then
//   constant      base
//   cosine        from base at the first update down to 0 at the last, half a wave (arXiv:1608.03983)
//   step          base, a tenth of it after the first third, a hundredth after the second
//   inverse_sqrt  base sqrt(warm_up / u), as in arXiv:1706.03762; with a warm-up of 0, base / sqrt(u)
struct Schedule {
  enum class Kind : uint8_t { constant, cosine, step, inverse_sqrt };
  Kind kind = Kind::constant;
  double base = 0;
  int64_t warm_up = 0, updates = 1;  // of the whole training

  double at(int64_t update) const;  // from 0
};

const char* name_of(Schedule::Kind kind);
Schedule::Kind parse_schedule(std::string_view name);  // throws Error that lists the names

}  // namespace duet
