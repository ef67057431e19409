// SPDX-License-Identifier: Apache-2.0
// The references of the studies of block sizes are those of add, softmax and gemm.
#include "ops/study/block_size.h"

#include "core/registry.h"

namespace duet {

DUET_PROBLEM(BlockSizeAdd);
DUET_PROBLEM(BlockSizeSoftmax);
DUET_PROBLEM(BlockSizeGemm);

}  // namespace duet
