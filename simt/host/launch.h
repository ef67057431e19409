// SPDX-License-Identifier: Apache-2.0
// launch() and spin_pause() where kernels run on the host.
#pragma once
#include <tuple>
#include <type_traits>

#include "simt/host/executor.h"

namespace duet::simt {

// Runs kernel(args...) to its end. Skips an empty grid; throws Error, which names the limit, for one too large, and
// host::Report where the kernel breaks a rule.
template <class... P, class... A>
void launch(void (*kernel)(P...), const Grid& grid, A&&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "launch: as many arguments as the kernel has parameters");
  struct Call {
    void (*kernel)(P...);
    std::tuple<P...> arguments;
  };
  const Call call{kernel, {static_cast<P>(args)...}};
  host::run(
      reinterpret_cast<const void*>(kernel),
      [](const void* c) { std::apply(static_cast<const Call*>(c)->kernel, static_cast<const Call*>(c)->arguments); },
      &call, sizeof call, grid);
}

inline void spin_pause(host::Where at = host::Where::current()) { host::pause(at); }

}  // namespace duet::simt
