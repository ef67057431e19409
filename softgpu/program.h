// SPDX-License-Identifier: Apache-2.0
// A kernel as the executor runs it: instructions with the places of their operands, decoded once.
//
// A warp's registers are one block of bytes. A register is 32 values there, one a lane, so that an instruction is a
// loop over two or three arrays that the compiler turns into SIMD code. A predicate is one word with a bit for each
// lane. Constants and special registers (%tid.x) have places of their own and are operands like any other.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "softgpu/ptx_text.h"

namespace duet::softgpu {

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffff;
constexpr int kNone = -1;  // of an operand that an instruction does not have

struct Warp;
struct Instruction;
// Carries an instruction out for the lanes whose bits are set.
using Handler = void (*)(Warp& warp, const Instruction& instruction, uint32_t lanes);

// How an instruction takes part in the flow of control.
enum class Flow : uint8_t {
  next,     // each lane by itself
  branch,   //
  exit,     //
  barrier,  // of the block
  members,  // of the warp: the lanes of a mask come together first
  aligned,  // of the warp: all lanes of the warp take part
};

struct Instruction {
  Handler handler = nullptr;
  Flow flow = Flow::next;
  bool negated = false;       // the predicate
  bool wide_address = false;  // the address is in a register of 64 bits
  uint8_t count = 1;          // of a vector's elements; bytes of cp.async
  // Offsets of operands into a warp's registers. dst: result, or what is stored; members: the mask of lanes.
  int dst = kNone, a = kNone, b = kNone, c = kNone, d = kNone, predicate = kNone, members = kNone;
  int list[4] = {kNone, kNone, kNone, kNone};  // elements of a vector
  uint32_t more = 0;                           // first of Kernel::operands, for instructions with many
  int64_t offset = 0;                          // added to the address; or a constant of the instruction
  int target = 0;                              // of a branch: index of an instruction
  int line = 0;                                // of the PTX
  SourceLine source;
};

struct SpecialRegister {
  std::string name;  // %tid.x
  int place = 0;
};

struct Kernel {
  std::string name;  // mangled
  std::vector<Parameter> parameters;
  int parameter_bytes = 0, max_threads = 0;
  std::vector<Instruction> code;
  std::vector<int> operands;
  std::vector<uint8_t> registers;  // of a warp, as it starts: constants have their values
  std::vector<SpecialRegister> specials;
  uint32_t shared_bytes = 0, local_bytes = 0;  // static, a block's and a thread's
  uint32_t dynamic_shared_align = 16;
  const Module* module = nullptr;
  uint64_t launches = 0;
  int registers_per_thread = 0;  // as ptxas reported; 0: not known
  bool reads_clock = false;      // it may wait for a time
};

// Where variables in constant memory are, by their names in PTX.
using Addresses = std::map<std::string, uint64_t, std::less<>>;

// Decodes an entry. Throws Error that names the first form of an instruction that is not in the table.
std::unique_ptr<Kernel> decode(const Module& module, const EntryText& entry, const Addresses& constants = {});

// For messages: name as in C++, without return type and parameters' types.
std::string readable_name(const std::string& mangled);
std::string demangled(const std::string& mangled);  // the whole name

}  // namespace duet::softgpu
