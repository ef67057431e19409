// SPDX-License-Identifier: Apache-2.0
#include "cli/op.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/devices.h"
#include "cli/exit_status.h"
#include "cli/op_describe.h"
#include "cli/op_inputs.h"
#include "core/error.h"
#include "core/session.h"

namespace duet {
namespace {

constexpr const char* kReference = "reference";

// Output files are created before the work starts, so that a folder that cannot be written is an error at once. They
// get their names only at the end, all together.
struct OutputFile {
  size_t slot;
  std::string path;
  AtomicFile file;
};
std::vector<OutputFile> open_outputs(const Problem& problem, const std::vector<std::string>& outputs) {
  std::vector<OutputFile> results;
  const std::vector<TensorSpec> specs = problem.tensors();
  for (const auto& [name, path] : split_pairs("--out", outputs)) {
    std::vector<std::string> names;
    size_t slot = specs.size();
    for (size_t s = 0; s < specs.size(); ++s) {
      if (specs[s].role == Role::in) continue;
      names.emplace_back(specs[s].name);
      if (name == specs[s].name) slot = s;
    }
    if (slot == specs.size())
      throw Error("--out {}: {} has no output of this name; it has {}", name, problem.name(), fmt::join(names, " "));
    results.push_back({slot, path, AtomicFile(path)});
  }
  return results;
}

void write_outputs(std::vector<OutputFile>& results, const HostTensors& got) {
  for (OutputFile& r : results) {
    const TensorSpec& spec = got.specs()[r.slot];
    write_npy(r.file, spec.dtype, spec.shape, got.data(r.slot));
    r.file.finish();
  }
  for (OutputFile& r : results) {
    r.file.commit();
    fmt::print("{} -> {}\n", got.specs()[r.slot].name, r.path);
  }
}

double elapsed_s(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A rough time for a first impression; bench_all is the tool for measuring. inout tensors are not restored between
// runs: each run starts from what the one before left.
void print_time(Session& session) {
  constexpr double kWarmUp_s = 0.05;   // at least so long before the first sample
  constexpr double kSample_s = 20e-6;  // a sample is a batch of calls that takes at least so long
  constexpr double kBudget_s = 0.5;    // of all samples
  Context& context = session.context();
  std::vector<double> samples;
  int batch = 1;
  context.enter([&] {
    const auto call = [&] {
      session.run();
      context.synchronize();
    };
    const auto several = [&] {
      for (int i = 0; i < batch; ++i) call();
    };
    double spent = 0;
    double once = 0;
    for (int i = 0; i < 3 || spent < kWarmUp_s; ++i) {
      once = elapsed_s(call);
      spent += once;
    }
    batch = std::max(1, static_cast<int>(std::ceil(kSample_s / std::max(once, 1e-9))));
    const int wanted = std::clamp(static_cast<int>(kBudget_s / (batch * std::max(once, 1e-9))), 3, 100);
    for (int i = 0; i < wanted; ++i) samples.push_back(elapsed_s(several) / batch);
  });
  std::sort(samples.begin(), samples.end());
  fmt::print("time: call {:.4g} us (median of {} samples of {} calls, {:.4g} .. {:.4g}), plan {:.4g} us\n",
             samples[samples.size() / 2] * 1e6, samples.size(), batch, samples.front() * 1e6, samples.back() * 1e6,
             session.create_s() * 1e6);
  if (session.plan().is_prepared()) fmt::print("prepared before that: {}\n", session.plan().prepared_names());
}

// The whole answer where the reference takes seconds and its claims fit in memory; otherwise sampled slices.
Expected expected_of(const Problem& problem, const HostTensors& inputs, uint64_t seed) {
  constexpr double kMaxWork = 4e8;           // flops and bytes: a few seconds of the reference
  constexpr int64_t kMaxElements = 1 << 22;  // 128 MiB of claims
  int64_t elements = 0;
  for (const TensorSpec& t : inputs.specs())
    if (t.role != Role::in) elements += t.elements();
  const bool all = problem.flops() + static_cast<double>(problem.bytes()) <= kMaxWork && elements <= kMaxElements;
  return all ? Expected::all(problem, inputs) : Expected::sampled(problem, inputs, seed);
}

int report(const Check& check) {
  if (!check.passed()) {
    fmt::print(stderr, "duet: wrong: {}\n", check.failure);
    return kFailed;
  }
  fmt::print("check: passed; largest error {:.3g} of its bound, {} elements of {} slices compared\n",
             check.max_error_ratio, check.elements, check.slices);
  return 0;
}

int unsupported(const std::string& job, const std::string& reason) {
  fmt::print(stderr, "duet: {}: {}\n", job, reason);
  return kUnsupported;
}

int run_reference(const OpOptions& options, OpInputs& prepared) {
  if (options.time) throw Error("--time: the reference is written to be right, not fast, and is not timed");
  std::vector<OutputFile> results = open_outputs(prepared.problem, options.outputs);
  require_memory(prepared.problem, 2);
  const HostTensors inputs = prepared.read(options);
  const HostTensors got = run_reference(prepared.problem, inputs);
  const int status = options.check
                         ? report(compare(prepared.problem,
                                          expected_of(prepared.problem, inputs, options.seed.value_or(1)), got, false))
                         : 0;
  write_outputs(results, got);
  return status;
}

}  // namespace

int run_op(const OpOptions& options) {
  if (options.list) {
    for (const auto& [name, op] : ops()) fmt::print("{}\n", name);
    return 0;
  }
  if (options.op.empty()) throw Error("op: an op is expected; duet op --list names them");
  find_op(options.op);
  Devices devices(options.threads);
  std::string reason;
  if (options.threads) devices.open(Device::cpu, reason);  // throws where --threads is out of range
  if (options.describe) {
    fmt::print("{}", describe(OpInputs::prepare(options).problem, devices));
    return 0;
  }

  const std::string& name = options.implementation;
  const std::vector<std::string> known = known_implementations(options.op);
  if (name != kReference && std::find(known.begin(), known.end(), name) == known.end())
    throw Error("--impl '{}' is not one of {} {} of {}", name, kReference, fmt::join(known, " "), options.op);
  OpInputs prepared = OpInputs::prepare(options);
  if (name == kReference) return run_reference(options, prepared);

  const Problem& problem = prepared.problem;
  const std::string job = options.op + "/" + name + "/" + problem.label();
  const Implementation* implementation = find_implementation(options.op, name);
  if (!implementation) return unsupported(job, not_built_reason(name));
  Context* context = devices.open(implementation->device, reason);
  if (!context) return unsupported(job, reason);

  std::vector<OutputFile> results = open_outputs(problem, options.outputs);
  require_memory(problem,
                 implementation->device == Device::cpu
                     ? 3
                     : 2);  // host tensors, device buffers, the copies that restore inout tensors
  const HostTensors inputs = prepared.read(options);
  Session session(problem, *implementation, *context, inputs);
  if (!session.supported()) return unsupported(job, session.plan().reason());

  if (options.time) print_time(session);
  session.restore();  // what is checked and written is one run on the given inputs, in the buffers that were timed
  session.poison_outputs();
  context->enter([&] { session.run(); });
  context->synchronize();
  const int status =
      options.check ? report(session.check(expected_of(problem, inputs, options.seed.value_or(1)), false)) : 0;
  write_outputs(results, session.download());
  return status;
}

}  // namespace duet
