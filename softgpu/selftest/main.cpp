// SPDX-License-Identifier: Apache-2.0
// softgpu_selftest [--own]: is the software GPU right? Small PTX kernels with answers that the PTX ISA manual gives
// (answers.cpp), kernels with planted errors (kernels.cpp) and programs with planted errors (programs.cpp), each of
// which has to be reported. These need neither nvcc nor a GPU; with --own, they are all. Else the programs beside this
// one follow, which have Duet's own kernels: how many of them the op tests run, and how many rows give the same bits as
// the kernels that g++ compiled. That takes minutes.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "softgpu/device.h"
#include "softgpu/selftest/selftest.h"

namespace duet::softgpu {

std::string kernel_text(const std::string& body, const std::string& declarations) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n" + declarations +
         ".visible .entry test(.param .u64 test_out)\n{\n"
         ".reg .pred %p<10>;\n.reg .b16 %h<10>;\n.reg .b32 %r<40>;\n.reg .f32 %f<20>;\n.reg .b64 %rd<20>;\n"
         ".reg .f64 %fd<10>;\n"
         "ld.param.u64 %rd1, [test_out];\ncvta.to.global.u64 %rd0, %rd1;\nmov.u32 %r0, %tid.x;\n"
         "mul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd3, %rd0, %rd2;\n" +
         body + "\nret;\n}\n";
}

std::vector<uint32_t> run(const std::string& text, const std::vector<uint32_t>& input, uint32_t threads,
                          uint32_t dynamic_shared) {
  Device& d = Device::get();
  void* buffer = d.memory.allocate(kWords * 4);
  struct Release {
    void* buffer;
    ~Release() { Device::get().memory.release(buffer); }
  } const release{buffer};
  d.memory.declare(buffer, kWords * 4, "buffer");
  const auto address = reinterpret_cast<uint64_t>(buffer);
  if (!input.empty()) d.memory.write(address, input.data(), input.size() * 4);
  const Module module(text);
  struct Constants {
    Addresses addresses;
    ~Constants() {
      for (const auto& [name, at] : addresses) Device::get().memory.release(reinterpret_cast<void*>(at));
    }
  } constants;
  for (const Declaration& v : module.variables()) {
    if (v.space != "const") continue;
    const std::string name(v.name);
    std::vector<uint32_t> words(static_cast<size_t>(v.count * type_bytes(v.type)) / 4);
    for (size_t i = 0; i < words.size(); ++i) words[i] = 100 + static_cast<uint32_t>(i);
    const uint64_t at = d.memory.allocate_constant(words.size() * 4, name);
    constants.addresses[name] = at;
    d.memory.write(at, words.data(), words.size() * 4);
  }
  const auto kernel = decode(module, module.entries().at(0), constants.addresses);
  Launch launch;
  launch.kernel = kernel.get();
  launch.block = {threads, 1, 1};
  launch.dynamic_shared_bytes = dynamic_shared;
  launch.parameters.resize(8);
  std::memcpy(launch.parameters.data(), &address, 8);
  ExecutorOptions options;
  options.max_warp_instructions = 10'000'000;
  execute(launch, options, d.counts);
  std::vector<uint32_t> out(kWords);
  std::memcpy(out.data(), d.memory.view().data + (address - d.memory.view().base), kWords * 4);  // also the unwritten
  return out;
}

void Tally::expect(bool right, const std::string& what) {
  ++all;
  passed += right;
  if (!right) std::printf("FAILED: %s\n", what.c_str());
}

}  // namespace duet::softgpu

namespace {

namespace fs = std::filesystem;

// Runs a program that stands beside this one. Its exit status is 0, or it prints what is wrong.
bool runs(const fs::path& program, const std::string& rest) {
  return std::system(("'" + program.string() + "' " + rest).c_str()) == 0;
}

// Runs the op tests on the software GPU and prints how many kernels of the program they ran.
bool entries_run(const fs::path& folder) {
  const fs::path tests = folder / "duet_op_tests_softgpu";
  if (!fs::exists(tests)) {
    std::printf("entries run: %s is not built (it needs nvcc)\n", tests.c_str());
    return true;
  }
  const fs::path list = fs::temp_directory_path() / ("softgpu_selftest." + std::to_string(getpid()));
  setenv("DUET_SOFTGPU_ENTRIES", list.c_str(), 1);
  const bool passed = runs(tests, "--gtest_brief=1 --gtest_filter='*.cuda.*-*cublas*:*cudnn*:*cusparselt'");
  unsetenv("DUET_SOFTGPU_ENTRIES");
  int run = 0, all = 0;
  std::ifstream lines(list);
  std::string name;
  for (int64_t launches = 0; lines >> launches >> name; ++all) run += launches > 0;
  lines.close();
  fs::remove(list);
  std::printf("entries run %d of %d; softgpu.coverage has the reasons for the rest\n", run, all);
  return passed && all > 0;
}

bool rows_equal_to_simt(const fs::path& folder) {
  const fs::path program = folder / "duet_softgpu_differential";
  if (!fs::exists(program)) {
    std::printf("rows equal to simt: %s is not built (it needs nvcc)\n", program.c_str());
    return true;
  }
  return runs(program, "'" DUET_SOURCE_DIR "/tests/softgpu/differences.txt'");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace duet::softgpu;  // NOLINT
  const bool own = argc == 2 && std::strcmp(argv[1], "--own") == 0;
  if (argc > 1 && !own) {
    std::fprintf(stderr, "softgpu_selftest: unknown argument '%s': --own is known\n", argv[1]);
    return 2;
  }
  Tally answers, errors;
  planted_programs(errors);  // first: each runs in a copy of this process, which has used nothing yet
  known_answers(answers);
  planted_errors(errors);
  std::printf("known answers %d of %d; planted errors %d of %d\n", answers.passed, answers.all, errors.passed,
              errors.all);
  std::fflush(stdout);
  bool right = answers.passed == answers.all && errors.passed == errors.all;
  if (!own) {
    const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
    right &= entries_run(folder);
    std::fflush(stdout);
    right &= rows_equal_to_simt(folder);
  }
  return right ? 0 : 1;
}
