// SPDX-License-Identifier: Apache-2.0
// The work of cpu.tuned of im2col (im2col_tuned.cpp), which conv2d_im2col.cpp runs as its first half.
#pragma once
#include "core/cpu_context.h"
#include "ops/conv/im2col.h"

namespace duet {

// Writes col from x on all threads. Elements have 2 or 4 bytes. stream: col is written past the caches.
void write_im2col(const Im2col& p, const void* x, void* col, bool stream, const CpuContext& cpu);

}  // namespace duet
