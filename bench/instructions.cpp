// SPDX-License-Identifier: Apache-2.0
// By the processor's counter where the machine allows it (perf_counter.h), with the instruction set that the library of
// an op chooses here. Else two processes: the outer one starts this program again under valgrind's callgrind, which
// counts only inside duet_counted_application() and writes a file each time that function returns. Valgrind offers at
// most AVX2, so wider code paths are not the ones counted. In both, one thread, after a first application that is not
// counted.
#include "bench/instructions.h"

#include <fmt/format.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/cases.h"
#include "bench/describe.h"
#include "bench/perf_counter.h"
#include "bench/run.h"
#include "core/atomic_file.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/fill.h"
#include "core/registry.h"
#include "core/session.h"
#include "reports/gate/program.h"
#include "results/facts.h"

// A name that callgrind finds: not mangled, not inlined.
extern "C" __attribute__((noipa)) void duet_counted_application(duet::Session& session) { session.run(); }

namespace duet::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kLimit_s = 3600;
constexpr const char* kCounted = "duet_counted_application";

// Callgrind instruments nothing before this where valgrind's header is there: starting the program with all its
// libraries takes three times as long else. It is called before each count and never undone: after a pause, callgrind
// writes the difference to the count before the pause.
#ifdef CALLGRIND_START_INSTRUMENTATION
constexpr const char* kInstrumentAtStart = "--instr-atstart=no";
void start_instrumentation() { CALLGRIND_START_INSTRUMENTATION; }
#else
constexpr const char* kInstrumentAtStart = "--instr-atstart=yes";
void start_instrumentation() {}
#endif

// Applies each selected job once and hands it over for a second application, which is counted. counted: what to do with
// a session that is ready; without: jobs that have no count, with the reason.
void apply_jobs(const Options& options,
                const std::function<void(const std::string& job, CpuContext& cpu, Session& session)>& counted,
                const std::function<void(const std::string& job, const std::string& reason)>& without) {
  CpuContext cpu(1);
  for (const auto& c : select_cases(options))
    for (const Side& side : c->sides) {
      if (side.device != Device::cpu || !side.unavailable_reason.empty()) continue;
      if (results::is_model(c->op)) {
        without(side.job, results::is_inference(c->op) ? "an inference" : "a training step");
        continue;
      }
      const Problem problem = parse_case(c->op, c->label);
      const HostTensors inputs = draw_inputs(problem, FillMode::values, options.seed);
      Session session(problem, *find_implementation(c->op, side.implementation), cpu, inputs);
      if (!session.supported()) {
        without(side.job, session.plan().reason());
        continue;
      }
      session.restore();
      cpu.enter([&] { session.run(); });  // what happens once: memory of the library, dispatch
      counted(side.job, cpu, session);
    }
}

// Inside valgrind. Each job leaves a line: "+name" where its application was counted, "-name\treason" where not.
int apply_under_valgrind(const Options& options) {
  std::ofstream lines(*options.counting_into, std::ios::app);
  apply_jobs(
      options,
      [&](const std::string& job, CpuContext& cpu, Session& session) {
        session.restore();
        start_instrumentation();
        cpu.enter([&] { duet_counted_application(session); });
        lines << "+" + job << std::endl;
      },
      [&](const std::string& job, const std::string& reason) { lines << "-" + job + "\t" + reason << std::endl; });
  return 0;
}

// Fills the rows of the document by the processor's counter.
void count_by_processor(const Options& options, PerfCounter& counter, Json& document) {
  apply_jobs(
      options,
      [&](const std::string& job, CpuContext& cpu, Session& session) {
        std::optional<uint64_t> count;
        cpu.enter([&] { count = counter.count([&] { session.restore(); }, [&] { session.run(); }); });
        if (count)
          document["rows"][job] = *count;
        else
          document["without"][job] = "other programs use the processor's counters";
      },
      [&](const std::string& job, const std::string& reason) { document["without"][job] = reason; });
}

int64_t count_in(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("summary: ")) return std::stoll(line.substr(9));
  throw Error("{}: valgrind wrote no count", path);
}

// no_perf: why the processor cannot count.
std::string version_of_valgrind(const std::string& no_perf) {
  try {
    const reports::ProgramEnd end = reports::run_program({"valgrind", "--version"}, 60);
    if (end.exit_status == 0) return end.last_output;
  } catch (const Error&) {  // there is none
  }
  throw Error("--count-instructions needs perf ({}) or valgrind (Debian: apt-get install valgrind)", no_perf);
}

// What two documents have to share for their counts to be compared, by the names of a comparison of run files.
Json keys_of(const Options& options) {
  Json keys = Json::object();
  for (const auto& [name, value] : timed_facts_of(describe_build())) keys["build." + name] = value;
  keys["settings.seed"] = fmt::format("{}", options.seed);
  keys["settings.scale"] = describe_selection(options).scale;
  return keys;
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "bench_all.XXXXXX").string();
    if (!mkdtemp(name.data())) throw Error("{}: no folder can be made there", fs::temp_directory_path().string());
    path_ = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

// Fills the rows of the document by valgrind.
void count_under_valgrind(const Options& options, Json& document) {
  const Folder folder;
  // The instruction sets are those that valgrind offers, not this machine's.
  setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  std::vector<std::string> command{"valgrind",
                                   "--tool=callgrind",
                                   "--quiet",
                                   "--collect-atstart=no",
                                   kInstrumentAtStart,
                                   std::string("--toggle-collect=") + kCounted,
                                   std::string("--dump-after=") + kCounted,
                                   "--callgrind-out-file=" + (folder / "counts"),
                                   fs::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), options.argv.begin() + 1, options.argv.end());
  command.push_back("--counting-into=" + (folder / "jobs"));
  const reports::ProgramEnd end = reports::run_program(command, kLimit_s);
  if (end.exit_status != 0) throw Error("under valgrind the program {}: {}", end.how, end.last_output);
  std::ifstream lines(folder / "jobs");
  int dumps = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    if (line.starts_with('+'))
      document["rows"][line.substr(1)] = count_in(folder / fmt::format("counts.{}", ++dumps));
    else
      document["without"][line.substr(1, tab - 1)] = line.substr(tab + 1);
  }
}

}  // namespace

int count_instructions(const Options& options) {
  if (options.counting_into) return apply_under_valgrind(options);
  std::string no_perf;
  const std::unique_ptr<PerfCounter> processor = PerfCounter::of_instructions(no_perf);
  Json document{{"duet_counts", 1},
                {"counter", processor ? "perf on " + describe_machine(nullptr).cpu.name : version_of_valgrind(no_perf)},
                {"keys", keys_of(options)},
                {"rows", Json::object()},
                {"without", Json::object()}};
  if (processor)
    count_by_processor(options, *processor, document);
  else
    count_under_valgrind(options, document);
  const std::string text = document.dump(1) + "\n";
  if (options.json_to_stdout()) {
    fmt::print("{}", text);
  } else {
    AtomicFile file(*options.json);
    file.write(text.data(), text.size());
    file.commit();
    fmt::print("instructions of {} jobs; written: {}\n", document["rows"].size(), *options.json);
  }
  return document["rows"].empty() ? kNothingMeasured : 0;
}

}  // namespace duet::bench
