// SPDX-License-Identifier: Apache-2.0
// The table of forms: every instruction that the software GPU knows, by its name in PTX without cache hints. Each file
// forms_*.cpp adds a family; decode.cpp looks names up and places operands as the form's shape says.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>

#include "softgpu/program.h"

namespace duet::softgpu {

enum class Shape : uint8_t {
  plain,      // dst, a, b, c, d: registers or constants
  predicate,  // dst|complement, a, b, c: setp
  convert,    // dst, a of types that may be narrower than their registers
  load,       // dst or {dst...}, [address]
  store,      // [address], a or {a...}
  load_local,
  store_local,  // the same in a thread's own memory
  parameter,    // dst or {dst...}, [parameter]
  atomic,       // dst, [address], b, c
  reduce,       // [address], b
  shuffle,      // dst|predicate, a, b, c, members
  vote,         // dst, predicate, members
  members,      // dst, a, members
  matrix,       // {d...}, {a...}, {b...}, {c...}
  warpgroup,    // {sums...}, {a...} or its description, description of b, 1, signs, which are 1, and orders
  ldmatrix,     // {dst...}, [address]
  texture,      // {dst...}, [texture, {index}]
  copy,         // [shared], [global], bytes, source bytes
  constant,     // a number
  barrier,      // id, threads
  branch,       // label
  bare,         // no operands, or such as do not matter
};

struct Form {
  Shape shape = Shape::plain;
  Handler handler = nullptr;
  Flow flow = Flow::next;
  // Bytes of the operands' registers; 0: a predicate.
  int dst_bytes = 4, a_bytes = 4, b_bytes = 4, c_bytes = 4;
  // Loads and stores whose registers may be wider than what is moved: for registers of 2, 4 and 8 bytes.
  Handler by_register[3] = {};
};

using Forms = std::unordered_map<std::string, Form>;
const Forms& forms();

// "ld.global.nc.L1::no_allocate.v4.f32" -> "ld.global.v4.f32": cache hints, and scopes and orders of memory accesses
// that make no difference where one warp runs at a time.
std::string canonical_name(std::string_view opcode);

// Handlers of moves from a to dst that decode.cpp inserts: between registers of other widths, and between a register of
// `bytes` and those of `each` bytes in Instruction::list. Null where there is none.
Handler resize_handler(int from_bytes, int to_bytes, bool sign);
Handler join_handler(int bytes, int each);
Handler split_handler(int bytes, int each);

void add_arithmetic(Forms& table);
void add_float(Forms& table);
void add_conversions(Forms& table);
void add_memory(Forms& table);
void add_texture(Forms& table);
void add_atomics(Forms& table);
void add_warp(Forms& table);
void add_matrix(Forms& table);
void add_warpgroup(Forms& table);

}  // namespace duet::softgpu
