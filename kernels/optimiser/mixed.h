// SPDX-License-Identifier: Apache-2.0
// Where an optimiser's parameters lie, mixed or not.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// f.operator()<S>(from, to, bad): the parameters to update, in S. Mixed: to is where they are also left, rounded to T, and
// nothing may change where *bad is not 0; otherwise both are null.
template <class T, class P, class F>
void for_state(const P& p, Args t, F&& f) {
  T* parameters = t[P::p].template as<T>();
  if (p.mixed)
    f.template operator()<float>(t[P::master].template as<float>(), parameters, t[P::bad].template as<const int32_t>());
  else
    f.template operator()<T>(parameters, static_cast<T*>(nullptr), static_cast<const int32_t*>(nullptr));
}

}  // namespace duet::DUET_DEVICE
