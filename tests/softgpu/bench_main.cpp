// SPDX-License-Identifier: Apache-2.0
// bench_all_softgpu: bench_all linked with the CUDA device in software, to test the GPU half of a run. It times
// nothing: its run file goes into a temporary folder, from which each row's name, status and reason are printed before
// the file is removed. tests/softgpu/bench.py calls it.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bench/options.h"
#include "core/error.h"
#include "results/run_file.h"

// The linker (--wrap=main) puts this around bench_all's main.
extern "C" int __real_main(int argc, char** argv);          // NOLINT: the linker names both
extern "C" int __wrap_main(int argc, char** argv) {         // NOLINT
  constexpr const char* kInner = "DUET_BENCH_ALL_SOFTGPU";  // set in the processes of a run
  if (std::getenv(kInner)) return __real_main(argc, argv);
  std::vector<std::string> args(argv, argv + argc);
  for (const std::string& arg : args)
    if (arg.starts_with("--json") || arg.starts_with("--benchmark_out") || arg.starts_with("--aa") ||
        arg.starts_with("--noise")) {
      fmt::print(stderr, "bench_all_softgpu: it times nothing, so it writes no file: leave out {}\n", arg);
      return 2;
    }
  const std::string folder = (std::filesystem::temp_directory_path() / "bench_all_softgpu.XXXXXX").string();
  std::vector<char> made(folder.begin(), folder.end());
  made.push_back('\0');
  if (!mkdtemp(made.data())) {
    fmt::print(stderr, "bench_all_softgpu: no folder can be made like {}\n", folder);
    return 1;
  }
  const std::string path = std::string(made.data()) + "/run.json";
  args.push_back("--json=" + path);
  args.push_back("--times-only");  // a ceiling of the software GPU would be a time
  std::vector<char*> pointers;
  for (std::string& arg : args) pointers.push_back(arg.data());
  pointers.push_back(nullptr);
  setenv(kInner, "1", 1);
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen("/dev/null", "w", stdout)) _exit(1);  // a table of times
    execv("/proc/self/exe", pointers.data());
    _exit(1);
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  int status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
  try {
    if (std::filesystem::exists(path))
      for (const duet::results::Job& job : duet::results::load_run(path).jobs)
        fmt::print("row {} {} {}\n", job.name, duet::results::name_of(job.status), job.reason);
  } catch (const duet::Error& e) {
    fmt::print(stderr, "bench_all_softgpu: {}\n", e.what());
    status = 1;
  }
  std::filesystem::remove_all(made.data());
  return status;
}
