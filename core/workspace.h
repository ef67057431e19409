// SPDX-License-Identifier: Apache-2.0
// The memory that a plan needs only while it runs. The convention is that of cuDNN, cuBLASLt and oneDNN: the plan
// states how many bytes it needs, and the caller of a run brings the memory. While a plan is made, a WorkspaceLayout
// hands out the pieces; when the plan runs, Args::workspace(piece) is the address of one:
//   WorkspaceLayout workspace;
//   const auto sums = workspace.add<float>(p.rows);
//   return Plan([=](Args t) { float* to = t.workspace(sums); ... }).with("two passes", workspace);
// The next run may find anything in it, unless the plan was prepared (core/plan.h): plans that
// run one after the other share one workspace. Sessions and tapes own the memory
// (core/session.h, models/tape.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace duet {

// A part of a plan's workspace for `count` values of type T; of bytes where T is void.
template <class T>
struct WorkspacePiece {
  int64_t offset = 0, count = 0;  // offset: bytes from the beginning of the workspace
  int64_t bytes() const {
    if constexpr (std::is_void_v<T>)
      return count;
    else
      return count * int64_t{sizeof(T)};
  }
};

class WorkspaceLayout {
 public:
  static constexpr int64_t kAlignment = 256;  // bytes, of every piece: what cuBLAS asks for

  // A piece for so many values. One of no values takes no memory, and its address is null.
  template <class T>
  WorkspacePiece<T> add(int64_t count) {
    return {place(count * int64_t{sizeof(T)}), count};
  }
  WorkspacePiece<void> add_bytes(int64_t bytes) { return {place(bytes), bytes}; }
  // The workspace of a plan that this one runs as a part of itself.
  WorkspacePiece<void> add(const WorkspaceLayout& inner);

  int64_t bytes() const { return bytes_; }  // of all pieces and what lies between them
  // The bytes [first, second) that belong to no piece. A plan that changes one of them has written out of bounds.
  std::vector<std::pair<int64_t, int64_t>> gaps() const;

 private:
  int64_t place(int64_t bytes);  // its offset

  std::vector<std::pair<int64_t, int64_t>> pieces_;  // [first, second) in bytes, ascending
  int64_t bytes_ = 0;
};

}  // namespace duet
