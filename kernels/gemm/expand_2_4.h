// SPDX-License-Identifier: Apache-2.0
// The matrix a of gemm_2_4 as a dense one: (m, k), where the values that are not kept are 0. For its tuned kernel and
// for libraries that compress it in a form of their own.
#pragma once
#include "ops/gemm/gemm_2_4.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// For float, __nv_bfloat16 and __half (gemm_2_4_tuned.cu). a is aligned to 16 bytes.
template <class T>
void enqueue_expanded(const Gemm24& p, const T* value, const uint8_t* meta, T* a, GpuContext& gpu);

}  // namespace duet::DUET_DEVICE
