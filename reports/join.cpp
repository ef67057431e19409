// SPDX-License-Identifier: Apache-2.0
#include "reports/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/error.h"
#include "results/facts.h"

namespace duet::reports {

void require_each_once(const std::vector<RunSource>& runs) {
  std::map<std::filesystem::path, std::string> places;
  std::map<std::string, std::string> ids;
  for (const RunSource& run : runs) {
    if (!run.id.empty())
      if (const auto [at, is_new] = ids.try_emplace(run.id, run.file); !is_new && at->second != run.file)
        throw Error("{}: is the run of {} again (id {}); give each run once", run.file, at->second, run.id);
    std::error_code unknown;
    const std::filesystem::path place = std::filesystem::weakly_canonical(run.file, unknown);
    if (unknown) continue;
    const auto [at, is_new] = places.try_emplace(place, run.file);
    if (!is_new) throw Error("{}: is the file {} again; give each run once", run.file, at->second);
  }
}

namespace {

using results::Job;
using results::Run;
using results::Sweep;
using results::SweepPoint;

constexpr const char* kAgain = " (again in ";  // in Job::machine, before the file of a second measurement

std::string again(const std::string& machine, const std::string& file) { return machine + kAgain + file + ")"; }

std::string machine_of(const std::string& label) { return label.substr(0, label.find(kAgain)); }

// File names without their endings; with folders in front where two files have the same one.
std::vector<std::string> short_names(const std::vector<Run>& runs) {
  std::vector<std::filesystem::path> rest;
  std::vector<std::string> names;
  for (const Run& run : runs) {
    const std::filesystem::path path = std::filesystem::absolute(run.file).lexically_normal();
    std::string name = path.stem().string();
    for (size_t at = name.find(kAgain); at != std::string::npos; at = name.find(kAgain)) name.erase(at, 1);
    names.push_back(std::move(name));
    rest.push_back(path.parent_path());
  }
  const auto unique = [&] { return std::set<std::string>(names.begin(), names.end()).size() == names.size(); };
  for (int depth = 0; depth < 8 && !unique(); ++depth)
    for (size_t i = 0; i < names.size(); ++i) {
      names[i] = rest[i].filename().string() + "/" + names[i];
      rest[i] = rest[i].parent_path();
    }
  return names;
}

// A case is one only where it means the same work to both writers.
class Definitions {
 public:
  void require_same(const Run& run) {
    for (const Job& job : run.jobs) require_same(run, job);
    for (const Ceiling& ceiling : run.ceilings) {
      const auto [at, is_new] = units_.try_emplace(ceiling.name, ceiling.unit, run.file);
      if (at->second.first != ceiling.unit)
        throw Error("{}: ceiling {} is in {}, and in {} in {}", run.file, ceiling.name, ceiling.unit, at->second.first,
                    at->second.second);
    }
  }

 private:
  struct Known {
    const Run* run;
    const Job* job;
  };
  void require_same(const Run& run, const Job& job) {
    const auto [at, is_new] = known_.try_emplace(job.case_name, Known{&run, &job});
    if (is_new || at->second.run == &run) return;
    const Job& other = *at->second.job;
    const auto refuse = [&](const char* what, const std::string& here, const std::string& there) {
      throw Error(
          "{}: case {} has {} {}, and {} in {}: the files mean different things by it; measure both with one "
          "version of bench_all",
          run.file, job.case_name, what, here, there, at->second.run->file);
    };
    if (job.op != other.op) refuse("op", job.op, other.op);
    if (job.dtype != other.dtype) refuse("dtype", job.dtype, other.dtype);
    if (job.formula != other.formula) refuse("formula", "'" + job.formula + "'", "'" + other.formula + "'");
    if (job.params != other.params) refuse("parameters", params_text(job), params_text(other));
    // A step knows its work only where it ran.
    if (job.flops > 0 && other.flops > 0 && job.flops != other.flops && !job.step && !other.step)
      refuse("flops", fmt::format("{}", job.flops), fmt::format("{}", other.flops));
    if (job.bytes > 0 && other.bytes > 0 && job.bytes != other.bytes && !job.step && !other.step)
      refuse("bytes", fmt::format("{}", job.bytes), fmt::format("{}", other.bytes));
  }
  static std::string params_text(const Job& job) {
    std::string text;
    for (const auto& [name, value] : job.params)
      text += fmt::format("{}{}:{}", text.empty() ? "" : " ", name, results::text_of(value));
    return text;
  }

  std::map<std::string, Known> known_;
  std::map<std::string, std::pair<std::string, std::string>> units_;  // by ceiling: unit, file
};

std::string key_of(const Sweep& sweep) {
  std::string key = sweep.op + "\n" + sweep.dtype + "\n" + sweep.size_name;
  for (const auto& [name, value] : sweep.fixed) key += "\n" + name + ":" + results::text_of(value);
  return key;
}

bool has(const Sweep& sweep, std::optional<double> SweepPoint::*time_s) {
  return std::any_of(sweep.points.begin(), sweep.points.end(), [&](const auto& p) { return (p.*time_s).has_value(); });
}

// The CPU's times of one sweep beside the GPU's of another, at the sizes that both have. Empty: they have none.
Sweep across(const Sweep& cpu, const Sweep& gpu, const std::string& cpu_machine, const std::string& gpu_machine) {
  Sweep sweep = cpu;
  sweep.points.clear();
  for (const SweepPoint& on_cpu : cpu.points)
    for (const SweepPoint& on_gpu : gpu.points)
      if (on_cpu.size == on_gpu.size && on_cpu.cpu_s && on_gpu.gpu_call_s) {
        SweepPoint point = on_gpu;
        point.cpu_s = on_cpu.cpu_s;
        point.cpu_impl = named_of(on_cpu.cpu_impl, cpu_machine);
        point.gpu_impl = named_of(on_gpu.gpu_impl, gpu_machine);
        sweep.points.push_back(std::move(point));
      }
  return sweep;
}

struct Measured {
  Sweep sweep;
  std::string machine;  // as Job::machine
  bool both_sides() const { return has(sweep, &SweepPoint::cpu_s) && has(sweep, &SweepPoint::gpu_call_s); }
};

// Sweeps of each file, and those of one file's CPU beside another's GPU: of two machines, or of one whose sides were
// measured one after the other. A side that stands in such a sweep and has no counterpart in its own file is not
// repeated alone.
std::vector<Sweep> joined_sweeps(const std::vector<Measured>& all) {
  std::vector<Sweep> sweeps;
  std::vector<bool> covered(all.size());
  std::map<std::string, std::vector<size_t>> by_key;
  for (size_t i = 0; i < all.size(); ++i) by_key[key_of(all[i].sweep)].push_back(i);
  std::vector<Sweep> crossed;
  for (const auto& [key, members] : by_key)
    for (const size_t cpu : members)
      for (const size_t gpu : members) {
        if (cpu == gpu) continue;
        if (machine_of(all[cpu].machine) == machine_of(all[gpu].machine) &&
            (all[cpu].both_sides() || all[gpu].both_sides()))
          continue;
        Sweep sweep = across(all[cpu].sweep, all[gpu].sweep, all[cpu].machine, all[gpu].machine);
        if (sweep.points.empty()) continue;
        crossed.push_back(std::move(sweep));
        covered[cpu] = covered[cpu] || !has(all[cpu].sweep, &SweepPoint::gpu_call_s);
        covered[gpu] = covered[gpu] || !has(all[gpu].sweep, &SweepPoint::cpu_s);
      }
  for (size_t i = 0; i < all.size(); ++i) {
    if (covered[i]) continue;
    Sweep sweep = all[i].sweep;
    for (SweepPoint& point : sweep.points)
      for (std::string* impl : {&point.cpu_impl, &point.gpu_impl}) *impl = named_of(*impl, all[i].machine);
    sweeps.push_back(std::move(sweep));
  }
  sweeps.insert(sweeps.end(), crossed.begin(), crossed.end());
  return sweeps;
}

// Machines by what tells them apart. The fingerprint alone holds neither the host nor the GPU.
class Machines {
 public:
  // The file that this machine wrote first.
  std::string name_of(const Run& run, const std::string& file) {
    const std::string gpu = run.machine.gpu ? run.machine.gpu->name : "";
    if (!run.machine.fingerprint.empty())
      for (Known& known : known_)
        if (known.fingerprint == run.machine.fingerprint && known.host == run.context.host_name &&
            (gpu.empty() || known.gpu.empty() || known.gpu == gpu)) {
          if (known.gpu.empty()) known.gpu = gpu;
          return known.name;
        }
    known_.push_back({run.machine.fingerprint, run.context.host_name, gpu, file});
    return file;
  }

 private:
  struct Known {
    std::string fingerprint, host, gpu, name;
  };
  std::vector<Known> known_;
};

std::string machine_text(const Run& run) {
  const results::Cpu& cpu = run.machine.cpu;
  return fmt::format("{}, {} cores{}{}, {}; commit {}, {}", cpu.name.empty() ? "unknown CPU" : cpu.name, cpu.cores,
                     cpu.isa.empty() ? "" : ", " + cpu.isa, run.machine.gpu ? "; " + run.machine.gpu->name : "; no GPU",
                     run.invocation.started_at, run.build.git_sha.empty() ? "unknown" : run.build.git_sha.substr(0, 12),
                     run.build.type);
}

}  // namespace

std::string named_of(const std::string& name, const std::string& machine) {
  return name.empty() || machine.empty() ? name : name + " @ " + machine;
}

std::string machine_of(const Job& job) { return machine_of(job.machine); }

std::vector<std::vector<const Job*>> by_machine(const std::vector<const Job*>& jobs) {
  std::vector<std::vector<const Job*>> machines;
  for (const Job* job : jobs) {
    const auto same = std::find_if(machines.begin(), machines.end(),
                                   [&](const auto& of_one) { return machine_of(*of_one.front()) == machine_of(*job); });
    (same == machines.end() ? machines.emplace_back() : *same).push_back(job);
  }
  return machines;
}

std::vector<Run> heads_of(const std::vector<Run>& runs) {
  const std::vector<std::string> files = short_names(runs);
  std::vector<Run> heads(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    heads[i].file = files[i];
    heads[i].context = runs[i].context;
    heads[i].invocation = runs[i].invocation;
    heads[i].build = runs[i].build;
    heads[i].machine = runs[i].machine;
    heads[i].state = runs[i].state;
  }
  return heads;
}

Run join(std::vector<Run> runs) {
  if (runs.size() == 1) return std::move(runs.front());
  std::vector<RunSource> sources;
  for (const Run& run : runs) sources.push_back({run.file, run.invocation.id});
  require_each_once(sources);
  Definitions definitions;
  for (const Run& run : runs) definitions.require_same(run);
  const std::vector<std::string> files = short_names(runs);
  Machines machines;
  std::set<std::pair<std::string, std::string>> seen, seen_sweeps;        // machine and job, or sweep and side
  std::map<std::pair<std::string, std::string>, size_t> file_of_ceiling;  // by machine and ceiling
  std::vector<Measured> sweeps;
  std::vector<std::string> warnings, doubts;
  Run all;
  for (size_t i = 0; i < runs.size(); ++i) {
    Run& run = runs[i];
    const std::string machine = machines.name_of(run, files[i]);
    warnings.push_back(fmt::format("{}: {}{}", files[i], machine_text(run),
                                   machine == files[i] ? "" : "; the same machine as " + machine));
    for (Job& job : run.jobs) {
      job.machine = seen.emplace(machine, job.name).second ? machine : again(machine, files[i]);
      all.jobs.push_back(std::move(job));
    }
    for (Ceiling& ceiling : run.ceilings)
      if (file_of_ceiling.try_emplace({machine, ceiling.name}, i).first->second == i) {  // of several files the first
        ceiling.name = named_of(ceiling.name, machine);
        all.ceilings.push_back(std::move(ceiling));
      }
    for (Sweep& sweep : run.sweeps) {
      bool first = true;
      for (const auto& [side, time_s] :
           {std::pair("cpu\n", &SweepPoint::cpu_s), std::pair("gpu\n", &SweepPoint::gpu_call_s)})
        if (has(sweep, time_s)) first &= seen_sweeps.emplace(machine, side + key_of(sweep)).second;
      sweeps.push_back({std::move(sweep), first ? machine : again(machine, files[i])});
    }
    for (std::string& text : run.invocation.warnings) warnings.push_back(files[i] + ": " + text);
    for (std::string& text : run.invocation.doubts) doubts.push_back(files[i] + ": " + text);
  }
  all.sweeps = joined_sweeps(sweeps);

  // What a page can say once: of the first file, and of the first with a GPU.
  const Run& first = runs.front();
  all.file = first.file;
  all.context = first.context;
  all.invocation = first.invocation;
  all.build = first.build;
  all.machine = first.machine;
  all.state = first.state;
  all.invocation.no_gpu.clear();
  for (const Run& run : runs) {
    if (!all.machine.gpu) all.machine.gpu = run.machine.gpu;
    if (all.invocation.no_gpu.empty()) all.invocation.no_gpu = run.invocation.no_gpu;
    all.invocation.complete = all.invocation.complete && run.invocation.complete;
    all.invocation.trust = std::max(all.invocation.trust, run.invocation.trust);
    all.build.git_dirty = all.build.git_dirty || run.build.git_dirty;
  }
  all.invocation.warnings = std::move(warnings);
  all.invocation.doubts = std::move(doubts);
  return all;
}

}  // namespace duet::reports
