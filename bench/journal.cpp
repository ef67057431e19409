// SPDX-License-Identifier: Apache-2.0
#include "bench/journal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "results/facts.h"

namespace duet::bench {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLineEnd = "\n\n";  // results/run_file.h says why

bool has_whole_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  return std::getline(file, line) && !file.eof();
}

}  // namespace

void require_same_run(const results::Run& then, const results::Run& now) {
  const auto require_same = [](const std::string& what, const std::string& before, const std::string& after) {
    if (before != after) throw Error("--resume: {} was '{}' and is '{}'; it has to be the same", what, before, after);
  };
  if ((then.build.git_dirty || now.build.git_dirty) && then.build.built_at != now.build.built_at)
    throw Error("--resume: the program was built anew from uncommitted changes; start over");
  require_same("the machine's fingerprint", then.machine.fingerprint, now.machine.fingerprint);
  require_same("git_sha", then.build.git_sha, now.build.git_sha);
  require_same("the build type", then.build.type, now.build.type);
  require_same("seed", std::to_string(then.invocation.seed), std::to_string(now.invocation.seed));
  require_same("threads", std::to_string(then.invocation.threads), std::to_string(now.invocation.threads));
  const auto counts = [](const results::Run& run) {
    const auto& argv = run.invocation.argv;
    return std::find(argv.begin(), argv.end(), "--counters") != argv.end() ? "given" : "not given";
  };
  require_same("--counters", counts(then), counts(now));
  if (then.invocation.selection.cases != now.invocation.selection.cases)  // the texts below are cut
    throw Error("--resume: the cases named by --case were '{}' and are '{}'; they have to be the same",
                fmt::join(then.invocation.selection.cases, ", "), fmt::join(now.invocation.selection.cases, ", "));
  require_same("--filter", then.invocation.selection.filter, now.invocation.selection.filter);
  const results::Facts before = facts_of(then.invocation.selection), after = facts_of(now.invocation.selection);
  for (size_t i = 0; i < after.size(); ++i)
    require_same("selection." + after[i].first, before[i].second, after[i].second);
}

Journal::~Journal() {
  if (file_) std::fclose(file_);
}

bool Journal::read(const std::string& path) {
  path_ = path;
  was_read_ = true;
  std::error_code none;
  if (!fs::exists(path, none) || !has_whole_line(path)) return false;
  earlier_ = results::load_journal(path);
  for (results::Job& job : earlier_.run.jobs) {
    std::string name = job.name;
    jobs_.emplace(std::move(name), std::move(job));
  }
  earlier_.run.jobs.clear();
  return true;
}

void Journal::begin(const std::string& path, const results::Run& header) {
  path_ = path;
  std::error_code none;
  if (!was_read_ && fs::exists(path_, none) && fs::file_size(path_) > 0) fs::rename(path_, path_ + ".old");
  open(false);
  const std::string head = results::journal_head(header) + kLineEnd;
  write(head + head);
}

void Journal::go_on() {
  fs::resize_file(path_, static_cast<uintmax_t>(earlier_.whole_bytes));
  open(true);
}

void Journal::open(bool append) {
  file_ = std::fopen(path_.c_str(), append ? "ab" : "wb");
  if (!file_) throw Error("cannot write {}: {}", path_, std::strerror(errno));
}

void Journal::write(const std::string& lines) {
  const auto before = fs::file_size(path_);
  if (std::fwrite(lines.data(), 1, lines.size(), file_) == lines.size() && std::fflush(file_) == 0 &&
      fsync(fileno(file_)) == 0)
    return;
  const int error = errno;
  std::fclose(std::exchange(file_, nullptr));
  std::error_code ignored;  // then half a line stays, which readers ignore
  fs::resize_file(path_, before, ignored);
  throw Error("cannot write {}: {}; --resume goes on after its last row", path_, std::strerror(error));
}

void Journal::add(const std::vector<results::Job>& jobs) {
  if (!file_) return;
  std::string lines;
  for (const results::Job& job : jobs) lines += results::journal_line(job) + kLineEnd;
  write(lines);
}

void Journal::remove() {
  if (!file_) return;
  std::fclose(std::exchange(file_, nullptr));
  std::error_code ignored;
  fs::remove(path_, ignored);
}

const results::Job* Journal::finished(const std::string& job) const {
  const auto at = jobs_.find(job);
  return at == jobs_.end() ? nullptr : &at->second;
}

}  // namespace duet::bench
