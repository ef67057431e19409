// SPDX-License-Identifier: Apache-2.0
// A problem's tensors in host memory, drawn from Philox by (seed, tensor, element): the same on every machine.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/context.h"
#include "core/huge_pages.h"
#include "core/registry.h"

namespace duet {

// values: what each tensor's Fill says. integers: small whole numbers, so that any order of summation is exact and a
// result can be compared bit for bit (finds indexing errors); Fill::Kind::constant and below, and Fill::last, are kept.
enum class FillMode : uint8_t { values, integers };

// Inputs and inouts hold values already rounded to their dtype; outputs are empty until allocate() or reserve().
class HostTensors {
 public:
  HostTensors() = default;
  explicit HostTensors(std::vector<TensorSpec> specs);
  const std::vector<TensorSpec>& specs() const { return specs_; }
  size_t size() const { return specs_.size(); }
  void* data(size_t slot) {
    checksums_[slot].reset();
    return bytes_[slot].data();
  }
  const void* data(size_t slot) const { return bytes_[slot].data(); }
  void allocate(size_t slot);  // 0xFF
  void reserve(size_t slot);   // for bytes that all are written next
  bool holds(size_t slot) const { return !bytes_[slot].empty() || specs_[slot].elements() == 0; }
  std::vector<Inputs::Values> values() const;
  uint64_t checksum(size_t slot) const;  // of its bytes; computed once

 private:
  std::vector<TensorSpec> specs_;
  std::vector<HugeVector<unsigned char>> bytes_;
  mutable std::vector<std::optional<uint64_t>> checksums_;
};

HostTensors draw_inputs(const Problem& problem, FillMode mode, uint64_t seed);
// A part of what draw_inputs() gives a tensor: `count` elements from `first`, a multiple of 4, to the memory at `to`.
// The calling thread draws up to kDrawnSerially of them by itself, unless the problem has a function for the tensor.
constexpr int64_t kDrawnSerially = 16384;
void draw_part(const Problem& problem, const TensorSpec& spec, size_t slot, FillMode mode, uint64_t seed, int64_t first,
               int64_t count, void* to);
// The key under which tensor `number` of a problem or a tape is drawn, so that no two tensors and no two seeds share
// values.
constexpr uint64_t fill_key(uint64_t seed, uint64_t number) { return seed << 20 | number; }
void fill_values(void* data, DType dtype, int64_t elements, const Fill& fill, FillMode mode, uint64_t key);

}  // namespace duet
