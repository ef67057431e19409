// SPDX-License-Identifier: Apache-2.0
// Attention of few queries over many keys (decode.cu), by attention_tuned.cu where decode_parts is not 0.
#pragma once
#include "kernels/attention/flash.h"

namespace duet::DUET_DEVICE {

// Into how many parts the keys of a head are divided; 0 where flash attention is the better kernel: the query rows that
// share a head of k and v are many or under a causal mask, the keys are few, or a row is not whole 16-byte packs.
int64_t decode_parts(const Attention& p, int multiprocessors);
int64_t decode_workspace_floats(const Attention& p, int64_t parts);
// q, k and v are aligned to 16 bytes. workspace: decode_workspace_floats.
template <class T>
void enqueue_decode(const MaskedFlash& p, const FlashTensors<T>& t, int64_t parts, float* workspace,
                    cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
