// SPDX-License-Identifier: Apache-2.0
// softgpu_selftest: is the software GPU right? Small PTX kernels with answers that the PTX ISA manual gives
// (answers.cpp), kernels with planted errors (kernels.cpp) and programs with planted errors (programs.cpp), each of
// which has to be reported. It needs neither nvcc nor a GPU.
#include <cstdio>
#include <cstring>

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
  const auto kernel = decode(module, module.entries().at(0));
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
  d.memory.read(out.data(), address, kWords * 4);
  return out;
}

void Tally::expect(bool right, const std::string& what) {
  ++all;
  passed += right;
  if (!right) std::printf("FAILED: %s\n", what.c_str());
}

}  // namespace duet::softgpu

int main() {
  using namespace duet::softgpu;  // NOLINT
  Tally answers, errors;
  planted_programs(errors);  // first: each runs in a copy of this process, which has used nothing yet
  known_answers(answers);
  planted_errors(errors);
  std::printf("known answers %d of %d; planted errors %d of %d\n", answers.passed, answers.all, errors.passed,
              errors.all);
  return answers.passed == answers.all && errors.passed == errors.all ? 0 : 1;
}
