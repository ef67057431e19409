// SPDX-License-Identifier: Apache-2.0
#include "bench/journal.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "results/facts.h"
#include "results/run_file.h"

namespace duet::bench {
namespace {

// Rows of two runs may stand in one file only where everything that shapes them is the same.
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
  const results::Facts before = facts_of(then.invocation.selection), after = facts_of(now.invocation.selection);
  for (size_t i = 0; i < after.size(); ++i)
    require_same("selection." + after[i].first, before[i].second, after[i].second);
}

}  // namespace

Journal::~Journal() {
  if (file_) std::fclose(file_);
}

void Journal::require(const std::string& result) {
  if (!std::filesystem::is_regular_file(path_for(result)))
    throw Error("--resume: there is no journal {}", path_for(result));
}

void Journal::open(const std::string& result, const results::Run& header, bool resume) {
  path_ = path_for(result);
  if (resume) {
    require(result);
    results::JournalContent journal = results::load_journal(path_);
    require_same_run(journal.run, header);
    resumed_from_ = fmt::format("{} jobs are from an earlier process, compared with the ceilings that it measured",
                                journal.run.jobs.size());
    for (results::Job& job : journal.run.jobs) {
      std::string name = job.name;
      jobs_.emplace(std::move(name), std::move(job));
    }
    std::filesystem::resize_file(path_, static_cast<uintmax_t>(journal.whole_bytes));
  } else if (std::filesystem::exists(path_)) {
    std::filesystem::rename(path_, path_ + ".old");
  }
  file_ = std::fopen(path_.c_str(), resume ? "ab" : "wb");
  if (!file_) throw Error("cannot write {}: {}", path_, std::strerror(errno));
  if (!resume) write_line(results::journal_head(header));
}

void Journal::write_line(const std::string& line) {
  const std::string text = line + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
    throw Error("cannot write {}: {}", path_, std::strerror(errno));
  fsync(fileno(file_));
}

void Journal::add(const results::Job& job) {
  if (file_) write_line(results::journal_line(job));
}

void Journal::remove() {
  if (!file_) return;
  std::fclose(file_);
  file_ = nullptr;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

const results::Job* Journal::finished(const std::string& job) const {
  const auto at = jobs_.find(job);
  return at == jobs_.end() ? nullptr : &at->second;
}

}  // namespace duet::bench
