# SPDX-License-Identifier: Apache-2.0
"""The studies of memory and transfers ask how a machine moves data, not how fast an operation can be."""
from pytorch.forms import ABSENT

for name in ("allocation", "bank_conflict", "block_size_add", "block_size_gemm", "block_size_softmax", "coalescing", "launch",
             "memory_kind_filter", "memory_kind_lookup", "occupancy", "pipeline", "prefetch", "transfer"):
    ABSENT["study/" + name] = "a study of the machine, not an operation of PyTorch"
