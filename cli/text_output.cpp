// SPDX-License-Identifier: Apache-2.0
#include "cli/text_output.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/error.h"

namespace duet {

void require_one_to_stdout(const std::vector<std::pair<const char*, std::string>>& outputs) {
  const char* first = nullptr;
  for (const auto& [option, path] : outputs) {
    if (path != "-") continue;
    if (first) throw Error("{} - and {} -: only one of them can go to standard output", first, option);
    first = option;
  }
}

void write_text(const std::string& path, const std::function<std::string()>& text) {
  if (path.empty()) return;
  const std::string content = text();
  if (path == "-") {
    fmt::print("{}", content);
    return;
  }
  std::error_code ignored;  // where it fails, opening the file says why
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, ignored);
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

void print_json(const nlohmann::ordered_json& document) {
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace duet
