// SPDX-License-Identifier: Apache-2.0
#include "core/workspace.h"

#include <algorithm>

#include "core/dtype.h"
#include "core/error.h"

namespace duet {
namespace {
// Pieces that start at the same offset within 4 KiB make a load wait for an unrelated store (4K aliasing), so
// successive pieces start at different ones of the 16 multiples of 256 bytes in a page. Between two pieces lies at
// least one gap of 256 bytes, where writes out of bounds are seen.
constexpr int64_t kPage = 4096, kStarts = kPage / WorkspaceLayout::kAlignment, kStride = 5;
}  // namespace

int64_t WorkspaceLayout::place(int64_t bytes) {
  if (bytes < 0) throw Error("workspace of {} bytes; zero or more is allowed", bytes);
  if (bytes == 0) return 0;
  const auto number = static_cast<int64_t>(pieces_.size());
  const int64_t start = number * kStride % kStarts * kAlignment;  // within a page
  const int64_t earliest = number == 0 ? 0 : bytes_ + kAlignment;
  const int64_t offset = ceil_div(std::max<int64_t>(0, earliest - start), kPage) * kPage + start;
  pieces_.emplace_back(offset, offset + bytes);
  bytes_ = offset + bytes;
  return offset;
}

WorkspacePiece<void> WorkspaceLayout::add(const WorkspaceLayout& inner) {
  const WorkspacePiece<void> outer = add_bytes(inner.bytes());
  if (inner.pieces_.empty()) return outer;
  pieces_.pop_back();
  for (const auto& [first, last] : inner.pieces_) pieces_.emplace_back(outer.offset + first, outer.offset + last);
  return outer;
}

std::vector<std::pair<int64_t, int64_t>> WorkspaceLayout::gaps() const {
  std::vector<std::pair<int64_t, int64_t>> list;
  int64_t end = 0;
  for (const auto& [first, last] : pieces_) {
    if (first > end) list.emplace_back(end, first);
    end = last;
  }
  return list;
}

}  // namespace duet
