// SPDX-License-Identifier: Apache-2.0
// The notation of cases: what it reads as, what is refused and how, and the lists that contracts build with it.
#include "core/cases.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "core/near_names.h"
#include "core/registry.h"

namespace duet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
std::vector<std::string> texts_of(const Cases& cases) {
  std::vector<std::string> texts;
  for (const Case& c : cases) texts.push_back(c.text);
  return texts;
}

TEST(ParseCase, WordsInAnyOrderAndLabelsAreTheSame) {
  for (const char* text : {"bf16 rows:3 cols:31", "rows:3 cols:31 dtype:bf16", "  cols:31\trows:3 dtype:bf16 ",
                           "bf16/rows:3/cols:31", "dtype:bf16/cols:31/rows:3"})
    EXPECT_EQ(parse_case("softmax", text).label(), "bf16/rows:3/cols:31") << text;
}

TEST(ParseCase, WhatIsNotNamedKeepsItsDefault) {
  EXPECT_EQ(parse_case("gemm", "m:2 n:3 k:4").label(), "f32/m:2/n:3/k:4");
  EXPECT_EQ(parse_case("gemm", "m:2 n:3 k:4 trans_b:true alpha:0.5").label(), "f32/m:2/n:3/k:4/trans_b:1/alpha:0.5");
  EXPECT_EQ(parse_case("bias", "outer:2 c:3").label(), "f32/outer:2/c:3/inner:1");
  EXPECT_EQ(parse_case("scale_update", "").label(), "f32");
}

TEST(ParseCase, NamedFillsAreReadBack) {
  const Problem p = parse_case("softmax", "rows:3 cols:31 x=last:nan");
  EXPECT_EQ(p.label(), "f32/rows:3/cols:31/x=last:nan");
  EXPECT_EQ(parse_case("softmax", p.label()).label(), p.label());
  EXPECT_EQ(p.tensors()[0].fill.kind, Fill::Kind::uniform) << "last:VALUE keeps the contract's fill";
  EXPECT_TRUE(std::isnan(p.tensors()[0].fill.last.value()));
  EXPECT_EQ(p.with("rows", "5").label(), "f32/rows:5/cols:31/x=last:nan");
}

TEST(ParseCase, ATensorMayHaveTheNameOfAnAttribute) {
  const std::vector<CaseWord> words = words_of("position:1 position=1");
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].kind, CaseWord::Kind::attribute);
  EXPECT_EQ(words[1].kind, CaseWord::Kind::fill);
}

struct Bad {
  const char *op, *text, *says;
};
class BadCase : public testing::TestWithParam<Bad> {};
TEST_P(BadCase, IsRefusedByName) {
  const Bad& bad = GetParam();
  const std::string message = error_of([&] { parse_case(bad.op, bad.text); });
  EXPECT_THAT(message, HasSubstr(bad.says));
  if (std::string(bad.op) == "softmax") {
    EXPECT_THAT(message, HasSubstr(std::string("softmax case '") + bad.text + "'"));
  }
}
INSTANTIATE_TEST_SUITE_P(
    ParseCase, BadCase,
    testing::Values(Bad{"sofmax", "rows:3 cols:5", "'sofmax' is unknown; did you mean softmax"},
                    Bad{"no_such_op", "", "'no_such_op' is unknown; known are"},
                    Bad{"softmax", "rows:3 colls:5", "no attribute 'colls'; did you mean cols?"},
                    Bad{"softmax", "rows:3 size:5", "no attribute 'size'; known are dtype rows cols"},
                    Bad{"softmax", "rows:3", "cols:N is missing"}, Bad{"softmax", "", "rows:N is missing"},
                    Bad{"softmax", "rows:3 cols:many", "'many' is not a whole number"},
                    Bad{"softmax", "rows:3 cols:-5", "cols is -5; zero or more"},
                    Bad{"softmax", "rows:3 cols:99999999999999999999", "does not fit 64 bits"},
                    Bad{"softmax", "rows:4294967296 cols:4294967296", "overflow"},
                    Bad{"softmax", "rows:3 cols:5 rows:4", "'rows' stands twice"},
                    Bad{"softmax", "f16 rows:3 cols:5 dtype:f32", "'dtype' stands twice"},
                    Bad{"softmax", "f31 rows:3 cols:5", "dtype 'f31' is not one of"},
                    Bad{"softmax", "rows:3 f16 cols:5", "'f16' does not read name:value"},
                    Bad{"softmax", "rows:3 cols:", "'cols:' does not read name:value"},
                    Bad{"softmax", "rows:3 :5", "':5' does not read name:value"},
                    Bad{"softmax", "rows:3 cols:5 z=edges", "no input of this name; it has x"},
                    Bad{"softmax", "rows:3 cols:5 y=edges", "no input of this name; it has x"},
                    Bad{"softmax", "rows:3 cols:5 x=odd", "fill 'odd' is not one of VALUE FROM..TO"},
                    Bad{"softmax", "rows:3 cols:5 x=2..1", "fill '2..1' is not one of"},
                    Bad{"softmax", "rows:3 cols:5 x=normal:0", "fill 'normal:0' is not one of"},
                    Bad{"softmax", "rows:3 cols:5 x=normal:0:-1", "fill 'normal:0:-1' is not one of"},
                    Bad{"softmax", "rows:3 cols:5 x=below:0", "fill 'below:0' is not one of"},
                    Bad{"softmax", "rows:3 cols:5 x=1..inf", "fill '1..inf' is not one of"},
                    Bad{"bias", "outer:1 c:1 act:relo", "'relo' is not one of none relu gelu"},
                    Bad{"bias", "outer:1 c:1 act:gelu", "act gelu: allowed are none, relu"},
                    Bad{"conv2d_bias", "n:1 c:1 h:1 w:1 k:1 r:1 s:1 act:gelu", "act gelu: allowed are none and relu"},
                    Bad{"embedding", "B:1 T:1 V:1 C:1 token=edges", "token holds i32; finite numbers"},
                    Bad{"embedding", "B:1 T:1 V:1 C:1 token=last:nan", "token holds i32; finite numbers"}));

// std::to_string would print 0.000000 or 1.000000.
INSTANTIATE_TEST_SUITE_P(
    SmallNumbers, BadCase,
    testing::Values(Bad{"layernorm", "rows:1 cols:1 eps:-1e-9", "eps must be above 0, is -1e-09"},
                    Bad{"add_layernorm", "rows:1 cols:1 eps:-1e-9", "eps must be above 0, is -1e-09"},
                    Bad{"rmsnorm", "rows:1 cols:1 eps:-1e-9", "eps must be above 0, is -1e-09"},
                    Bad{"add_rmsnorm", "rows:1 cols:1 eps:-1e-9", "eps must be above 0, is -1e-09"},
                    Bad{"batchnorm", "n:1 c:1 h:1 w:1 eps:-1e-9", "eps must be above 0, is -1e-09"},
                    Bad{"batchnorm_inference", "n:1 c:1 h:1 w:1 eps:-1e-9", "eps must be above 0, is -1e-09"},
                    Bad{"l2_normalise", "rows:1 cols:1 eps:-1e-9", "eps must be at least 1e-15, is -1e-09"},
                    Bad{"distill", "rows:1 cols:1 T:1e-9", "T must lie in 0.01 to 1000, is 1e-09"},
                    Bad{"distill", "rows:1 cols:1 alpha:-1e-9", "alpha must lie in 0 to 1, is -1e-09"},
                    Bad{"cross_entropy", "rows:1 cols:1 smooth:-1e-9", "smooth must lie in 0 to 1, is -1e-09"},
                    Bad{"dropout", "n:1 p:1.000000001", "p must lie in 0 to 1, is 1.000000001"},
                    Bad{"rope", "B:1 T:1 H:1 D:2 base:1e-9", "base must lie in 1 to 1e15, is 1e-09"}));

TEST(Fills, ReadAsWritten) {
  const Fill contract = Fill::uniform(0, 3);
  const auto values = [&](const char* text) {
    const Fill f = Fill::from(text, contract);
    return std::tuple{f.kind, f.a, f.b};
  };
  EXPECT_EQ(values("-1..2.5"), std::tuple(Fill::Kind::uniform, -1.0, 2.5));
  EXPECT_EQ(values("-2e-6..2e-6"), std::tuple(Fill::Kind::uniform, -2e-6, 2e-6));
  EXPECT_EQ(values("normal:-1:2"), std::tuple(Fill::Kind::normal, -1.0, 2.0));
  EXPECT_EQ(values("0.7"), std::tuple(Fill::Kind::constant, 0.7, 0.0));
  EXPECT_EQ(values("-inf"), std::tuple(Fill::Kind::constant, -INFINITY, 0.0));
  EXPECT_TRUE(std::isnan(Fill::from("nan", contract).a));
  EXPECT_EQ(values("below:10"), std::tuple(Fill::Kind::below, 10.0, 0.0));
  EXPECT_EQ(values("last:inf"), std::tuple(Fill::Kind::uniform, 0.0, 3.0));
  EXPECT_EQ(Fill::from("last:inf", contract).last, INFINITY);
  EXPECT_EQ(std::get<0>(values("edges+inf+nan")), Fill::Kind::edges_inf_nan);
}

TEST(CaseLists, AreComposedOfWords) {
  const Cases two{{"a", "n:1"}, {"b", "n:2"}};
  EXPECT_THAT(texts_of(across({"f:1", "f:2 g:3"}, two)),
              ElementsAre("n:1 f:1", "n:1 f:2 g:3", "n:2 f:1", "n:2 f:2 g:3"));
  EXPECT_THAT(texts_of(with("x=edges", two)), ElementsAre("n:1 x=edges", "n:2 x=edges"));
  EXPECT_THAT(texts_of(without("m", {{"a", "f16 m:3 n:1 x=edges"}})), ElementsAre("dtype:f16 n:1 x=edges"));
  EXPECT_THAT(texts_of(having("pad_", {{"a", "n:1 pad_h:1"}, {"b", "n:1 unpad_h:1"}})), ElementsAre("n:1 pad_h:1"));
  EXPECT_THAT(texts_of(by_scale(Scale::test, two, {}, {})), ElementsAre("n:1", "n:2"));
  EXPECT_THAT(texts_of(by_scale(Scale::standard, {}, two, {{"c", "n:3"}})), ElementsAre("n:1", "n:2"));
  EXPECT_THAT(texts_of(by_scale(Scale::full, {}, two, {{"c", "n:3"}})), ElementsAre("n:1", "n:2", "n:3"));
}

TEST(CaseLists, ASweepVariesOneSizeOrSeveralEqualOnes) {
  EXPECT_THAT(texts_of(sweep("rows", 1, 64, "cols:5")),
              ElementsAre("cols:5 rows:1", "cols:5 rows:4", "cols:5 rows:16", "cols:5 rows:64"));
  EXPECT_THAT(texts_of(sweep("m n", 16, 63, "", 2)), ElementsAre("m:16 n:16", "m:32 n:32"));
  EXPECT_EQ(sweep("m n", 16, 16)[0].why, "sweep over m n");
  EXPECT_THAT(error_of([] { sweep("n", 0, 16); }), HasSubstr("sweep over n: from 0 by 4"));
  EXPECT_THAT(texts_of(by_scale(Scale::sweep, {{"a", "n:1"}}, {{"b", "n:2"}}, {{"c", "n:3"}}, sweep("n", 4, 16))),
              ElementsAre("n:4", "n:16"));
  EXPECT_THAT(by_scale(Scale::sweep, {{"a", "n:1"}}, {{"b", "n:2"}}), IsEmpty());
}

TEST(CaseLists, OfAContractAreParsedOnceEach) {
  Op op = find_op("softmax");
  op.lines = [](Scale) { return Cases{{"first", "rows:3 cols:5"}, {"again", "cols:5 rows:3 dtype:f32"}}; };
  ASSERT_EQ(op.cases(Scale::test).size(), 1u);
  EXPECT_EQ(op.cases(Scale::test)[0].why, "first");
  op.lines = [](Scale) { return Cases{{"wrong", "rows:3 colls:5"}}; };
  EXPECT_THAT(error_of([&] { op.cases(Scale::test); }), HasSubstr("softmax case 'rows:3 colls:5'"));
}

TEST(NearNames, NearestFirst) {
  const std::vector<std::string> known{"softmax", "softmax_backward", "sum", "gemm", "adam", "adamw"};
  EXPECT_THAT(near_names("sofmax", known), ElementsAre("softmax"));
  EXPECT_THAT(near_names("softmax_", known), ElementsAre("softmax", "softmax_backward"));
  EXPECT_THAT(near_names("adan", known), ElementsAre("adam"));
  EXPECT_THAT(near_names("gem", known), ElementsAre("gemm"));
  EXPECT_THAT(near_names("convolution", known), ElementsAre());
  EXPECT_EQ(near_hint("sun", known), "; did you mean sum?");
  EXPECT_THAT(near_hint("", known), HasSubstr("known are softmax"));
}

}  // namespace
}  // namespace duet
