// SPDX-License-Identifier: Apache-2.0
// Chooses jobs by a regular expression, for --filter of duet list and bench_all. The syntax is RE2's, which takes time
// and memory in proportion to pattern and name: no pattern hangs or overflows the stack. It has neither lookahead nor
// back-references.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace duet {

class NameFilter {
 public:
  // Throws Error where the pattern is not a regular expression. An empty one matches every name.
  explicit NameFilter(const std::string& pattern);
  bool matches(std::string_view name) const;  // whether the name contains a match

 private:
  std::shared_ptr<const re2::RE2> pattern_;
};

}  // namespace duet
