// SPDX-License-Identifier: Apache-2.0
// Attention of few queries over many keys, as when a language model generates text from its cache of keys and values
// (Tq = 1). It is limited by reading k and v once, so its work is divided by keys and not by queries. Used by
// attention_tuned.cpp.
#pragma once
#include "core/cpu_context.h"
#include "core/plan.h"
#include "ops/attention/attention.h"

namespace duet {

// Whether attention_decode is meant for this problem: the query rows that share a head of k and v are few, see every
// key of their sequence, and the keys are many.
bool is_decode(const Attention& p);
Plan attention_decode(const Attention& p, CpuContext& cpu);

}  // namespace duet
