// SPDX-License-Identifier: Apache-2.0
#include "reports/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "reports/join.h"
#include "reports/render.h"
#include "reports/sections.h"
#include "results/run_file.h"

namespace duet::reports {
namespace {

namespace fs = std::filesystem;

struct File {
  std::string name, content;
};

std::vector<results::Run> load(const std::vector<std::string>& run_files) {
  std::vector<results::Run> runs;
  for (const std::string& file : run_files) runs.push_back(results::load_run(file));
  return runs;
}

std::vector<File> render(std::vector<results::Run> runs, const ReportOptions& options) {
  const std::vector<Run> heads = heads_of(runs);
  const Run run = join(std::move(runs));
  const Analysis analysis = analyse(run);
  const Document document = make_document(run, analysis, options, heads);
  std::vector<File> files;
  if (options.markdown) {
    for (const Chart& chart : charts_of(document)) files.push_back({chart.stem + ".svg", svg_file(chart)});
    files.push_back({"report.md", render_markdown(document)});
    files.push_back({"summary.md", render_markdown(make_summary(run, analysis, heads))});
  }
  if (options.csv) files.push_back({"report.csv", render_csv(run)});
  if (options.html) files.push_back({"report.html", render_html(document)});
  return files;
}

void write_file(const fs::path& path, const std::string& content) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be written ({})", path.string(), std::strerror(errno)));
}

// Files are written under temporary names; publish() renames them. The destructor removes those that were not renamed.
class Staged {
 public:
  explicit Staged(fs::path directory) : directory_(std::move(directory)) {
    std::error_code error;
    if (directory_.empty()) throw Error("'': no folder for the report");
    if (fs::exists(directory_, error) && !fs::is_directory(directory_, error))
      throw Error("{}: is not a folder, so no report can be written there", directory_.string());
    created_ = fs::create_directories(directory_, error);
    if (error || !fs::is_directory(directory_, error))
      throw std::runtime_error(fmt::format("{}: cannot be made a directory for the report{}", directory_.string(),
                                           error ? " (" + error.message() + ")" : ""));
  }
  Staged(const Staged&) = delete;
  ~Staged() {
    std::error_code ignored;
    for (const auto& [temporary, place] : files_) fs::remove(temporary, ignored);
    if (created_) fs::remove(directory_, ignored);  // succeeds on an empty one only
  }

  void write(const File& file) {
    const fs::path place = directory_ / file.name;
    if (std::error_code error; fs::is_directory(place, error))
      throw std::runtime_error(place.string() + ": is a directory, the report cannot replace it");
    files_.emplace_back(directory_ / ("." + file.name + ".partial"), place);
    write_file(files_.back().first, file.content);
  }

  void publish() {
    for (const auto& [temporary, place] : files_) {
      std::error_code error;
      fs::rename(temporary, place, error);
      if (error) throw std::runtime_error(fmt::format("{}: cannot be written ({})", place.string(), error.message()));
    }
  }

 private:
  fs::path directory_;
  bool created_ = false;
  std::vector<std::pair<fs::path, fs::path>> files_;
};

}  // namespace

results::Run load_runs(const std::vector<std::string>& run_files) { return join(load(run_files)); }

void write_report(const std::vector<std::string>& run_files, const std::string& directory,
                  const ReportOptions& options) {
  const std::vector<File> files = render(load(run_files), options);
  Staged staged(directory);
  for (const File& file : files) staged.write(file);
  staged.publish();
}

void write_report(const std::string& run_file, const std::string& directory, const ReportOptions& options) {
  write_report(std::vector<std::string>{run_file}, directory, options);
}

}  // namespace duet::reports
