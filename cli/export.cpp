// SPDX-License-Identifier: Apache-2.0
#include "cli/export.h"

#include <fmt/format.h>

#include "core/atomic_file.h"
#include "core/regular_file.h"
#include "reports/export/export.h"
#include "results/run_file.h"

namespace duet {

namespace {

std::string exported(const ExportOptions& options) {
  const reports::ExportFormat& format = reports::export_format(options.format);
  if (options.format == "junit") {
    RegularFile file(options.run_file);
    std::string text(static_cast<size_t>(file.bytes), '\0');
    file.read(text.data(), file.bytes);
    if (reports::is_comparison(text)) return reports::comparison_junit_text(text, options.run_file);
  }
  return format.text(results::load_run(options.run_file));
}

}  // namespace

int run_export(const ExportOptions& options) {
  const std::string text = exported(options);
  if (options.out.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  AtomicFile file(options.out);
  file.write(text.data(), text.size());
  file.commit();
  return 0;
}

std::string export_format_list() {
  std::string list;
  for (const reports::ExportFormat& format : reports::export_formats())
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", format.name, format.reader);
  return list;
}

}  // namespace duet
