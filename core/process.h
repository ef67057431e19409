// SPDX-License-Identifier: Apache-2.0
// What must happen before anything else in a program that measures.
#pragma once

namespace duet {

// Called first in main. OpenBLAS picks its kernels by CPU model and falls back to old ones on models it does not know, so
// its core type is chosen from what the CPU can do; that is read before main, hence one re-execution of the program.
// Also: idle OpenMP threads sleep, and CUDA loads modules eagerly. What the user has set in the environment stays.
void prepare_process(int argc, char** argv);

}  // namespace duet
