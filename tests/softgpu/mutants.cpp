// SPDX-License-Identifier: Apache-2.0
// duet_softgpu_mutants: would a mistake in the product's kernels and launch code be seen? Each mutant changes the PTX
// of a kernel as a mistake in inline assembly would, or a launch as a mistake in the host's code would, and a row of
// the op tests runs on the software GPU. A mutant that passes is a hole in the cases of that op.
//
//   duet_softgpu_mutants [text]    only mutants with this text in their name
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "core/compare.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/gpu.h"
#include "core/process.h"
#include "core/registry.h"
#include "core/session.h"
#include "softgpu/device.h"

namespace duet {
namespace {

using softgpu::Device;
using softgpu::Launch;

constexpr double kMaxFlops = 4e6;  // of a case; mistakes show on small ones

struct Mutant {
  std::string name, op, implementation;
  std::string pattern, replacement;          // of the PTX, as std::regex_replace takes them; every match is replaced
  std::function<void(Launch&)> launch = {};  // or of the launches
  bool drop_fills = false;
  std::function<std::string(std::string)> edit = {};  // of the PTX, where a line does not tell
};

void exchange_pointers(Launch& l) {
  if (l.parameters.size() < 16) return;
  uint64_t a = 0, b = 0;
  std::memcpy(&a, l.parameters.data(), 8);
  std::memcpy(&b, l.parameters.data() + 8, 8);
  std::memcpy(l.parameters.data(), &b, 8);
  std::memcpy(l.parameters.data() + 8, &a, 8);
}

// Deletes the barriers of the block before each point where a block arrives at the barrier of the grid, or those behind
// the fence that follows it. A jump may lead to the latter.
std::string delete_barriers(std::string ptx, bool before) {
  const std::string arrives = "atom.global.add.u32", barrier = "bar.sync", jump = "bra.uni";
  for (size_t at = ptx.find(arrives); at != ptx.npos; at = ptx.find(arrives, at + 1)) {
    size_t begin = ptx.rfind(barrier, at);
    if (!before) {
      const size_t fence = ptx.find("membar.gl", at), jumps = ptx.find(jump, fence);
      begin = ptx.find(barrier, fence);
      if (jumps < begin) {
        const size_t label = ptx.find('$', jumps);
        begin = ptx.find(barrier, ptx.find("\n" + ptx.substr(label, ptx.find(';', label) - label) + ":"));
      }
    }
    if (begin < ptx.size()) ptx.replace(begin, ptx.find('\n', begin) - begin, "");
  }
  return ptx;
}

std::vector<Mutant> mutants() {
  std::vector<Mutant> all;
  const auto ptx = [&](const std::string& name, const std::string& op, const std::string& implementation,
                       const std::string& pattern, const std::string& replacement) {
    all.push_back({name, op, implementation, pattern, replacement});
  };
  const auto launch = [&](const std::string& name, const std::string& op, const std::string& implementation,
                          std::function<void(Launch&)> change) {
    all.push_back({name, op, implementation, "", "", std::move(change)});
  };
  // Inline assembly of simt/mma.h, in the form that nvcc leaves it.
  const std::string four = R"(\{([^,}]+),([^,}]+),([^,}]+),([^,}]+)\})";
  const std::string mma = R"((mma\.sync\.\S+\s+))" + four + ", *" + four + R"(, *\{([^,}]+),([^,}]+)\})";
  ptx("mma: registers 1 and 2 of a exchanged", "gemm", "cuda.tuned", mma, "$1{$2,$3,$4,$5}, {$6,$8,$7,$9}, {$10,$11}");
  ptx("mma: registers 0 and 3 of a exchanged", "gemm", "cuda.tuned", mma, "$1{$2,$3,$4,$5}, {$9,$7,$8,$6}, {$10,$11}");
  ptx("mma: registers of b exchanged", "gemm", "cuda.tuned", mma, "$1{$2,$3,$4,$5}, {$6,$7,$8,$9}, {$11,$10}");
  ptx("mma: registers 1 and 2 of d exchanged", "gemm", "cuda.tuned", mma, "$1{$2,$4,$3,$5}, {$6,$7,$8,$9}, {$10,$11}");
  ptx("mma: registers of b exchanged, attention", "attention", "cuda.tuned", mma,
      "$1{$2,$3,$4,$5}, {$6,$7,$8,$9}, {$11,$10}");
  ptx("mma: bf16 taken as f16", "gemm", "cuda.tuned", R"(mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32)",
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
  const std::string ldmatrix = R"((ldmatrix\.sync\.\S+\s+))" + four;
  ptx("ldmatrix: registers 1 and 2 exchanged", "gemm", "cuda.tuned", ldmatrix, "$1{$2,$4,$3,$5}");
  ptx("ldmatrix: not transposed", "gemm", "cuda.tuned", R"(\.x4\.trans\.shared)", ".x4.shared");
  ptx("ldmatrix: not transposed, attention", "attention", "cuda.tuned", R"(\.x4\.trans\.shared)", ".x4.shared");
  ptx("cp.async: one group too many may be incomplete", "gemm", "cuda.tuned", R"(cp\.async\.wait_group 2;)",
      "cp.async.wait_group 3;");
  ptx("cp.async: does not wait", "gemm", "cuda.tuned", R"(cp\.async\.wait_group \d+;)", "");
  ptx("cp.async: is not committed", "gemm", "cuda.tuned", R"(cp\.async\.commit_group;)", "");
  ptx("cp.async: the source's bytes are not limited", "gemm", "cuda.tuned",
      R"((cp\.async\.cg\.shared\.global \[[^\]]+\], *\[[^\]]+\], 16), *[^;]+;)", "$1;");
  ptx("cp.async: copies 8 bytes of 16", "gemm", "cuda.tuned",
      R"(cp\.async\.cg\.shared\.global (\[[^\]]+\], *\[[^\]]+\]), 16, *[^;]+;)", "cp.async.ca.shared.global $1, 8;");
  ptx("bar.sync: missing", "gemm", "cuda.tuned", R"(bar(rier)?\.sync(\.aligned)?\s+0;)", "");
  ptx("bar.sync: missing, layernorm", "layernorm", "cuda.tuned", R"(bar(rier)?\.sync(\.aligned)?\s+0;)", "");
  ptx("shfl: up instead of across", "layernorm", "cuda.tuned", R"(shfl\.sync\.bfly\.b32)", "shfl.sync.up.b32");
  ptx("shfl: the lanes' order reversed", "softmax", "cuda.tuned", R"(shfl\.sync\.bfly\.b32)", "shfl.sync.down.b32");
  ptx("atomic or replaced by and", "unscale", "cuda.naive", R"(atom\.global\.or\.b32)", "atom.global.and.b32");
  ptx("a sum of f32 instead of a maximum", "softmax", "cuda.naive", R"(max\.f32)", "add.f32");
  ptx("exponential to the wrong base's sign", "softmax", "cuda.tuned", R"(ex2\.approx\.ftz\.f32|ex2\.approx\.f32)",
      "lg2.approx.ftz.f32");
  ptx("bf16 rounded towards 0", "gelu", "cuda.tuned", R"(cvt\.rn\.bf16\.f32)", "cvt.rz.bf16.f32");
  // Blocks that add to the same sums in turn. Which accesses are ordered is for simt to tell.
  ptx("turns: every second one is left out", "attention_backward", "cuda.tuned",
      R"((atom\.global\.add\.u32 [^,]+, *\[[^\]]+\]), 1;)", "$1, 2;");
  ptx("turns: a block does not say that it has added", "attention_backward", "cuda.tuned",
      R"((atom\.global\.add\.u32 [^,]+, *\[[^\]]+\]), 1;)", "$1, 0;");
  ptx("turns: the sums of the blocks before are not read", "attention_backward", "cuda.tuned",
      R"(ld\.global\.cg\.v4\.u32 +)" + four + R"(, *\[[^\]]+\];)",
      "mov.u32 $1, 0; mov.u32 $2, 0; mov.u32 $3, 0; mov.u32 $4, 0;");
  // Blocks that wait for each other at every step.
  for (const std::string op : {"gru", "gru_backward"}) {
    ptx("barrier of the grid: no block arrives, " + op, op, "cuda.tuned",
        R"((atom\.global\.add\.u32 [^,]+, *\[[^\]]+\]), 1;)", "$1, 0;");
    ptx("barrier of the grid: opens too early, " + op, op, "cuda.tuned",
        R"((atom\.global\.add\.u32 [^,]+, *\[[^\]]+\]), 1;)", "$1, 4;");
    for (const bool before : {true, false})
      all.push_back(
          {fmt::format("barrier of the grid: no barrier of the block {} it, {}", before ? "before" : "behind", op),
           op,
           "cuda.tuned",
           "",
           "",
           {},
           false,
           [before](std::string ptx) { return delete_barriers(std::move(ptx), before); }});
    launch("barrier of the grid: the launch is not cooperative, " + op, op, "cuda.tuned",
           [](Launch& l) { l.cooperative = false; });
    all.push_back({"barrier of the grid: its counter is not set to 0, " + op, op, "cuda.tuned", "", "", {}, true});
  }
  // Launch code.
  launch("one block less", "add", "cuda.tuned", [](Launch& l) { --l.grid.x; });
  launch("one block less, transpose", "transpose", "cuda.tuned", [](Launch& l) { l.grid.x -= l.grid.x > 1; });
  launch("half of the threads", "softmax", "cuda.tuned", [](Launch& l) { l.block.x = (l.block.x + 1) / 2; });
  launch("a block too wide by a warp", "layernorm", "cuda.tuned", [](Launch& l) { l.block.x += 32; });
  launch("16 bytes of dynamic shared memory too few", "gemm", "cuda.tuned",
         [](Launch& l) { l.dynamic_shared_bytes -= l.dynamic_shared_bytes > 16 ? 16 : 0; });
  launch("rows and columns of the grid exchanged", "gemm", "cuda.tuned",
         [](Launch& l) { std::swap(l.grid.x, l.grid.y); });
  // Launch bounds: a launch of more threads is refused.
  for (const std::string op : {"layernorm", "gemm", "attention"})
    ptx("launch bounds of one warp, " + op, op, "cuda.tuned", R"(\.maxntid \d+)", ".maxntid 32");
  // Parameters.
  launch("two pointers exchanged", "transpose", "cuda.naive", exchange_pointers);
  launch("a structure of parameters off by 4 bytes", "adam", "cuda.tuned",
         [](Launch& l) { std::memmove(l.parameters.data() + 4, l.parameters.data(), l.parameters.size() - 4); });
  launch("a structure's last 4 bytes not set", "layernorm", "cuda.tuned",
         [](Launch& l) { std::memset(l.parameters.data() + l.parameters.size() - 4, 0, 4); });
  launch("a pointer to the next element", "relu", "cuda.tuned", [](Launch& l) {
    uint64_t pointer = 0;
    std::memcpy(&pointer, l.parameters.data() + 16, 8);  // behind the functor and the number of elements
    pointer += 4;
    std::memcpy(l.parameters.data() + 16, &pointer, 8);
  });
  // Fills.
  all.push_back({"memory that is not set to 0", "fill", "cuda.runtime", "", "", {}, true});
  all.push_back({"turns: counters that are not set to 0", "attention_backward", "cuda.tuned", "", "", {}, true});
  return all;
}

enum Verdict : int { kKilled = 0, kSurvived = 1, kUnchanged = 2, kBroken = 3 };

// Runs the row with the mutant in place; in a process of its own, since a failed kernel loses the device.
Verdict run_row(const Mutant& m) {
  Device& device = Device::get();
  bool changed = false;
  if (!m.pattern.empty())
    device.plant.ptx = [&, pattern = std::regex(m.pattern)](const std::string& text) {
      std::istringstream lines(text);
      std::string all;
      for (std::string line; std::getline(lines, line); all += '\n') {
        const bool may_match = line.find('.') != line.npos && line.find("//") == line.npos;
        all += may_match ? std::regex_replace(line, pattern, m.replacement) : line;
      }
      changed |= all.size() != text.size() || all != text;
      return all;
    };
  if (m.edit)
    device.plant.ptx = [&](const std::string& text) {
      std::string edited = m.edit(text);
      changed |= edited != text;
      return edited;
    };
  const Op& op = find_op(m.op);
  const Implementation* implementation = find_implementation(m.op, m.implementation);
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!implementation || !gpu) return kBroken;
  if (m.launch)
    device.plant.launch = [&](Launch& l) {
      const auto before =
          std::tuple(l.grid.x, l.grid.y, l.block.x, l.dynamic_shared_bytes, l.cooperative, l.parameters);
      m.launch(l);
      changed |=
          before != std::tuple(l.grid.x, l.grid.y, l.block.x, l.dynamic_shared_bytes, l.cooperative, l.parameters);
    };
  bool armed = false;
  if (m.drop_fills) device.plant.drop_fill = [&] { return armed && (changed = true); };
  for (const ProblemCase& c : op.cases(Scale::test)) {
    if (c.problem.flops() > kMaxFlops) continue;
    const FillMode mode = op.exact_on_integers && !c.problem.has_named_fills() ? FillMode::integers : FillMode::values;
    const HostTensors inputs = draw_inputs(c.problem, mode, 7);
    Session session(c.problem, *implementation, *gpu, inputs);
    if (!session.supported()) continue;
    session.poison_outputs();
    armed = true;
    gpu->enter([&] { session.run(); });
    gpu->synchronize();
    armed = false;
    if (!session.check(Expected::all(c.problem, inputs), false).passed()) return kKilled;
  }
  return changed ? kSurvived : kUnchanged;
}

int main(const std::string& wanted) {
  int killed = 0, all = 0;
  for (const Mutant& m : mutants()) {
    if (m.name.find(wanted) == std::string::npos) continue;
    ++all;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      if (!std::freopen("/dev/null", "w", stderr)) _exit(kBroken);
      int verdict = kKilled;
      try {
        verdict = run_row(m);
      } catch (const std::exception& e) {  // the device reported it; PTX that it cannot read proves nothing
        if (std::strstr(e.what(), "PTX compilation failed")) verdict = kBroken;
      }
      _exit(verdict);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const int verdict = WIFEXITED(status) ? WEXITSTATUS(status) : int{kBroken};
    killed += verdict == kKilled;
    if (verdict != kKilled)
      std::printf("%s: %s (%s %s)\n",
                  verdict == kSurvived    ? "SURVIVED"
                  : verdict == kUnchanged ? "CHANGES NOTHING"
                                          : "DOES NOT RUN",
                  m.name.c_str(), m.op.c_str(), m.implementation.c_str());
  }
  std::printf("planted errors in kernels and launches: %d of %d are seen\n", killed, all);
  return killed == all && all > 0 ? 0 : 1;
}
}  // namespace
}  // namespace duet

int main(int argc, char** argv) {
  duet::prepare_process(argc, argv);
  return duet::main(argc > 1 ? argv[1] : "");
}
