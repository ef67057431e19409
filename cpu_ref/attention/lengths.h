// SPDX-License-Identifier: Apache-2.0
// How many keys the sequences of a padded attention have, for the implementations on the CPU.
#pragma once
#include "core/plan.h"
#include "ops/attention/attention.h"

namespace duet {

// lengths[b]: the keys of sequence b, within 1 .. Tk.
class KeyLengths {
 public:
  KeyLengths(const AttentionShape& p, const int32_t* lengths) : p_(p), lengths_(lengths) {}  // null: all have Tk
  KeyLengths(const AttentionShape& p, const Args& t, Slot slot)
      : KeyLengths(p, p.padded ? t[slot].as<const int32_t>() : nullptr) {}
  int64_t operator[](int64_t sequence) const { return lengths_ ? p_.length_of(lengths_[sequence]) : p_.Tk; }

 private:
  const AttentionShape& p_;
  const int32_t* lengths_;
};

}  // namespace duet
