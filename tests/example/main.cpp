// SPDX-License-Identifier: Apache-2.0
// duet_example_run [--cases N] [--no-gpu] [--plain] OUT.json: writes the invented run of example_run.h.
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>

#include "results/run_file.h"
#include "tests/example/example_run.h"

namespace {

int usage(const std::string& problem) {
  std::fprintf(stderr,
               "duet_example_run: %s\n"
               "usage: duet_example_run [--cases N] [--no-gpu] [--plain] OUT.json\n"
               "  --cases N  this many cases instead of those of known models\n"
               "  --no-gpu   as if the machine had no GPU\n"
               "  --plain    without the case whose names hold markup, formulas and control characters\n",
               problem.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  duet::results::testing::ExampleOptions options;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--no-gpu") {
      options.gpu = false;
    } else if (arg == "--plain") {
      options.hostile = false;
    } else if (arg == "--cases" && i + 1 < argc) {
      const std::string value = argv[++i];
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options.cases);
      if (error != std::errc() || end != value.data() + value.size() || options.cases == 0)
        return usage("--cases takes a number from 1, not '" + value + "'");
    } else if (arg.starts_with("-") || !path.empty()) {
      return usage("unexpected argument '" + arg + "'");
    } else {
      path = arg;
    }
  }
  if (path.empty()) return usage("no output file");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << duet::results::run_text(duet::results::testing::example_run(options));
  file.close();
  if (!file) {
    std::fprintf(stderr, "duet_example_run: %s: cannot be written\n", path.c_str());
    return 1;
  }
  return 0;
}
