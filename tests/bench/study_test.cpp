// SPDX-License-Identifier: Apache-2.0
// The studies as the command line names them: what bad input is told, which cases a quick run takes, and that a job's
// name is read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bench/cases.h"
#include "core/error.h"
#include "core/op_traits.h"
#include "core/registry.h"

namespace duet::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal(const std::string& op, const std::string& text) {
  try {
    parse_case(op, text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Study, BadInputIsToldWhatIsAllowed) {
  const struct {
    const char *op, *text, *said;
  } all[] = {
      {"study/transfer", "n:4 direction:up", "h2d d2h d2d"},
      {"study/transfer", "n:4 memory:swapped", "pageable pinned mapped managed prefetched"},
      {"study/transfer", "n:4 memory:mapped async:1", "async: allowed with pageable and pinned memory"},
      {"study/transfer", "n:4 direction:d2d memory:pinned", "d2d has no host memory"},
      {"study/transfer", "n:4 dtype:bf16", "dtype bf16: f32 is allowed"},
      {"study/transfer", "n:-4", "-4"},
      {"study/transfer", "n:4 kind:pinned", "no attribute 'kind'"},
      {"study/transfer", "direction:d2h", "n:N is missing"},
      {"study/pipeline", "n:4 chunks:0", "chunks: 1 to 1024, is 0"},
      {"study/pipeline", "n:4 streams:17", "streams: 1 to 16, is 17"},
      {"study/pipeline", "n:4 rounds:-1", "rounds: 0 to 65536, is -1"},
      {"study/allocation", "pages:9999999999", "pages: 0 to"},
      {"study/block_size_add", "n:4", "exactly one of threads"},
      {"study/block_size_add", "n:4 threads:64 parts:2", "exactly one of threads"},
      {"study/block_size_softmax", "rows:4 cols:4 threads:48", "whole warps of 32, is 48"},
      {"study/block_size_gemm", "m:4 n:4 k:4 threads:2048", "threads: 32 to 1024, is 2048"},
      {"study/block_size_gemm", "m:4 n:4 k:4 parts:2 batch:2", "their defaults are allowed"},
      {"study/coalescing", "n:4 width:12", "width: 4, 8 or 16 bytes, is 12"},
      {"study/coalescing", "n:8 width:2", "width: 4, 8 or 16 bytes, is 2"},
      {"study/coalescing", "n:4 width:8 offset:1", "offset: a multiple of 2"},
      {"study/coalescing", "n:6 width:16", "n: a multiple of 4, is 6"},
      {"study/coalescing", "n:4 stride:0", "stride: 1 to 1048576, is 0"},
      {"study/prefetch", "rows:0 n:4", "rows: 1 or more"},
      {"study/prefetch", "rows:4 n:4 ahead:300", "ahead: 0 to 256, is 300"},
      {"study/occupancy", "n:4", "exactly one of shared"},
      {"study/occupancy", "n:4 chains:3", "chains: 1, 2, 4, 8 or 16, is 3"},
      {"study/occupancy", "n:4 shared:300", "shared: -1 to 227, is 300"},
      {"study/memory_kind_lookup", "size:0 n:4", "size: 1 or more"},
      {"study/launch", "nodes:1000000", "nodes: 0 to 100000, is 1000000"},
      {"study/transfers", "n:4", "study/transfer"},
  };
  for (const auto& [op, text, said] : all) {
    const std::string told = refusal(op, text);
    EXPECT_THAT(told, HasSubstr(said)) << op << " " << text;
    EXPECT_THAT(told, Not(HasSubstr("\n"))) << op << " " << text;
  }
}

TEST(Study, NamesAreReadBack) {
  const JobName job = JobName::parse("study/transfer/cpu.libc/f32/n:1024");
  EXPECT_EQ(job.op, "study/transfer");
  EXPECT_EQ(job.implementation, "cpu.libc");
  EXPECT_EQ(job.label, "f32/n:1024");
  EXPECT_EQ(job.text(), "study/transfer/cpu.libc/f32/n:1024");
  for (const char* text : {"study/transfer n:1024", "study/transfer/f32/n:1024"}) {
    const NamedCase named = read_named_cases({text}).front();
    EXPECT_EQ(named.op, "study/transfer") << text;
    EXPECT_EQ(parse_case(named.op, named.text).label(), "f32/n:1024") << text;
  }
}

// x has the length that the contract states, so that n follows from it whatever the stride, the offset and the width.
TEST(Study, CoalescingInfersNFromTheLengthOfX) {
  const auto inferred = [](const Problem& problem, Shape shape) {
    std::vector<const Shape*> shapes(problem.tensors().size());
    shapes[0] = &shape;
    for (const Attribute& a : problem.inferred(Shapes(shapes)).attributes())
      if (a.name == std::string("n")) return std::get<int64_t>(a.value);
    return int64_t{-1};
  };
  for (const Scale scale : {Scale::test, Scale::standard, Scale::full})
    for (const ProblemCase& c : find_op("study/coalescing").cases(scale)) {
      const TensorSpec x = c.problem.tensors()[0], y = c.problem.tensors()[1];
      EXPECT_EQ(inferred(c.problem, x.shape), y.elements()) << c.problem.label();
    }
  const Problem apart = parse_case("study/coalescing", "n:33 stride:3");
  EXPECT_EQ(inferred(apart, {97}), 33);
  EXPECT_EQ(inferred(apart, {99}), 33);
  EXPECT_EQ(inferred(apart, {100}), 34);
  EXPECT_EQ(inferred(parse_case("study/coalescing", "n:33 offset:31"), {30}), 0) << "shorter than the offset";
}

TEST(Study, AQuickRunTakesOneCaseOfEachAndAllWhereTheFilterNamesThem) {
  const auto count = [](const std::string& filter) {
    Options options;
    options.filter = filter;
    std::map<std::string, size_t> cases;
    for (const auto& c : op_cases(options))
      if (c->op.starts_with(kStudy)) ++cases[c->op];
    return cases;
  };
  const auto few = count(""), all = count("^study/");
  EXPECT_EQ(few.size(), 13u);
  for (const auto& [op, cases] : few) {
    EXPECT_EQ(cases, 1u) << op;
    EXPECT_GT(all.at(op), 1u) << op;
  }
}

TEST(Study, OnlyTransfersLieInHostMemory) {
  const Problem up = parse_case("study/transfer", "n:4 memory:pinned"), add = parse_case("add", "n:4");
  EXPECT_EQ(host_memory_of(up, 0), HostMemory::pinned);
  EXPECT_EQ(host_memory_of(up, 1), HostMemory::none);
  const Problem down = parse_case("study/transfer", "n:4 direction:d2h memory:managed");
  EXPECT_EQ(host_memory_of(down, 0), HostMemory::managed_on_device);
  EXPECT_EQ(host_memory_of(down, 1), HostMemory::pageable);
  EXPECT_EQ(host_memory_of(add, 0), HostMemory::none);
  EXPECT_TRUE(traits_of("add").roofs.gpu);
  EXPECT_FALSE(traits_of("study/transfer").roofs.gpu);
}

}  // namespace
}  // namespace duet::bench
