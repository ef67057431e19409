// SPDX-License-Identifier: Apache-2.0
// Lists of cases, in the notation that contracts (ops/), models and the command line (--case) share. One line a case:
//   {"stride 2 leaves a remainder", "n:2 c:3 h:8 w:11 k:5 r:3 s:3 stride_h:2 stride_w:3"}
// Words of a case, separated by blanks or by '/', so that a label from a report is a case as well
// ("bf16/rows:64/cols:1000"):
//   name:value   an attribute; one that is not named keeps its default
//   bf16         the element type, short for dtype:bf16; only as the first word
//   x=edges      how the input x is filled, instead of as the contract says; Fill (core/problem.h) lists the notations
// parse_case (core/registry.h) makes a problem of a case.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace duet {

// Small and awkward; published shapes; everything published; one size of an op over its whole range, for a curve.
enum class Scale : uint8_t { test, standard, full, sweep };

struct Case {
  std::string why;   // the reason for this shape, or its source
  std::string text;  // in the notation above
};
using Cases = std::vector<Case>;

using Words = std::initializer_list<const char*>;
inline constexpr Words kFloatTypes{"dtype:f32", "dtype:bf16", "dtype:f16"};
inline constexpr Words kF32AndBf16{"dtype:f32", "dtype:bf16"};

// The lists of a contract by scale: `test`; `standard`; in full, `standard` and then `more`; in a sweep, `sizes`.
Cases by_scale(Scale scale, const Cases& test, const Cases& standard, const Cases& more = {}, const Cases& sizes = {});
// A size at first, factor * first, ... up to last. `names`: the attribute, or several that are equal ("m n k");
// `fixed`: the other attributes. sweep("rows", 1, 64, "cols:1024") is rows:1, 4, 16 and 64.
Cases sweep(std::string_view names, int64_t first, int64_t last, std::string_view fixed = "", int64_t factor = 4);
// Each case with each of the words (one or several words in a string) added to it; case by case.
Cases across(Words words, const Cases& cases);
// Each case with the words added to it.
Cases with(std::string_view words, const Cases& cases);
// Each case without its attribute `name`, for an op that has all attributes of another but this one.
Cases without(std::string_view name, const Cases& cases);
// Those cases with a word that begins with `beginning`.
Cases having(std::string_view beginning, const Cases& cases);
// `cases`, followed in tests by `odd` with each float type: what is special about an op.
Cases with_odd(Scale scale, const Cases& cases, const Cases& odd);
// One list after the other.
Cases concat(std::initializer_list<Cases> lists);

// A case taken apart. Throws Error on a word that has none of the forms above and on a name that stands twice.
struct CaseWord {
  enum class Kind : uint8_t { attribute, fill } kind;
  std::string_view name, value;
};
std::vector<CaseWord> words_of(std::string_view text);

}  // namespace duet
