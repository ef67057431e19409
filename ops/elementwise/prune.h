// SPDX-License-Identifier: Apache-2.0
// Sets the small elements of a weight to zero. w, y: (n) of dtype; mask: (n) u8, 1 where an element is kept; dense. y
// may be w. Elements that are kept move bit for bit; the others become +0.
//   2:4: of each four neighbours the two with the largest absolute values are kept, as sparse tensor cores need it
//   (arXiv:2104.08378). The last group may be shorter; it keeps two as well.
//   magnitude: the ceil((1 - sparsity) n) elements with the largest absolute values are kept (arXiv:1506.02626).
// Ties go to the lowest index. NaN counts as larger than infinity, and all NaN count as equal.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/problem.h"
#include "ops/elementwise/chunk.h"

namespace duet {

enum class PruneScheme : uint8_t { two_of_four, magnitude };
inline std::vector<std::string> names_of(PruneScheme) { return {"2:4", "magnitude"}; }

struct Prune {
  static constexpr const char* name = "prune";
  static constexpr const char* formula =
      "y[i] = mask[i] ? w[i] : 0;  scheme=2:4: mask[i] = |w[i]| is among the 2 largest of its 4;  "
      "scheme=magnitude: among the ceil((1 - sparsity) n) largest";
  static constexpr Slot w = input(0, "w"), y = output(1, "y").may_be(w), mask = output(2, "mask");
  static constexpr bool exact_on_integers = true;

  int64_t n = 0;
  PruneScheme scheme = PruneScheme::two_of_four;
  double sparsity = 0.5;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of w and y");
    field("n", n, "elements");
    field.option("scheme", scheme, "which elements are kept");
    field.option("sparsity", sparsity, "share of the elements that become zero, with magnitude; 0 to 1");
  }
  std::string invalid() const {
    if (!(sparsity >= 0 && sparsity <= 1)) return "sparsity must lie in 0 to 1, is " + std::to_string(sparsity);
    if (scheme == PruneScheme::two_of_four && sparsity != 0.5)
      return "sparsity: 2:4 keeps half of the elements, so 0.5 is allowed, is " + std::to_string(sparsity);
    return "";
  }
  void infer(Shapes s) { n = s[w][0]; }
  // With magnitude. sparsity n is taken up by 2^-50 of itself, so that 0.29 of 100 elements, which is a little less
  // than 29 in floating point, are 29.
  int64_t kept() const {
    const double dropped = std::floor(sparsity * static_cast<double>(n) * (1 + 0x1p-50));
    return n - std::min(n, static_cast<int64_t>(dropped));
  }
  std::vector<TensorSpec> tensors() const {
    return {w.of(dtype, {n}, Fill::normal(0, 1)), y.of(dtype, {n}), mask.of(DType::u8, {n})};
  }
  double flops() const { return 0; }
  Tolerance tolerance() const { return {}; }
  // 2:4: a chunk of elements. magnitude: a part of the tensor, of which there are few, since each selects among all.
  static constexpr int64_t kParts = 16;
  int64_t slices() const { return scheme == PruneScheme::two_of_four ? chunks(n) : std::min(kParts, chunks(n)); }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/elementwise/prune.cpp

  static Cases cases(Scale scale) {
    const Cases both{
        {"nothing", "n:0"},
        {"one element", "n:1"},
        {"prime, longer than a block", "n:1031"},
        {"ties: whole numbers", "n:1031 w=below:4"},
        {"edge values, infinities and NaN", "n:1031 w=edges+inf+nan"},
    };
    const Cases two_of_four{
        {"a group that is not whole", "n:3"},
        {"beside a warp", "n:33"},
        {"all equal", "n:1031 w=-0.5"},
        {"several tasks, the last short", "n:100003"},
    };
    const Cases magnitude{
        {"several tasks, the last short", "n:20011 sparsity:0.9"},
        {"all equal, over several tasks", "n:20011 sparsity:0.3 w=-0.5"},
        {"keeps everything", "n:33 sparsity:0"},
        {"keeps nothing", "n:33 sparsity:1"},
        {"a share that is not exact in binary", "n:100 sparsity:0.29"},
    };
    const Cases standard{
        {"Llama-3-8B, 4096 -> 4096", "n:16777216"},
        {"BERT-base, 768 -> 3072", "n:2359296"},
    };
    const Cases by_size{
        {"BERT-base, 768 -> 3072", "n:2359296 sparsity:0.9"},
        {"MLP 784-128-10: hidden layer", "n:100352 sparsity:0.9"},
    };
    const Cases large{
        {"GPT-2 124M MLP, 8192 tokens, 3072 features", "n:25165824"},
        {"ResNet-50 conv1 output, batch 256", "n:205520896"},
        {"1 GiB an f32 tensor", "n:268435456"},
    };
    const Cases more{{"Llama-3-8B, 4096 -> 4096", "n:16777216 sparsity:0.5"}};
    if (scale == Scale::sweep) return sweep("n", 64, 16777216);
    return across(kFloatTypes,
                  concat({by_scale(scale, concat({both, two_of_four}), standard, large),
                          with("scheme:magnitude", by_scale(scale, concat({both, magnitude}), by_size, more))}));
  }
};

}  // namespace duet
