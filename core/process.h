// SPDX-License-Identifier: Apache-2.0
// What a program that measures does before anything else, and what it asks the kernel about processes.
#pragma once
#include <cstdint>
#include <optional>

namespace duet {

// Called first in main. OpenBLAS chooses its kernels by CPU model and uses old ones for models it does not know, so
// this sets its core type from the instruction sets that the CPU has. OpenBLAS reads it before main, so the program
// executes itself once more. It also makes idle threads of OpenMP and OpenBLAS sleep and CUDA load modules eagerly.
// Variables that the user has set in the environment are kept.
void prepare_process(int argc, char** argv);

// How many processes of this control group, or of the machine where the group does not tell, the kernel has killed for
// memory. None where neither can be read.
std::optional<int64_t> memory_kills();

}  // namespace duet
