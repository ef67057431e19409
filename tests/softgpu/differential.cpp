// SPDX-License-Identifier: Apache-2.0
// duet_softgpu_differential: every hand-written row twice, as nvcc compiled it (cuda.* on the software GPU) and as g++
// compiled it (simt.*), on whole numbers where the op is exact on them. Both have to give the same bits. Rows that
// cannot are listed with their reason in tests/softgpu/differences.txt; a row there that gives the same bits fails too.
//
// A reason that says `joined` is tested as well, by a second pass: on PTX in which each fma is a product and a sum, the
// row gives the same bits. `approximate` is left to the reader.
//
//   duet_softgpu_differential LIST [I/N]    the I-th of N parts, from 0
//   duet_softgpu_differential LIST joined   the second pass
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "core/error.h"
#include "core/fill.h"
#include "core/gpu.h"
#include "core/process.h"
#include "core/registry.h"
#include "core/session.h"
#include "simt/simt.h"
#include "softgpu/device.h"

namespace duet {
namespace {
constexpr uint64_t kSeed = 7;
constexpr int kMultiprocessors = 4;   // of the software GPU
constexpr double kMaxAccesses = 6e4;  // of a case: on the host each is checked, which is slow

constexpr const char* kJoined = "joined";  // a reason

// Each fma as the product and the sum that g++ makes of the same expression.
std::string split_fma(const std::string& ptx) {
  static const std::regex fma(R"(fma\.rn\.(f32|f64)\s+(\S+), (\S+), (\S+), (\S+);)");
  std::istringstream lines(ptx);
  std::string all;
  for (std::string line; std::getline(lines, line); all += '\n') {
    all += line.find("fma.rn.f") == line.npos
               ? line
               : std::regex_replace(line, fma, "mul.rn.$1 %split_$1, $3, $4; add.rn.$1 $2, %split_$1, $5;");
    if (line == "{") all += "\n.reg .f32 %split_f32;\n.reg .f64 %split_f64;";
  }
  return all;
}

// Row and reason.
std::map<std::string, std::string> read_list(const std::string& path) {
  std::map<std::string, std::string> list;
  std::ifstream file(path);
  if (!file) throw Error("{} cannot be read", path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t gap = line.find("  ");
    if (gap == line.npos) throw Error("{}: '{}' has no reason", path, line);
    list[line.substr(0, gap)] = line.substr(line.find_first_not_of(' ', gap));
  }
  return list;
}

HostTensors outputs_of(const Problem& problem, const Implementation& implementation, Context& context,
                       const HostTensors& inputs, bool& supported) {
  Session session(problem, implementation, context, inputs);
  supported = session.supported();
  if (!supported) return {};
  session.poison_outputs();
  context.enter([&] { session.run(); });
  return session.download();
}

// "" where every element has the same bits; NaN equals NaN. Otherwise the first that differs.
std::string difference(const HostTensors& a, const HostTensors& b) {
  const auto left = a.values(), right = b.values();
  for (size_t slot = 0; slot < a.size(); ++slot) {
    const TensorSpec& spec = a.specs()[slot];
    if (!a.holds(slot) || !b.holds(slot)) continue;
    const auto bytes = static_cast<size_t>(spec.elements() * size_of(spec.dtype));
    if (std::memcmp(a.data(slot), b.data(slot), bytes) == 0) continue;
    for (int64_t i = 0; i < spec.elements(); ++i) {
      const auto each = static_cast<size_t>(size_of(spec.dtype));
      const auto* x = static_cast<const char*>(a.data(slot)) + static_cast<size_t>(i) * each;
      const auto* y = static_cast<const char*>(b.data(slot)) + static_cast<size_t>(i) * each;
      if (std::memcmp(x, y, each) == 0) continue;
      const double u = left[slot][i], v = right[slot][i];
      if (std::isnan(u) && std::isnan(v)) continue;
      return fmt::format("{}[{}]: {} as nvcc compiled it, {} as g++ did", spec.name, i, u, v);
    }
  }
  return "";
}

int main(const std::string& list_path, size_t part, size_t parts, bool joined) {
  const auto listed = read_list(list_path);
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) throw Error("no software GPU: {}", reason);
  const std::unique_ptr<Context> host = open_simt(reason, {.multiprocessors = kMultiprocessors});
  if (!host) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  if (joined) softgpu::Device::get().plant.ptx = split_fma;
  size_t number = 0;
  int rows = 0, equal = 0, with_reason = 0, cases = 0, failures = 0;
  for (const auto& [name, op] : ops())
    for (const Implementation* nvcc : implementations(name)) {
      if (nvcc->device != Device::cuda) continue;
      const Implementation* gxx = find_implementation(name, "simt" + nvcc->name.substr(nvcc->name.find('.')));
      if (!gxx || number++ % parts != part) continue;
      const auto known = listed.find(name + " " + nvcc->name);
      if (joined && (known == listed.end() || known->second != kJoined)) continue;
      ++rows;
      std::string differs;
      int compared = 0;
      for (const ProblemCase& c : op.cases(Scale::test)) {
        const Problem& problem = c.problem;
        if (std::max(problem.flops() / 2, static_cast<double>(problem.bytes()) / 4) > kMaxAccesses) continue;
        const bool whole = op.exact_on_integers && !problem.has_named_fills();
        const HostTensors inputs = draw_inputs(problem, whole ? FillMode::integers : FillMode::values, kSeed);
        bool first = false, second = false;
        const HostTensors a = outputs_of(problem, *nvcc, *gpu, inputs, first);
        const HostTensors b = outputs_of(problem, *gxx, *host, inputs, second);
        if (first != second) {
          std::printf("FAILED: %s/%s/%s is supported by one alone\n", name.c_str(), nvcc->name.c_str(),
                      problem.label().c_str());
          ++failures;
        }
        if (!first || !second) continue;
        ++compared;
        const std::string found = difference(a, b);
        if (!found.empty() && differs.empty()) differs = problem.label() + ": " + found;
      }
      cases += compared;
      const std::string row = name + " " + nvcc->name;
      equal += differs.empty();
      if (compared == 0) {
        std::printf("FAILED: %s: no case was compared\n", row.c_str());
        ++failures;
      } else if (joined) {
        if (differs.empty()) continue;
        std::printf("FAILED: %s: differs without joined products and sums as well: %s\n", row.c_str(), differs.c_str());
        ++failures;
      } else if (differs.empty() == (known == listed.end())) {
        with_reason += !differs.empty();
      } else {
        std::printf("FAILED: %s: %s\n", row.c_str(),
                    differs.empty() ? "gives the same bits, but is listed" : differs.c_str());
        ++failures;
      }
    }
  if (joined)
    std::printf("rows that differ by joined products and sums alone: %d of %d\n", equal, rows);
  else
    std::printf("rows equal to simt %d of %d, %d differ for a reason that is listed; %d cases\n", equal, rows,
                with_reason, cases);
  return failures == 0 ? 0 : 1;
}
}  // namespace
}  // namespace duet

int main(int argc, char** argv) {
  duet::prepare_process(argc, argv);
  size_t part = 0, parts = 1;
  const bool joined = argc == 3 && std::string(argv[2]) == duet::kJoined;
  if (argc < 2 || argc > 3 || (argc == 3 && !joined && std::sscanf(argv[2], "%zu/%zu", &part, &parts) != 2) ||
      part >= parts) {
    std::fprintf(stderr, "usage: duet_softgpu_differential LIST [I/N|joined]\n");
    return 2;
  }
  try {
    return duet::main(argv[1], part, parts, joined);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "duet_softgpu_differential: %s\n", e.what());
    return 1;
  }
}
