#include "bench/journal.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace duet::bench {

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
    for (std::string text; std::getline(in, text);) {
      if (in.eof()) break;  // no newline: cut by a crash
      const Json json = Json::parse(text, nullptr, false);
      if (json.is_discarded() || (first && !json.contains("document")))
        throw Error("--resume: {} is not a journal", path_);
      if (first) {
        const auto pick = [](const Json& h) {
          const Json& d = h["duet"];
          return Json{d["machine"]["fingerprint"], d["build"]["git_sha"], d["run"]["seed"], d["run"]["scale"],
                      d["run"]["threads"]};
        };
        if (pick(json["document"]) != pick(header))
          throw Error("--resume: {} belongs to another machine, build, seed, scale or thread count: {} here, {} there",
                      path_, pick(header).dump(), pick(json["document"]).dump());
      }
      first = false;
      if (json.contains("job")) jobs_[json["job"]["name"]] = json["job"];
      if (json.contains("step")) steps_[json["step"]["job"]] = json["step"];
      whole += text.size() + 1;
    }
    if (first) throw Error("--resume: {} is empty", path_);
    in.close();
    std::filesystem::resize_file(path_, whole);
  } else if (const auto folder = std::filesystem::path(path_).parent_path(); !folder.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
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
