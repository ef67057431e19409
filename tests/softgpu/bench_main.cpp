// SPDX-License-Identifier: Apache-2.0
// bench_all_softgpu: bench_all linked with the CUDA device in software, to test the GPU half of a run. It times
// nothing: its run file goes into a temporary folder, from which each row's name, status and reason are printed, and of
// each series its scope, cache and flags, before the file is removed. tests/softgpu/bench.py calls it.
//
// DUET_BENCH_PLANT=WHAT:KERNEL plants an error in the kernels whose names contain KERNEL: `trap`, at their end;
// `address`, a first parameter that points nowhere; `crash`, of the process at their launch.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/options.h"
#include "core/error.h"
#include "results/run_file.h"
#include "softgpu/device.h"

namespace {

// With a trap at the end of each kernel whose name contains this text.
std::string with_traps(std::string ptx, const std::string& kernel) {
  for (size_t entry = ptx.find(".entry "); entry != std::string::npos; entry = ptx.find(".entry ", entry + 1)) {
    const size_t end = ptx.find("\n}", entry), parameters = ptx.find('(', entry);
    const size_t last = ptx.rfind("ret;", end);
    if (end == std::string::npos || last < parameters) continue;
    if (ptx.substr(entry, parameters - entry).find(kernel) != std::string::npos) ptx.insert(last, "trap;\n\t");
  }
  return ptx;
}

void plant_error(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string what = text.substr(0, colon), kernel = text.substr(colon + 1);
  auto& plant = duet::softgpu::Device::get().plant;
  if (what == "trap") {
    plant.ptx = [kernel](std::string ptx) { return with_traps(std::move(ptx), kernel); };
    return;
  }
  plant.launch = [what, kernel](duet::softgpu::Launch& launch) {
    if (launch.kernel->name.find(kernel) == std::string::npos) return;
    if (what == "crash") std::abort();
    const uint64_t nowhere = 64;
    std::memcpy(launch.parameters.data(), &nowhere, sizeof nowhere);
  };
}

}  // namespace

// The linker (--wrap=main) puts this around bench_all's main.
extern "C" int __real_main(int argc, char** argv);          // NOLINT: the linker names both
extern "C" int __wrap_main(int argc, char** argv) {         // NOLINT
  constexpr const char* kInner = "DUET_BENCH_ALL_SOFTGPU";  // set in the processes of a run
  if (std::getenv(kInner)) {
    if (const char* planted = std::getenv("DUET_BENCH_PLANT")) plant_error(planted);
    return __real_main(argc, argv);
  }
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
      for (const duet::results::Job& job : duet::results::load_run(path).jobs) {
        fmt::print("row {} {} {}\n", job.name, duet::results::name_of(job.status), job.reason);
        for (const duet::results::Series& s : job.series)
          fmt::print("series {} {} {} {}\n", job.name, duet::results::name_of(s.scope), duet::results::name_of(s.cache),
                     fmt::join(s.flags, " "));
        if (job.check) fmt::print("check {} {} {}\n", job.name, job.check->elements, job.check->coverage);
      }
    if (std::filesystem::exists(path + ".journal")) fmt::print("journal left\n");
  } catch (const duet::Error& e) {
    fmt::print(stderr, "bench_all_softgpu: {}\n", e.what());
    status = 1;
  }
  std::filesystem::remove_all(made.data());
  return status;
}
