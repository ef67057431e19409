// SPDX-License-Identifier: Apache-2.0
#include "core/name_filter.h"

#include <re2/re2.h>

#include "core/error.h"

namespace duet {

NameFilter::NameFilter(const std::string& pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  pattern_ = std::make_shared<const re2::RE2>(pattern, options);
  constexpr size_t kMaxReason = 100;  // a reason repeats a part of the pattern
  if (!pattern_->ok())
    throw Error("'{}' is not a regular expression of RE2 (no lookahead): {}", pattern,
                pattern_->error().substr(0, kMaxReason));
}

bool NameFilter::matches(std::string_view name) const {
  return re2::RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), *pattern_);
}

}  // namespace duet
