// SPDX-License-Identifier: Apache-2.0
// Kernels on tensors of more than 2^31 elements, some of more than 2^32: an index that is computed in 32 bits leaves
// its tensor or falls back to its beginning. Memory is only reserved, and a page of it exists once it is touched. Of
// each launch the blocks at the corners of the grid and two between them run; of the outputs, what these blocks wrote
// is compared in the first and the last slices. Sums over parts are right as well where the parts that do not run have
// nothing but zeros: inputs are drawn at both ends, which lie in the first and the last part. Called by simt_selftest
// --large.
#include <fmt/format.h>

#include <map>
#include <vector>

#include "core/compare.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/registry.h"
#include "simt/host/memory.h"
#include "simt/selftest/bugs.h"
#include "simt/simt.h"

namespace duet::selftest {
namespace {

using simt::host::device_memory;
using simt::host::Region;

constexpr int64_t kBlocks = 2;  // of a launch, besides those at the corners of the grid

struct LargeCase {
  const char *op, *text;
  const char* only = "";    // the implementation, where another would take long
  size_t kinds = 1;         // of slices that are compared, from the first kind on
  int64_t slices = 2;       // at both ends of each kind
  int64_t drawn = 1 << 18;  // elements at both ends of an input; the others are 0
};
// Statistics and gradients of weights are sums over a batch: of few rows with many columns, or by kernels that divide
// the rows into parts. Others would have a thread touch all of a tensor.
// Not here: gradients of recurrent weights, and gradients of norms by the naive kernels, whose threads would read whole
// columns; counts of right answers and losses of which a row of zeros is not 0; materialised attention, and separate
// ops in place of a fused one, whose kernels divide a tensor differently, so that few blocks of each do not meet.
constexpr LargeCase kCases[] = {
    {"add", "n:2147483693"},
    {"relu", "n:4294967341 dtype:bf16"},
    {"gelu_backward", "n:2147483693 dtype:f16"},
    {"bias", "outer:2097169 c:1032 inner:1"},
    {"bias", "outer:65537 c:33 inner:1031 dtype:bf16 act:relu"},
    {"dropout", "n:2147483693"},
    {"copy", "n:4294967341 dtype:bf16"},
    {"fill", "n:4294967341 dtype:f32"},
    {"cast", "n:2147483693 to:bf16"},
    {"transpose", "batch:524353 rows:64 cols:65"},
    {"transpose", "batch:524353 rows:66 cols:64 dtype:bf16"},
    {"transpose", "batch:1 rows:33 cols:67108867"},
    {"permute", "B:32783 T:64 H:8 D:128"},
    {"permute", "B:1 T:699073 H:8 D:128 split:3 dtype:bf16"},
    {"permute", "B:32783 T:64 H:8 D:129 inverse:1"},
    {"softmax", "rows:2097169 cols:1032"},
    {"softmax", "rows:4194341 cols:1031 dtype:bf16"},
    {"softmax", "rows:131101 cols:16400", "simt.tuned"},
    {"softmax_backward", "rows:524353 cols:4104"},
    {"cross_entropy", "rows:2097169 cols:1031"},
    {"cross_entropy_backward", "rows:2097169 cols:1031"},
    {"cross_entropy_fused", "rows:4194341 cols:1032 dtype:bf16"},
    {"layernorm", "rows:2097169 cols:1032"},
    {"layernorm", "rows:131101 cols:16400 dtype:bf16", "simt.tuned"},
    {"sum", "rows:2097169 cols:1031"},
    {"gemm", "m:2097169 n:8 k:1032"},
    {"gemm", "m:65539 n:32771 k:3"},
    {"gemm", "batch:131101 m:128 n:16 k:136 dtype:bf16"},
    {"linear", "n:2097169 in:1032 out:8"},
    {"linear", "n:65539 in:8 out:32776 act:relu dtype:bf16"},
    {"attention", "B:32783 H:16 Tq:32 Tk:32 D:128", "simt.tuned"},
    {"attention", "B:65537 H:8 Tq:64 Tk:64 D:64 dtype:bf16", "simt.tuned"},
    {"attention_packed", "B:32783 T:32 H:16 D:128", "simt.tuned"},
    {"attention_packed", "B:65537 T:64 H:8 D:64 dtype:bf16", "simt.tuned"},
    {"conv2d", "n:2053 c:64 h:128 w:128 k:1 r:1 s:1"},
    {"conv2d", "n:8209 c:8 h:128 w:256 k:8 r:3 s:3 dtype:bf16 layout:nhwc"},
    {"max_pool2d", "n:2053 c:64 h:128 w:128 r:2 s:2 stride_h:2 stride_w:2"},
    {"max_pool2d_backward", "n:2053 c:64 h:128 w:128 r:2 s:2 stride_h:2 stride_w:2"},
    {"max_pool2d_backward", "n:2053 c:64 h:128 w:128 r:3 s:3 stride_h:2 stride_w:2 layout:nhwc"},
    {"avg_pool2d", "n:2053 c:64 h:128 w:128 r:2 s:2 stride_h:2 stride_w:2"},
    {"global_avg_pool", "n:32783 c:64 h:32 w:32"},
    {"batchnorm_inference", "n:2053 c:64 h:128 w:128"},
    {"batchnorm_inference", "n:2053 c:64 h:128 w:128 layout:nhwc"},
    {"avg_pool2d_backward", "n:2053 c:64 h:128 w:128 r:3 s:3 stride_h:2 stride_w:2 layout:nhwc"},
    {"global_avg_pool_backward", "n:2053 c:64 h:128 w:128 dtype:bf16"},
    {"embedding", "B:1 T:64 V:2097169 C:1031 token=2097168"},
    {"embedding", "B:1 T:64 V:4194341 C:1032 dtype:bf16 token=4194340"},
    {"embedding", "B:32783 T:64 V:33 C:1032 dtype:bf16"},
    {"sgd", "n:2147483693"},
    {"adam", "n:2147483693"},
    {"rmsprop", "n:2147483693"},
    {"swiglu", "n:2147483693"},
    {"swiglu_backward", "n:4294967341 dtype:bf16"},
    {"axpy", "n:2147483693"},
    {"quantise", "outer:65537 c:33 inner:1031"},
    {"dequantise", "outer:65537 c:33 inner:1031"},
    {"rope", "B:32783 T:64 H:8 D:128"},
    {"rope_backward", "B:65537 T:64 H:8 D:128 dtype:bf16"},
    {"gather", "rows:2097169 cols:1031 n:64 index=2097168"},
    {"gather", "rows:33 cols:1032 n:2097169 dtype:bf16"},
    {"strided_copy", "n:1073741857 stride:3"},
    {"rmsnorm", "rows:2097169 cols:1032"},
    {"l2_normalise", "rows:2097169 cols:1032"},
    {"l2_normalise_backward", "rows:4194341 cols:1031 dtype:bf16"},
    {"max", "rows:2097169 cols:1031"},
    {"argmax", "rows:4194341 cols:1032 dtype:bf16"},
    {"top_k", "rows:2097169 cols:1031 k:5"},
    {"mse_backward", "n:2147483693"},
    {"bce_logits_backward", "n:4294967341 dtype:bf16"},
    {"distill_backward", "rows:2097169 cols:1031"},
    {"attention_backward", "B:32783 H:16 Tq:32 Tk:32 D:128", "simt.tuned"},
    {"attention_backward", "B:65537 H:8 Tq:64 Tk:64 D:64 dtype:bf16", "simt.tuned"},  // no block waits for another one
    {"attention_packed_backward", "B:32783 T:32 H:16 D:128", "simt.tuned"},
    {"attention_packed_backward", "B:65537 T:64 H:8 D:64 dtype:bf16", "simt.tuned"},
    {"conv2d_backward_data", "n:2053 c:64 h:128 w:128 k:1 r:1 s:1"},
    {"im2col", "n:2053 c:8 h:128 w:128 r:3 s:3 pad_h:1 pad_w:1"},
    {"gemm_acc", "m:65539 n:32771 k:3"},
    {"gemv", "m:2097169 n:1032"},
    {"linear_int8", "n:65539 in:8 out:32776"},
    {"spmm", "m:65539 k:64 n:32776 nnz:65539"},
    // A channel has a block of its own, so that its neighbours' statistics are not known. The tuned kernels take up to
    // 2^31 - 1 elements, whose offsets in bytes are larger.
    {"batchnorm", "n:2 c:1048583 h:32 w:32", "", 1, 1},
    {"batchnorm", "n:4 c:1048583 h:32 w:32 dtype:bf16 layout:nhwc act:relu residual:1", "", 1, 1},
    {"batchnorm", "n:2 c:1048575 h:32 w:32", "simt.tuned", 1, 1},
    {"batchnorm", "n:1 c:131071 h:128 w:128 layout:nhwc", "simt.tuned", 1, 1},
    {"batchnorm_backward", "n:2 c:1048583 h:32 w:32", "", 1, 1},
    {"batchnorm_backward", "n:4 c:1048583 h:32 w:32 dtype:bf16 layout:nhwc act:relu residual:1", "", 1, 1},
    {"batchnorm_backward", "n:2 c:1048575 h:32 w:32", "simt.tuned", 1, 1},
    {"batchnorm_backward", "n:1 c:131071 h:128 w:128 layout:nhwc act:relu", "simt.tuned", 1, 1},
    // Of 2100224 rows, a block takes every 2051st: only the first row and the last have values. The tuned kernels
    // alone: a block of the naive ones has 256 whole rows or columns.
    {"layernorm_backward", "rows:2100224 cols:1032", "simt.tuned", 2, 1, 1032},
    {"layernorm_backward", "rows:131101 cols:16400", "simt.tuned", 2},
    {"layernorm_backward", "rows:262147 cols:16400 dtype:bf16", "simt.tuned", 2},
    {"rmsnorm_backward", "rows:2100224 cols:1032", "simt.tuned", 2, 1, 1032},
    {"rmsnorm_backward", "rows:131101 cols:16400", "simt.tuned", 2},
    {"rmsnorm_backward", "rows:262147 cols:16400 dtype:bf16", "simt.tuned", 2},
    {"bias_backward", "outer:1031 c:2097169 inner:1"},
    {"bias_backward", "outer:2097169 c:1032 inner:1 act:relu", "simt.tuned"},
    {"bias_backward", "outer:65537 c:1031 inner:33", "simt.tuned", 1, 1},
    {"embedding_backward", "B:1 T:300 V:2097169 C:1031 token=2097168", "", 2},
    {"embedding_backward", "B:1 T:64 V:4194341 C:1032 dtype:bf16 token=4194340", "", 2},
    // The blocks at the corners have all 16 words.
    {"embedding_backward", "B:1 T:1033 V:16 C:2097168", "simt.tuned", 2, 1},
    {"linear_backward", "n:1031 in:2097169 out:3", "", 1, 1},
    {"conv2d_backward_filter", "n:5 c:524309 h:32 w:32 k:1 r:1 s:1"},
    {"conv2d_backward_filter", "n:5 c:1 h:32 w:32 k:524309 r:1 s:1"},
    {"conv2d_backward_filter", "n:5 c:524312 h:32 w:32 k:8 r:1 s:1 dtype:bf16 layout:nhwc"},
    // Sums over all elements, of which the reference reads most from a page of zeros. The first block and the last one
    // have all of those that are drawn.
    {"sum", "rows:1 cols:2149580799", "simt.tuned", 1, 1, 64},
    {"norm2", "n:2162688003", "simt.tuned", 1, 1, 64},
    {"mse", "n:2162688003 dtype:bf16", "simt.tuned", 1, 1, 64},
    // A block has all units of its sequences.
    {"rnn_tanh", "T:2 B:8388617 I:4 H:128", "simt.naive"},
    {"gru", "T:2 B:8388617 I:4 H:128 inference:1", "simt.naive"},
    {"lstm", "T:2 B:8388617 I:4 H:128 inference:1", "simt.naive"},
};

// The tensors of a problem in reserved memory.
class Tensors {
 public:
  Tensors(const std::vector<TensorSpec>& specs, int64_t drawn) : specs_(specs), drawn_(drawn) {
    for (size_t s = 0; s < specs.size(); ++s) {
      const TensorSpec& spec = specs[s];
      const auto element = static_cast<size_t>(size_of(spec.dtype));
      const unsigned shift = element >= 4 ? 2 : element == 2 ? 1 : 0;
      Region& region = device_memory().allocate(static_cast<size_t>(spec.bytes()), spec.name, false, element, shift);
      regions_.push_back(&region);
      region.all_written = spec.role != Role::out;
      region.read_only = spec.role == Role::in;  // an index that wraps may lead into another tensor
      if (spec.role != Role::out) draw(s);
      arguments_.push_back({region.base, spec.dtype, spec.role});
      values_.push_back({region.base, spec.dtype});
    }
  }
  ~Tensors() {
    for (const Region* region : regions_) device_memory().release(region->base);
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  const Tensor* arguments() const { return arguments_.data(); }
  Inputs inputs() const { return Inputs(values_); }
  bool written(const Claim& c) {  // by a kernel
    const auto s = static_cast<size_t>(c.slot);
    const auto offset = static_cast<size_t>(c.index * size_of(specs_[s].dtype));
    return regions_[s]->cells[offset >> regions_[s]->shift].written;
  }
  double value(const Claim& c) const { return inputs()[{c.slot, "", Role::out}][c.index]; }

 private:
  void draw(size_t s) {
    const TensorSpec& spec = specs_[s];
    const int64_t n = spec.elements(), count = std::min(n, drawn_);
    for (const int64_t first : {int64_t{0}, n - count})
      fill_values(regions_[s]->base + first * size_of(spec.dtype), spec.dtype, count, spec.fill, FillMode::values,
                  static_cast<uint64_t>(first + static_cast<int64_t>(s)));
  }
  const std::vector<TensorSpec>& specs_;
  const int64_t drawn_;
  std::vector<Region*> regions_;
  std::vector<Tensor> arguments_;
  std::vector<Inputs::Values> values_;
};

// What the reference says, before the run: an inout tensor then holds its input.
struct Collected final : Expect {
  std::vector<Claim> claims;

 private:
  void claim(int slot, int64_t index, double want, double abs_sum) override {
    claims.push_back({slot, index, want, abs_sum});
  }
};

// The slices at one end of a kind.
struct End {
  std::string name;  // "the first slices of kind 0"
  Collected expected;
};

std::vector<End> ends_of(const Problem& problem, const LargeCase& c, const Inputs& inputs) {
  std::vector<int64_t> parts = problem.parts();
  if (parts.empty()) parts = {problem.slices()};
  if (c.kinds > parts.size()) throw Error("{} kinds of slices; there are {}", c.kinds, parts.size());
  std::vector<End> ends;
  int64_t begin = 0;  // of the kind
  for (size_t kind = 0; kind < c.kinds; ++kind) {
    End first{fmt::format("the first slices of kind {}", kind), {}};
    End last{fmt::format("the last slices of kind {}", kind), {}};
    for (int64_t i = 0; i < std::min(c.slices, parts[kind]); ++i) {
      problem.reference(inputs, begin + i, first.expected);
      if (parts[kind] > 1) problem.reference(inputs, begin + parts[kind] - 1 - i, last.expected);
    }
    begin += parts[kind];
    ends.push_back(std::move(first));
    if (parts[kind] > 1) ends.push_back(std::move(last));
  }
  return ends;
}

// Runs the kernels of a case. False where the implementation does not support it. Throws Error where a kernel breaks a
// rule, where its result is wrong, or where the blocks that ran left nothing to compare.
bool run_case(const Problem& problem, const LargeCase& c, const Implementation& implementation, Context& context) {
  Plan plan = implementation.plan(problem, context);
  if (!plan) return false;
  const std::vector<TensorSpec> specs = problem.tensors();
  Tensors tensors(specs, c.drawn);
  const std::vector<End> ends = ends_of(problem, c, tensors.inputs());
  // What the blocks that do not run would have left in the workspace counts as written.
  const auto bytes = static_cast<size_t>(plan.workspace_bytes());
  Region& workspace = device_memory().allocate(bytes, "workspace", false, 1, 1);
  workspace.all_written = true;
  try {
    context.enter([&] { plan(Args(tensors.arguments(), workspace.base, plan.workspace_bytes())); });
  } catch (...) {
    device_memory().release(workspace.base);
    throw;
  }
  device_memory().release(workspace.base);

  for (const End& end : ends) {
    std::map<int, int64_t> compared;  // of each tensor
    for (const Claim& claim : end.expected.claims) {
      int64_t& count = compared[claim.slot];
      if (!tensors.written(claim)) continue;
      const TensorSpec& spec = specs[static_cast<size_t>(claim.slot)];
      const double got = tensors.value(claim);
      if (!(error_ratio(claim, spec.dtype, problem.tolerance(claim.slot), got) <= 1))
        throw Error("{}[{}] is {}, the reference says {}", spec.name, claim.index, got, claim.want);
      ++count;
    }
    for (const auto& [slot, count] : compared)
      if (count == 0) throw Error("no block wrote any of {} in {}", specs[static_cast<size_t>(slot)].name, end.name);
  }
  return true;
}

}  // namespace

bool large_tensors(bool verbose, const std::string& op) {
  std::string reason;
  const std::unique_ptr<Context> context = open_simt(reason, {.blocks = kBlocks});
  bool good = true;
  int runs = 0;
  for (const LargeCase& c : kCases) {
    if (!op.empty() && op != c.op) continue;
    const Problem problem = parse_case(c.op, c.text);
    int supported = 0;
    for (const Implementation* i : implementations(c.op)) {
      if (i->device != Device::simt || i->name == "simt.unfused" || (*c.only && i->name != c.only)) continue;
      const std::string job = fmt::format("{}/{}/{}", c.op, i->name, problem.label());
      try {
        if (!run_case(problem, c, *i, *context)) continue;
        if (verbose) fmt::print("{}\n", job);
      } catch (const Error& error) {
        fmt::print("{}: {}\n", job, error.what());
        good = false;
      }
      ++supported;
    }
    runs += supported;
    if (supported == 0) {
      fmt::print("{} {}: no kernel supports this case\n", c.op, c.text);
      good = false;
    }
  }
  if (runs == 0) fmt::print("no case is of {}\n", op);
  fmt::print("{} kernels ran on tensors of more than 2^31 elements\n", runs);
  return good && runs > 0;
}

}  // namespace duet::selftest
