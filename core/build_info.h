// SPDX-License-Identifier: Apache-2.0
// What this program was built from, for the run file and `duet doctor`. The build writes the definitions
// (cmake/generated.cmake). Strings are never null; what does not apply is "".
#pragma once
#include <span>

namespace duet {

struct BuildLibrary {
  const char* name;
  const char* version;
  const char* variant;  // how it was built or linked, such as "pthread"
};

struct BuildInfo {
  const char* git_sha;        // "unknown" without git
  bool git_dirty;             // a tracked file differs from that commit
  const char* type;           // "Release"
  const char* compiler;       // "GNU 12.2.0"
  const char* flags;          // C++ flags of every file; single files may add an instruction set
  const char* cuda_compiler;  // "nvcc 13.0.88"
  const char* cuda_flags;
  const char* cuda_architectures;  // "80-real;90a-real"
  const char* no_cuda;             // why there is no CUDA side; "" where there is one
  const char* no_simt;             // why kernels do not run on the host; "" where they do
  std::span<const BuildLibrary> libraries;
};

const BuildInfo& build_info();

extern const char* const duet_registry_golden;  // ops/registry_golden.txt: every job of every flavour

}  // namespace duet
