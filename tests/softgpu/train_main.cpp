// SPDX-License-Identifier: Apache-2.0
// duet_train_softgpu: `duet train` linked with the CUDA device in software, to test training with --device gpu. It is
// no GPU, so the subcommands that name, time or describe devices are refused. tests/softgpu/train.py calls it.
#include <fmt/core.h>

#include <cstdio>
#include <string_view>

// The linker (--wrap=main) puts this around main() of cli/main.cpp.
extern "C" int __real_main(int argc, char** argv);   // NOLINT: the linker names both
extern "C" int __wrap_main(int argc, char** argv) {  // NOLINT
  if (argc > 1 && std::string_view(argv[1]) == "train") return __real_main(argc, argv);
  fmt::print(stderr, "duet_train_softgpu: its GPU is software, so it has the subcommand train alone\n");
  return 2;
}
