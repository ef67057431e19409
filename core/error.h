// SPDX-License-Identifier: Apache-2.0
// Errors that a user can cause: one line that names the value and what is allowed. Programs print what() and exit with
// a status other than 0.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace duet {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
  template <class First, class... Rest>
  Error(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest)
      : std::runtime_error(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...)) {}
};

}  // namespace duet
