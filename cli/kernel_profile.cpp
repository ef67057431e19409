// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_profile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/devices.h"
#include "cli/exit_status.h"
#include "cli/kernel_code.h"
#include "cli/kernel_resources.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/session.h"
#include "simt/profile.h"
#include "simt/simt.h"

namespace duet {
namespace {

using Json = nlohmann::ordered_json;

double per(uint64_t sum, uint64_t count) { return count ? static_cast<double>(sum) / static_cast<double>(count) : 0; }
double rounded(double v) { return std::round(v * 1000) / 1000; }
const char* name_of(MemoryOp op) { return op == MemoryOp::load ? "load" : op == MemoryOp::store ? "store" : "atomic"; }

Json line_json(const AccessLine& l) {
  const std::string unit = l.shared ? "wavefronts" : "sectors";
  Json j{{"at", l.at},
         {"space", l.shared ? "shared" : "global"},
         {"op", name_of(l.op)},
         {"bytes", l.bytes},
         {"requests", l.requests},
         {"lanes", rounded(per(l.lanes, l.requests))},
         {unit, rounded(per(l.cost, l.requests))},
         {unit + "_ideal", rounded(per(l.ideal, l.requests))},
         {unit + "_worst", l.worst}};
  if (l.op == MemoryOp::atomic) j["same_address"] = rounded(per(l.same_address, l.requests));
  return j;
}

Json sum_json(const KernelProfile::Sum& s, const std::string& unit) {
  return {{"requests", s.requests}, {unit, s.cost}, {unit + "_ideal", s.ideal}};
}

Json extent_json(const Extent& e) { return {e.x, e.y, e.z}; }

// What nvcc reported of a kernel, for each architecture.
std::vector<KernelResources> resources_of(const KernelProfile& k) {
  return of_kernel(kernel_resources(), k.name, source_file_of(k.function),
                   [](const KernelResources& a, const KernelResources& b) { return a.registers > b.registers; });
}
std::vector<KernelCode> code_of(const KernelProfile& k) {
  return of_kernel(kernel_code(), k.name, source_file_of(k.function),
                   [](const KernelCode& a, const KernelCode& b) { return a.instructions > b.instructions; });
}

// With the number of blocks that a multiprocessor can hold at most.
Json resources_json(const KernelProfile& k) {
  Json list = Json::array();
  for (const KernelResources& r : resources_of(k)) {
    Json j{{"architecture", fmt::format("sm_{}", r.architecture)},
           {"registers", r.registers},
           {"spill_store_bytes", r.spill_store_bytes},
           {"spill_load_bytes", r.spill_load_bytes},
           {"stack_bytes", r.stack_bytes},
           {"static_shared_bytes", r.static_shared_bytes}};
    const int threads = static_cast<int>(k.grid.threads.count());
    if (const auto o =
            theoretical_occupancy(r.architecture, threads, r.registers, r.static_shared_bytes + k.grid.shared_bytes))
      j["theoretical_occupancy"] = {{"warps", rounded(o->warps)}, {"blocks", o->blocks}, {"limit", o->limit}};
    list.push_back(std::move(j));
  }
  return list;
}

Json code_json(const KernelProfile& k) {
  Json list = Json::array();
  for (const KernelCode& c : code_of(k))
    list.push_back({{"architecture", fmt::format("sm_{}", c.architecture)}, {"instructions", c.instructions}});
  return list;
}

Json kernel_json(const KernelProfile& k) {
  Json j{{"kernel", k.name},
         {"file", source_file_of(k.function)},
         {"launches", k.launches},
         {"grid", extent_json(k.grid.blocks)},
         {"block", extent_json(k.grid.threads)},
         {"static_shared_bytes", k.static_shared_bytes},
         {"dynamic_shared_bytes", k.grid.shared_bytes},
         {"blocks", k.blocks},
         {"blocks_run", k.blocks_run},
         {"block_barriers", k.block_barriers},
         {"warp_efficiency", rounded(k.warp_efficiency())},
         {"global",
          {{"load", sum_json(k.sum(false, MemoryOp::load), "sectors")},
           {"store", sum_json(k.sum(false, MemoryOp::store), "sectors")},
           {"atomic", sum_json(k.sum(false, MemoryOp::atomic), "sectors")},
           {"bytes_read", k.bytes_read},
           {"bytes_written", k.bytes_written}}},
         {"shared",
          {{"load", sum_json(k.sum(true, MemoryOp::load), "wavefronts")},
           {"store", sum_json(k.sum(true, MemoryOp::store), "wavefronts")},
           {"atomic", sum_json(k.sum(true, MemoryOp::atomic), "wavefronts")}}}};
  j["compiled"] = resources_json(k);
  j["code"] = code_json(k);
  j["memory"] = Json::array();
  j["partly_filled"] = Json::array();
  for (const AccessLine& l : k.lines) j["memory"].push_back(line_json(l));
  for (const PartlyFilled& p : k.partly_filled)
    j["partly_filled"].push_back(
        {{"at", p.at}, {"executions", p.executions}, {"lanes", rounded(per(p.lanes, p.executions))}});
  return j;
}

void print_table(const std::vector<KernelProfile>& kernels) {
  for (const KernelProfile& k : kernels) {
    fmt::print("{}  {} x {} threads, {} of {} blocks, warps {:.0f} % full, {} barriers\n", k.name,
               k.grid.blocks.count(), k.grid.threads.count(), k.blocks_run, k.blocks, 100 * k.warp_efficiency(),
               k.block_barriers);
    for (const AccessLine& l : k.lines)
      fmt::print(
          "  {:6} {:6} {:2} bytes  {:9} requests of {:4.1f} lanes  {:6.2f} {} (ideal {:.2f}, worst {}){}  {}\n",
          l.shared ? "shared" : "global", name_of(l.op), l.bytes, l.requests, per(l.lanes, l.requests),
          per(l.cost, l.requests), l.shared ? "wavefronts" : "sectors", per(l.ideal, l.requests), l.worst,
          l.op == MemoryOp::atomic ? fmt::format(", {:.1f} lanes on one address", per(l.same_address, l.requests)) : "",
          l.at);
    for (const KernelResources& r : resources_of(k))
      fmt::print("  sm_{}: {} registers, {} bytes spilled, {} bytes static shared\n", r.architecture, r.registers,
                 r.spill_store_bytes, r.static_shared_bytes);
    for (const KernelCode& c : code_of(k))
      fmt::print("  sm_{}: {} instructions of code\n", c.architecture, c.instructions);
  }
}

// Runs the job once on the host and counts. `implementation`: simt.*. Throws Error where it does not serve the case.
// Nothing, and a reason, where the implementation does not take the case.
std::vector<KernelProfile> profile_job(const Problem& problem, const Implementation& implementation, uint64_t blocks,
                                       uint64_t seed, std::string& reason) {
  const std::unique_ptr<Context> host = open_simt(reason, {.seed = seed, .blocks = static_cast<int64_t>(blocks)});
  if (!host) throw Error("{}", reason);
  const HostTensors inputs = draw_inputs(problem, FillMode::values, seed);
  Session session(problem, implementation, *host, inputs);
  if (!session.supported()) {
    reason = session.plan().reason();
    return {};
  }
  session.restore();
  return profile_kernels([&] { host->enter([&] { session.run(); }); });
}

Json profile_json(const std::string& job, const Problem& problem, const std::vector<KernelProfile>& kernels) {
  Json j{{"job", job},
         {"kind", "static profile: counted on the host, no time"},
         {"contract_bytes", problem.bytes()},
         {"contract_flops", problem.flops()}};
  uint64_t read = 0;
  uint64_t written = 0;
  for (const KernelProfile& k : kernels) {
    read += k.bytes_read;
    written += k.bytes_written;
  }
  j["bytes_read"] = read;
  j["bytes_written"] = written;
  j["kernels"] = Json::array();
  for (const KernelProfile& k : kernels) j["kernels"].push_back(kernel_json(k));
  if (kernel_resources().empty()) j["compiled"] = "unknown: this build has no CUDA compiler";
  return j;
}

struct Counted {
  std::vector<KernelProfile> kernels;
  Json json;
};

// Nothing, and a reason, where the kernels cannot be run here.
std::optional<Counted> count(const std::string& name, const KernelProfileOptions& options, std::string& reason) {
  const JobName job = JobName::parse(name);
  const Problem problem = parse_case(job.op, job.label);
  const size_t dot = job.implementation.find('.');
  const std::string device = job.implementation.substr(0, dot);
  if (dot == job.implementation.npos || (device != "cuda" && device != "simt"))
    throw Error("kernel-profile takes implementations cuda.* and simt.*, not '{}'", job.implementation);
  const std::string twin = "simt" + job.implementation.substr(dot);
  const std::vector<std::string> known = known_implementations(job.op);
  if (std::find(known.begin(), known.end(), twin) == known.end()) {
    if (std::find(known.begin(), known.end(), job.implementation) == known.end())
      throw Error("{} has no implementation '{}'", job.op, job.implementation);
    reason = fmt::format("{} {} calls a library, whose kernels cannot be run on the host", job.op, job.implementation);
    return std::nullopt;
  }
  const Implementation* implementation = find_implementation(job.op, twin);
  if (!implementation) {
    reason = twin + ": " + not_built_reason(twin);
    return std::nullopt;
  }
  std::vector<KernelProfile> kernels = profile_job(problem, *implementation, options.blocks, options.seed, reason);
  if (!reason.empty()) {
    reason = name + ": " + reason;
    return std::nullopt;
  }
  Json json = profile_json(name, problem, kernels);
  return Counted{std::move(kernels), std::move(json)};
}

}  // namespace

int run_kernel_profile(const KernelProfileOptions& options) {
  std::vector<Counted> all;
  for (const std::string& job : options.jobs) {
    std::string reason;
    std::optional<Counted> counted = count(job, options, reason);
    if (!counted) {
      fmt::print(stderr, "duet: {}\n", reason);
      return kUnsupported;
    }
    all.push_back(*std::move(counted));
  }
  if (options.table) {
    for (const Counted& c : all) {
      if (all.size() > 1) fmt::print("{}\n", c.json["job"].get<std::string>());
      print_table(c.kernels);
    }
    return 0;
  }
  Json list = Json::array();
  for (Counted& c : all) list.push_back(std::move(c.json));
  fmt::print("{}\n", (all.size() == 1 ? list[0] : list).dump(2));
  return 0;
}

}  // namespace duet
