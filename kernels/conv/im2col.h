// SPDX-License-Identifier: Apache-2.0
// The tuned kernel of im2col (im2col_tuned.cu), which conv2d_im2col.cu runs as its first half.
#pragma once
#include <string>

#include "simt/launch.h"
#include "ops/conv/im2col.h"

namespace duet::DUET_DEVICE {

std::string im2col_unsupported_reason(const Im2col& p);  // empty: none
// T: float, __nv_bfloat16, __half.
template <class T>
void enqueue_im2col(const Im2col& p, const T* x, T* col, cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
