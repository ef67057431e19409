// SPDX-License-Identifier: Apache-2.0
// How many queries and keys each sequence has, as cuDNN takes them: lengths_cudnn.cu defines it. It is apart from
// attention_cudnn.cpp because library code does not see simt/launch.h.
#pragma once
#include <cuda_runtime_api.h>

#include "ops/attention/attention.h"

namespace duet::DUET_DEVICE {

// queries[b] = Tq, keys[b] = p.length_of(lengths[b]), for each of the B sequences. Tq and Tk are below 2^31.
void enqueue_lengths(const AttentionShape& p, const int32_t* lengths, int32_t* queries, int32_t* keys,
                     cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
