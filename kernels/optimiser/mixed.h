// SPDX-License-Identifier: Apache-2.0
// The parameters that an optimiser updates, with and without mixed precision.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// Calls f.operator()<S>(from, to, bad). from: the parameters to update, of type S. Mixed: they are also written to
// `to`, rounded to T, and nothing may change where *bad is not 0. Not mixed: `to` and `bad` are null.
template <class T, class P, class F>
void for_state(const P& p, Args t, F&& f) {
  T* parameters = t[P::p].template as<T>();
  if (p.mixed)
    f.template operator()<float>(t[P::master].template as<float>(), parameters, t[P::bad].template as<const int32_t>());
  else
    f.template operator()<T>(parameters, static_cast<T*>(nullptr), static_cast<const int32_t*>(nullptr));
}

}  // namespace duet::DUET_DEVICE
