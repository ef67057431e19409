// SPDX-License-Identifier: Apache-2.0
#include "bench/journal.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace duet::bench {

namespace {

// Rows of two runs may stand in one file only where everything that shapes them is the same.
void require_same_run(const Json& then, const Json& now) {
  if (then.at("build").at("git_dirty").get<bool>() || now.at("build").at("git_dirty").get<bool>())
    if (then.at("build").at("built_at") != now.at("build").at("built_at"))
      throw Error("--resume: the program was built anew from uncommitted changes; start over");
  for (const auto& [part, key] :
       {std::pair("machine", "fingerprint"), std::pair("build", "git_sha"), std::pair("build", "type"),
        std::pair("run", "seed"), std::pair("run", "threads"), std::pair("run", "selection")})
    if (then.at(part).at(key) != now.at(part).at(key))
      throw Error("--resume: {} was {} and is {}; it has to be the same", key, then.at(part).at(key).dump(),
                  now.at(part).at(key).dump());
}

}  // namespace

Journal::~Journal() {
  if (file_) std::fclose(file_);
}

void Journal::require(const std::string& result) {
  if (!std::filesystem::is_regular_file(path_for(result)))
    throw Error("--resume: there is no journal {}", path_for(result));
}

void Journal::open(const std::string& result, const Json& header, bool resume) {
  path_ = path_for(result);
  uintmax_t whole = 0;  // bytes of complete lines
  if (resume) {
    require(result);
    std::ifstream in(path_, std::ios::binary);
    bool first = true;
    try {
      for (std::string text; std::getline(in, text);) {
        if (in.eof()) break;  // no newline: cut by a crash
        const Json json = Json::parse(text);
        if (first) require_same_run(json.at("document").at("duet"), header.at("duet"));
        first = false;
        if (json.contains("job")) jobs_[json.at("job").at("name")] = json.at("job");
        if (json.contains("step")) steps_[json.at("step").at("job")] = json.at("step");
        whole += text.size() + 1;
      }
    } catch (const nlohmann::json::exception& e) {
      throw Error("--resume: {} is not a journal of bench_all ({})", path_, e.what());
    }
    if (first) throw Error("--resume: {} is empty", path_);
    resumed_from_ =
        fmt::format("{} jobs are from an earlier process, held against the ceilings it measured", jobs_.size());
    in.close();
    std::filesystem::resize_file(path_, whole);
  } else if (std::filesystem::exists(path_)) {
    std::filesystem::rename(path_, path_ + ".old");
  }
  file_ = std::fopen(path_.c_str(), resume ? "ab" : "wb");
  if (!file_) throw Error("cannot write {}: {}", path_, std::strerror(errno));
  if (!resume) line({{"duet_journal", 1}, {"document", header}});
}

void Journal::line(const Json& json) {
  const std::string text = json.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
    throw Error("cannot write {}: {}", path_, std::strerror(errno));
  fsync(fileno(file_));
}

void Journal::add(const Json& job, const Json* step) {
  if (!file_) return;
  Json json{{"job", job}};
  if (step) json["step"] = *step;
  line(json);
}

void Journal::remove() {
  if (!file_) return;
  std::fclose(file_);
  file_ = nullptr;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

const Json* Journal::finished(const std::string& job) const {
  const auto at = jobs_.find(job);
  return at == jobs_.end() ? nullptr : &at->second;
}
const Json* Journal::finished_step(const std::string& job) const {
  const auto at = steps_.find(job);
  return at == steps_.end() ? nullptr : &at->second;
}

}  // namespace duet::bench
