// SPDX-License-Identifier: Apache-2.0
// Start at run_profile() at the end. profile_summary.cpp writes the summary.
#include "cli/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "bench/cases.h"
#include "cli/exit_status.h"
#include "core/atomic_file.h"
#include "core/error.h"
#include "core/near_names.h"
#include "core/registry.h"
#include "models/model.h"
#include "reports/gate/program.h"
#include "results/job_name.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;

constexpr double kHelp_s = 30;                    // of a tool that says what it can do
constexpr double kSampled_s = 2, kMaxRuns = 1e5;  // of runs that perf samples

// --- what to run

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '/')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, size_t from) {
  std::string text;
  for (size_t i = from; i < parts.size(); ++i) text += (i > from ? "/" : "") + parts[i];
  return text;
}

// The first case of the quick preset, or of a test where quick has none, with the sides that it has.
std::unique_ptr<bench::BenchCase> first_case(const std::string& op) {
  for (const bench::Preset preset : {bench::Preset::quick, bench::Preset::smoke}) {
    bench::Options options;
    options.preset = preset;
    bench::Cases cases = results::is_model(op) ? bench::step_cases(options) : bench::op_cases(options);
    for (auto& c : cases)
      if (c->op == op) return std::move(c);
  }
  throw Error("{} has no case to profile; name one: {}/IMPLEMENTATION/...", op, op);
}

// The first of these that is a side of the case and built here.
std::string chosen_side(const bench::BenchCase& c, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted)
    for (const bench::Side& side : c.sides)
      if (side.implementation == name && side.unavailable_reason.empty()) return name;
  return "";
}

void require_known(const std::string& op) {
  std::vector<std::string> known;
  for (const auto& [name, unused] : ops()) known.push_back(name);
  for (const auto& [name, unused] : models()) known.push_back("step/" + name);
  if (results::is_inference(op) && models().count(op.substr(op.find('/') + 1)) > 0) return;
  if (std::find(known.begin(), known.end(), op) == known.end())
    throw Error("'{}' is neither an op, a training step (step/MODEL) nor an inference (infer/MODEL){}", op,
                op.starts_with("step/")
                    ? near_hint(op, {known.end() - static_cast<int64_t>(models().size()), known.end()})
                    : near_hint(op, known));
}

bool is_gpu_side(const std::string& implementation) {
  return implementation.starts_with("cuda.") || implementation.starts_with("gpu");
}

// --- tools

std::string found_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "";
  folders += ":/usr/local/cuda/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string file = folders.substr(begin, end - begin) + "/" + name;
    if (end > begin && access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file)) return file;
    begin = end + 1;
  }
  return "";
}

std::string shell_text(const Command& command) {
  std::string text;
  for (const std::string& word : command) {
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                            "_-+=./:,@%") == word.npos;
    text += (text.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
  }
  return text;
}

// A profiler that is attached to this process would be to the programs that it starts, too.
std::string attached_profiler() {
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID",
                           "NV_COMPUTE_PROFILER_PERFWORKS_DIR"})
    if (const char* value = std::getenv(name); value && *value) return fmt::format("{}={}", name, value);
  return "";
}

class Profiler {
 public:
  Profiler(const ProfileOptions& options, ProfileTarget target) : options_(options), target_(std::move(target)) {
    program_ = options.bench_all;
    if (program_.empty()) program_ = (fs::read_symlink("/proc/self/exe").parent_path() / "bench_all").string();
    if (access(program_.c_str(), X_OK) != 0) throw Error("{}: is no program; --bench names bench_all", program_);
    std::error_code error;
    fs::create_directories(options.folder, error);
    if (error) throw Error("{}: cannot be made a folder ({})", options.folder, error.message());
    const AtomicFile probe(at("summary.txt"));
  }

  int run() {
    say(fmt::format("profile of {}", target_.job()));
    const std::string& tool = options_.tool;
    if (tool == "auto" || tool == "recorder") record();
    if (status_ == 0 && target_.gpu) {
      if (tool == "auto" || tool == "nsys") nsys();
      if (status_ == 0 && (tool == "auto" || tool == "ncu")) ncu();
    } else if (status_ == 0) {
      bool done = false;
      if (tool == "auto" || tool == "perf") done = perf();
      if (!done && status_ == 0 && (tool == "auto" || tool == "valgrind")) valgrind();
    }
    if (status_ != 0 || options_.dry_run) return status_;
    for (const std::string& part : summaries_) say(part);
    write_summary();
    return 0;
  }

 private:
  std::string at(const std::string& name) const { return (fs::path(options_.folder) / name).string(); }

  void say(const std::string& text) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
    told_ += text + "\n";
  }

  Command bench(uint64_t runs, const std::vector<std::string>& more) const {
    Command command{program_,   fmt::format("--profile={}", runs),
                    "--case",   target_.case_text,
                    "--impl",   target_.implementation,
                    "--device", target_.gpu ? "gpu" : "cpu",
                    "--scope",  target_.gpu ? "kernel" : "call"};
    if (!options_.gpu.empty()) {
      command.emplace_back("--gpu");
      command.push_back(options_.gpu);
    }
    if (options_.threads > 0) {
      command.emplace_back("--threads");
      command.push_back(std::to_string(options_.threads));
    }
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  // Says the command and runs it. None in a dry run.
  std::optional<reports::ProgramEnd> start(const Command& command, std::string* printed = nullptr) {
    say("$ " + shell_text(command));
    if (options_.dry_run) return {};
    const reports::ProgramEnd end = reports::run_program(command, options_.limit_s, printed);
    if (end.timed_out) say(fmt::format("  it did not finish within {:.0f} s (--limit)", options_.limit_s));
    return end;
  }

  // bench_all's own failures end the profile; its message is the reason.
  bool bench_failed(const reports::ProgramEnd& end) {
    if (end.exit_status == 0) return false;
    say(fmt::format("  bench_all {}: {}", end.how, end.last_output));
    status_ = end.exit_status == kUnsupported ? kUnsupported : end.exit_status == kUsageError ? kUsageError : kFailed;
    return true;
  }

  void record() {
    const std::string path = at("trace.json");
    const auto end = start(bench(options_.runs, {"--trace", path}));
    if (!end || bench_failed(*end)) return;
    const profile::Trace trace = profile::parse_trace(profile::read_text(path), path);
    for (const profile::TraceRange& r : trace.ranges)
      if (r.id == "measure")
        application_s_ = r.time_s / static_cast<double>(options_.runs);
      else if (r.depth == 0)
        bytes_ = r.bytes;
    summaries_.push_back(trace_summary(trace));
  }

  // Why a tool of the GPU has no part in the summary.
  void unavailable(const std::string& tool, const std::string& reason) {
    say(fmt::format("{}: unavailable ({})", tool, reason));
    if (options_.tool != "auto") status_ = kUnsupported;
  }

  void nsys() {
    const std::string program = found_program("nsys");
    if (program.empty()) return unavailable("nsys", "not installed: NVIDIA's package nsight-systems-cli has it");
    std::string help;
    reports::run_program({program, "profile", "--help"}, kHelp_s, &help);
    Command command{program, "profile", "--trace=cuda,nvtx,cublas,cudnn", "--sample=none"};
    const auto add = [&](const std::string& option, const std::string& value) {  // older versions lack some
      if (help.find(option) != help.npos) command.push_back(option + "=" + value);
    };
    add("--cpuctxsw", "none");
    add("--cuda-graph-trace", "node");
    command.insert(command.end(), {"--capture-range=cudaProfilerApi", "--capture-range-end=stop",
                                   "--force-overwrite=true", "--output=" + at("nsys")});
    const Command program_command = bench(options_.runs, {});
    command.insert(command.end(), program_command.begin(), program_command.end());
    const auto end = start(command);
    if (!end) return;
    if (!fs::exists(at("nsys.nsys-rep")))
      return unavailable("nsys", fmt::format("it {}: {}", end->how, end->last_output));
    const auto stats = start({program, "stats", "--force-export=true", "--format=csv", "--output=" + at("nsys"),
                              "--report=nvtx_gpu_proj_sum", "--report=cuda_gpu_kern_sum",
                              "--report=cuda_gpu_mem_time_sum", "--report=cuda_gpu_trace", at("nsys.nsys-rep")});
    NsysTables tables;
    const auto read = [&](const std::string& report, const auto& parse, auto& into) {
      const std::string path = at("nsys_" + report + ".csv");
      if (!fs::exists(path)) return say(fmt::format("  nsys stats wrote no {} ({})", report, stats->last_output));
      try {
        into = parse(profile::read_text(path), path);
      } catch (const Error& e) {  // a report without rows has no table
        say(fmt::format("  {}", e.what()));
      }
    };
    read("nvtx_gpu_proj_sum", profile::parse_nsys_ranges, tables.ranges);
    read("cuda_gpu_kern_sum", profile::parse_nsys_kernels, tables.kernels);
    read("cuda_gpu_mem_time_sum", profile::parse_nsys_copies, tables.copies);
    read("cuda_gpu_trace", profile::parse_nsys_gaps, tables.gaps);
    summaries_.push_back(nsys_summary(tables));
  }

  // Kernels of one application: first how near each is to the peaks, then the sections that explain what limits it.
  std::vector<profile::KernelMetrics> ncu_pass(const std::string& program, const std::string& name,
                                               const std::vector<std::string>& sections) {
    Command command{program,           "--nvtx", "--nvtx-include",    "duet@measure/",
                    "--clock-control", "none",   "--force-overwrite", "--export",
                    at(name)};
    for (const std::string& section : sections) command.insert(command.end(), {"--section", section});
    const Command program_command = bench(1, {});
    command.insert(command.end(), program_command.begin(), program_command.end());
    const auto end = start(command);
    if (!end) return {};
    if (!fs::exists(at(name + ".ncu-rep"))) {
      const bool permission = end->last_output.find("ERR_NVGPUCTRPERM") != std::string::npos;
      unavailable("ncu", permission ? "counters are not permitted: as root, or with the driver's option "
                                      "NVreg_RestrictProfilingToAdminUsers=0"
                                    : fmt::format("it {}: {}", end->how, end->last_output));
      return {};
    }
    std::string csv;
    start({program, "--import", at(name + ".ncu-rep"), "--csv", "--page", "details", "--print-units", "base"}, &csv);
    AtomicFile file(at(name + ".csv"));
    file.write(csv.data(), csv.size());
    file.commit();
    return profile::parse_ncu(csv, at(name + ".csv"));
  }

  void ncu() {
    const std::string program = found_program("ncu");
    if (program.empty()) return unavailable("ncu", "not installed: NVIDIA's package nsight-compute has it");
    std::vector<profile::KernelMetrics> kernels =
        ncu_pass(program, "ncu", {"SpeedOfLight", "LaunchStats", "Occupancy"});
    if (kernels.empty()) return;
    const auto limited_by = [&](profile::Limiter limiter) {
      return std::any_of(kernels.begin(), kernels.end(), [&](const auto& k) { return k.limiter() == limiter; });
    };
    std::vector<std::string> sections{"SpeedOfLight", "Occupancy"};
    if (limited_by(profile::Limiter::memory)) sections.emplace_back("MemoryWorkloadAnalysis");
    if (limited_by(profile::Limiter::compute))
      sections.insert(sections.end(), {"ComputeWorkloadAnalysis", "InstructionStats"});
    if (limited_by(profile::Limiter::latency)) sections.insert(sections.end(), {"WarpStateStats", "SchedulerStats"});
    if (auto explained = ncu_pass(program, "ncu_sections", sections); !explained.empty())
      kernels = std::move(explained);
    if (status_ == 0) summaries_.push_back(ncu_summary(kernels));
  }

  // As many as the user asks for, and for perf enough for its samples.
  uint64_t runs_for_samples() const {
    if (application_s_ <= 0) return options_.runs;
    return std::max(options_.runs, static_cast<uint64_t>(std::min(kMaxRuns, kSampled_s / application_s_)));
  }

  // Runs bench_all under perf, which counts or samples the captured runs alone: it reads commands from one pipe and
  // answers in the other. None where the folder takes no pipes, and in a dry run.
  std::optional<reports::ProgramEnd> under_perf(const std::string& program, std::vector<std::string> command) {
    const std::string commands = at("perf.commands"), answers = at("perf.answers");
    const auto remove_pipes = [&] {
      std::error_code ignored;
      fs::remove(commands, ignored);
      fs::remove(answers, ignored);
    };
    remove_pipes();
    if (!options_.dry_run && (mkfifo(commands.c_str(), 0600) != 0 || mkfifo(answers.c_str(), 0600) != 0)) {
      remove_pipes();
      unavailable("perf", "the folder takes no pipes");
      return {};
    }
    command.insert(command.begin(), program);
    command.insert(command.end(), {"--delay=-1", fmt::format("--control=fifo:{},{}", commands, answers), "--"});
    const Command program_command = bench(runs_for_samples(), {fmt::format("--perf-control={},{}", commands, answers)});
    command.insert(command.end(), program_command.begin(), program_command.end());
    auto end = start(command);
    remove_pipes();
    return end;
  }

  // False where perf is not there or not allowed.
  bool perf() {
    const std::string program = found_program("perf");
    if (program.empty()) {
      unavailable("perf", "not installed: Debian's package linux-perf has it");
      return false;
    }
    const std::string data = at("perf.data"), counts = at("perf_stat.csv");
    const auto end = under_perf(program, {"record", "--quiet", "--output=" + data});
    if (!end) return options_.dry_run;
    if (end->exit_status != 0 || !fs::exists(data)) {
      const bool permission = end->last_output.find("perf_event_paranoid") != std::string::npos;
      unavailable("perf",
                  permission
                      ? "not allowed: sysctl kernel.perf_event_paranoid=2 permits it, or the container forbids it"
                      : fmt::format("it {}: {}", end->how, end->last_output));
      return false;
    }
    std::string table;
    start({program, "report", "--input=" + data, "--stdio", "--no-children", "--sort=dso,symbol",
           "--fields=overhead,sample,dso,symbol", "--field-separator=\t"},
          &table);
    AtomicFile file(at("perf.txt"));
    file.write(table.data(), table.size());
    file.commit();
    const profile::Functions functions = profile::parse_perf(table, at("perf.txt"));
    if (functions.list.empty()) {
      unavailable("perf", "the runs were too short for a sample: more of them (--runs)");
      return false;
    }
    summaries_.push_back(functions_summary(functions));
    const auto counted = under_perf(program, {"stat", "--field-separator=,", "--output=" + counts,
                                              "--event=instructions:u,cycles:u,LLC-load-misses:u"});
    if (counted && counted->exit_status == 0 && fs::exists(counts))
      summaries_.push_back(
          counters_summary(profile::parse_perf_stat(profile::read_text(counts), counts), runs_for_samples(), bytes_));
    return true;
  }

  void valgrind() {
    const std::string program = found_program("valgrind");
    if (program.empty()) return unavailable("valgrind", "not installed: Debian's package valgrind has it");
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);  // valgrind knows no AVX-512
    const std::string path = at("callgrind.out");
    Command command{program, "--tool=callgrind", "--quiet", "--instr-atstart=no", "--callgrind-out-file=" + path};
    const Command program_command = bench(1, {});
    command.insert(command.end(), program_command.begin(), program_command.end());
    const auto end = start(command);
    if (!end) return;
    if (end->exit_status != 0 || !fs::exists(path))
      return unavailable("valgrind", fmt::format("it {}: {}", end->how, end->last_output));
    summaries_.push_back(functions_summary(profile::parse_callgrind(profile::read_text(path), path)));
  }

  void write_summary() {
    const std::string path = at("summary.txt");
    AtomicFile file(path);
    file.write(told_.data(), told_.size());
    file.commit();
    fmt::print("files: {}\n", options_.folder);
  }

  const ProfileOptions& options_;
  ProfileTarget target_;
  std::string program_, told_;
  std::vector<std::string> summaries_;
  double application_s_ = 0, bytes_ = 0;  // of an application, as recorded; 0: not recorded
  int status_ = 0;
};

}  // namespace

std::string ProfileTarget::job() const {
  const std::string op = results::op_of(case_text);
  return op + "/" + implementation + case_text.substr(op.size());
}

ProfileTarget profile_target(const std::string& what, bool has_gpu) {
  const std::vector<std::string> parts = parts_of(what);
  const std::string op = results::op_of(what);
  require_known(op);
  const size_t words = parts_of(op).size();
  const bool step = results::is_model(op);
  ProfileTarget target;
  if (parts.size() > words) target.implementation = parts[words];
  const bool known_side =
      target.implementation.empty() || (step ? target.implementation == "cpu" || is_gpu_side(target.implementation)
                                             : target.implementation.find('.') != std::string::npos);
  if (!known_side)
    throw Error("'{}': after the {} comes {}, as in {}", what, step ? "model" : "op",
                step ? "a side, cpu, gpu or gpu.graph" : "an implementation", step ? op + "/cpu" : op + "/cpu.tuned");
  if (parts.size() > words + 1) {
    target.case_text = op + "/" + joined(parts, words + 1);
  } else {
    const std::unique_ptr<bench::BenchCase> c = first_case(op);
    target.case_text = c->name();
    if (target.implementation.empty() && has_gpu)
      target.implementation = chosen_side(*c, {"gpu", "cuda.tuned", "cuda.naive", "cuda.cublas", "cuda.cudnn"});
    if (target.implementation.empty()) target.implementation = chosen_side(*c, {"cpu", "cpu.tuned", "cpu.openblas"});
    if (target.implementation.empty() && !c->sides.empty()) target.implementation = c->sides.front().implementation;
  }
  target.gpu = is_gpu_side(target.implementation);
  return target;
}

int run_profile(const ProfileOptions& options) {
  if (const std::string attached = attached_profiler(); !attached.empty())
    throw Error("a profiler is attached already ({}): run duet profile without it", attached);
  reports::catch_interrupts();
  try {
    return Profiler(options, profile_target(options.what, access("/dev/nvidiactl", F_OK) == 0)).run();
  } catch (const reports::ProgramInterrupted&) {
    fmt::print(stderr, "duet: interrupted\n");
    return kFailed;
  }
}

}  // namespace duet
