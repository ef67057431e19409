// SPDX-License-Identifier: Apache-2.0
#include "cli/project.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "reports/gpu_bound.h"
#include "reports/render.h"
#include "results/run_file.h"

namespace duet {
namespace {

// Of which of the GPUs asked for the run is. Throws Error where it is of none.
const reports::GpuFigures& measured_gpu(const results::Run& run, const reports::GpuTable& table,
                                        const ProjectOptions& options) {
  if (!run.machine.gpu) throw Error("{}: holds no run of a GPU", options.measured);
  const std::string& device = run.machine.gpu->name;
  const reports::GpuFigures* found = table.with_device(device);
  std::string asked;
  for (const std::string& name : options.gpus) {
    if (found && found->name == name) return *found;
    asked += (asked.empty() ? "" : " ") + name;
  }
  throw Error("{}: measured on '{}', which is {}, not one of the GPUs asked for: {}", options.measured, device,
              found ? "--gpu " + found->name : "no device name in the table of GPUs", asked);
}

reports::GpuTable gpus_of(const std::string& path) {
  if (path.empty()) return reports::built_in_gpus();
  constexpr int64_t kMaxBytes = 1 << 24;
  RegularFile file(path, kMaxBytes);
  std::string text(static_cast<size_t>(file.bytes), '\0');
  file.read(text.data(), file.bytes);
  return reports::parse_gpus(text, path);
}

void write_page(const reports::Document& document, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error("{}: cannot be made a directory ({})", directory, error.message());
  const auto write = [&](const std::string& name, const std::string& text) {
    AtomicFile file((std::filesystem::path(directory) / name).string());
    file.write(text.data(), text.size());
    file.commit();
  };
  for (const reports::Chart& chart : reports::charts_of(document)) write(chart.stem + ".svg", reports::svg_file(chart));
  write("project.md", reports::render_markdown(document));
  write("project.html", reports::render_html(document));
}

}  // namespace

int run_project(const ProjectOptions& options) {
  reports::GpuTable table = gpus_of(options.gpus_file);
  if (options.launch_us) {
    if (std::isnan(*options.launch_us)) throw Error("--launch-us nan: microseconds from 0 to 1000000 are expected");
    table.launch_s = 1e-6 * *options.launch_us;
    table.launch_source = "--launch-us";
  }
  std::vector<const reports::GpuFigures*> gpus;
  for (const std::string& name : options.gpus) {
    gpus.push_back(&table.find(name));
    for (size_t i = 0; i + 1 < gpus.size(); ++i)
      if (gpus[i] == gpus.back()) throw Error("GPU '{}' is given twice", name);
  }
  const results::Run run = results::load_run(options.run_file);
  std::optional<results::Run> measured;
  const reports::GpuFigures* measured_on = nullptr;
  if (!options.measured.empty()) {
    measured = results::load_run(options.measured);
    measured_on = &measured_gpu(*measured, table, options);
  }
  std::vector<reports::GpuBound> bounds;
  for (const reports::GpuFigures* gpu : gpus)
    bounds.push_back(reports::gpu_bound(run, *gpu, table.launch_s, gpu == measured_on ? &*measured : nullptr));
  if (bounds.front().rows.empty())
    throw Error("{}: no case has a time on the CPU that a bound could be compared with", options.run_file);
  if (!options.directory.empty()) write_page(reports::gpu_bound_document(run, bounds, table), options.directory);
  if (options.json)
    fmt::print("{}", reports::gpu_bound_json(run, bounds, table));
  else if (options.directory.empty())
    fmt::print("{}", reports::gpu_bound_console(run, bounds, table));
  else
    fmt::print("{}/project.html, project.md\n", options.directory);
  return 0;
}

std::string known_gpu_list() {
  std::string list;
  for (const reports::GpuFigures& gpu : reports::built_in_gpus().gpus) list += (list.empty() ? "" : " ") + gpu.name;
  return list;
}

}  // namespace duet
