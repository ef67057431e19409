// SPDX-License-Identifier: Apache-2.0
// How work is divided: the op add, softmax or gemm, with one attribute more.
//   threads  of a block on a GPU, 32 to 1024; the plan says how many blocks fit on a multiprocessor at once
//   parts    on the CPU: into how many parts the elements or rows are cut, which threads take one by one. With fewer
//            parts than threads, some threads have no work.
// Exactly one of the two is given. Everything else is as in the contracts that these are made of.
#pragma once
#include "ops/elementwise/add.h"
#include "ops/gemm/gemm.h"
#include "ops/norm/softmax.h"
#include "ops/study/study.h"

namespace duet {

// What the three have beside the attributes of their op.
struct Division {
  int64_t threads = 0, parts = 0;
  void attributes(auto&& field) {
    field.option("threads", threads, "threads of a block, 32 to 1024 in whole warps; 0 on the CPU");
    field.option("parts", parts, "parts that the CPU's threads take, 1 to 65536; 0 on a GPU");
  }
  std::string invalid(DType dtype) const {
    if ((threads == 0) == (parts == 0)) return "exactly one of threads, for a GPU, and parts, for a CPU, is given";
    if (parts == 0 && threads % 32 != 0) return "threads: whole warps of 32, is " + std::to_string(threads);
    return first_of(
        {parts == 0 ? within("threads", threads, 32, 1024) : within("parts", parts, 1, 65536), only_f32(dtype)});
  }
  static Cases cases(Scale scale, const Cases& test, const Cases& published) {
    const Words blocks{"threads:32", "threads:64", "threads:128", "threads:256", "threads:512", "threads:1024"};
    const Words parts{"parts:1", "parts:2", "parts:4", "parts:16", "parts:64", "parts:256", "parts:1024"};
    if (scale == Scale::test)
      return concat({across({"threads:32", "threads:96", "threads:1024"}, test), across({"parts:1", "parts:3"}, test)});
    return concat({by_scale(scale, {}, across(parts, published)), by_scale(scale, {}, across(blocks, published))});
  }
};

struct BlockSizeAdd : Add {
  static constexpr const char* name = "study/block_size_add";
  Division division;
  void attributes(auto&& field) {
    Add::attributes(field);
    division.attributes(field);
  }
  std::string invalid() const { return division.invalid(dtype); }
  static Cases cases(Scale scale) {
    return Division::cases(scale, {{"nothing", "n:0"}, {"blocks, the last short", "n:2053"}},
                           {{"4 MiB a tensor", "n:1048576"}});
  }
};

struct BlockSizeSoftmax : Softmax {
  static constexpr const char* name = "study/block_size_softmax";
  Division division;
  void attributes(auto&& field) {
    Softmax::attributes(field);
    division.attributes(field);
  }
  std::string invalid() const { return division.invalid(dtype); }
  static Cases cases(Scale scale) {
    return Division::cases(scale, {{"no rows", "rows:0 cols:7"}, {"rows over a block", "rows:5 cols:1031"}},
                           {{"rows of 1024", "rows:1024 cols:1024"}});
  }
};

struct BlockSizeGemm : Gemm {
  static constexpr const char* name = "study/block_size_gemm";
  Division division;
  void attributes(auto&& field) {
    Gemm::attributes(field);
    division.attributes(field);
  }
  std::string invalid() const {
    if (batch != 1 || trans_a || trans_b || alpha != 1 || math != Math::ieee)
      return "batch, trans_a, trans_b, alpha and math: their defaults are allowed";
    return division.invalid(dtype);
  }
  static Cases cases(Scale scale) {
    return Division::cases(scale, {{"no products", "m:3 n:5 k:0"}, {"tiles, the last short", "m:37 n:65 k:33"}},
                           {{"512 cubed", "m:512 n:512 k:512"}});
  }
};

}  // namespace duet
