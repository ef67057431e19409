// SPDX-License-Identifier: Apache-2.0
#include "bench/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "bench/worker.h"
#include "core/atomic_file.h"
#include "core/recorder.h"

namespace duet::bench {
namespace {

namespace fs = std::filesystem;

// Of the process with this number (--processes), and of the worker that went on with it after so many others.
std::string part_of(const Options& options, int process, int generation) {
  return fmt::format("{}.part{}.{}", *options.trace, process, generation);
}

}  // namespace

Trace::Trace(const Options& options) : options_(options) {
  if (!options_.trace) return;
  std::error_code ignored;  // where it fails, opening the file says why
  if (const auto folder = fs::path(*options_.trace).parent_path(); !folder.empty())
    fs::create_directories(folder, ignored);
  const AtomicFile probe(*options_.trace);
  for (const std::string& part : parts()) fs::remove(part, ignored);
}

Trace::~Trace() {
  std::error_code ignored;
  for (const std::string& part : parts()) fs::remove(part, ignored);
}

std::vector<std::string> Trace::parts() const {
  std::vector<std::string> paths;
  if (!options_.trace) return paths;
  for (int process = 0; process < options_.processes; ++process)
    for (int generation = 0;; ++generation) {
      paths.push_back(part_of(options_, process, generation));
      if (fs::exists(paths.back())) continue;
      paths.pop_back();
      break;
    }
  return paths;
}

void Trace::write() const {
  const std::vector<std::string> all = parts();
  if (all.empty()) return;  // nothing was run
  std::vector<std::pair<std::string, std::string>> facts{{"command", fmt::format("{}", fmt::join(options_.argv, " "))}};
  if (options_.json && !options_.json_to_stdout()) facts.emplace_back("run_file", *options_.json);
  const int64_t ranges = recorder::write_trace(all, *options_.trace, facts);
  if (ranges == 0) return;  // there was nothing to run, and another message says why
  fmt::print(options_.json_to_stdout() ? stderr : stdout, "trace of {} ranges: {} (ui.perfetto.dev opens it)\n", ranges,
             *options_.trace);
}

Recording::Recording(const Options& options) : on_(options.trace.has_value()) {
  if (!on_) return;
  const WorkerPage* page = worker::page();
  const int process = page ? page->process : 0, generation = page ? page->generation : 0;
  std::string name = "bench_all";
  if (page && page->processes > 1) name += fmt::format(", process {}", process + 1);
  if (generation > 0) name += fmt::format(", worker {}", generation + 1);
  recorder::start(part_of(options, process, generation), name);
  name_thread("bench_all main");
}

Recording::~Recording() {
  if (!on_) return;
  if (const std::string failure = recorder::finish(); !failure.empty())
    fmt::print(stderr, "bench_all: --trace: {}; the trace ends before the run does\n", failure);
}

}  // namespace duet::bench
