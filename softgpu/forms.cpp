// SPDX-License-Identifier: Apache-2.0
#include "softgpu/forms.h"

#include <algorithm>
#include <array>

#include "softgpu/warp.h"

namespace duet::softgpu {
namespace {
void nothing(Warp&, const Instruction&, uint32_t) {}
void trap(Warp&, const Instruction&, uint32_t) { fault("trap: the kernel ended itself, as a failed assertion does"); }

void add_control(Forms& table) {
  table["bra"] = {.shape = Shape::branch, .handler = nothing, .flow = Flow::branch};
  table["ret"] = table["exit"] = {.shape = Shape::bare, .handler = nothing, .flow = Flow::exit};
  table["trap"] = {.shape = Shape::bare, .handler = trap};
  // bar.arrive: `offset` is 1.
  for (const char* name : {"bar.sync", "barrier.sync", "barrier.sync.aligned", "bar.arrive", "barrier.arrive"})
    table[name] = {.shape = Shape::barrier, .handler = nothing, .flow = Flow::barrier};
  // One warp runs at a time, and its accesses take effect in order.
  for (const char* name : {"membar", "fence.acq_rel", "fence.sc", "fence.proxy.async", "fence.proxy.async.shared::cta"})
    table[name] = {.shape = Shape::bare, .handler = nothing};
}

Forms all_forms() {
  Forms table;
  add_control(table);
  add_arithmetic(table);
  add_float(table);
  add_conversions(table);
  add_memory(table);
  add_texture(table);
  add_atomics(table);
  add_warp(table);
  add_matrix(table);
  add_warpgroup(table);
  return table;
}

// Of loads, stores and atomics: caches, orders and scopes.
constexpr std::array<std::string_view, 19> kHints = {
    "nc",      "ca",  "cg",  "cs",  "lu",      "cv",      "wb",      "wt", "weak",    "relaxed",
    "acquire", "gpu", "sys", "cta", "release", "acq_rel", "cluster", "gl", "volatile"};
}  // namespace

const Forms& forms() {
  static const Forms table = all_forms();
  return table;
}

std::string canonical_name(std::string_view opcode) {
  const size_t dot = std::min(opcode.find('.'), opcode.size());
  const std::string_view base = opcode.substr(0, dot);
  const bool memory = base == "ld" || base == "st" || base == "atom" || base == "red";
  const bool fence = base == "membar" || base == "fence";
  std::string name(base);
  for (size_t at = dot; at < opcode.size();) {
    const size_t next = std::min(opcode.find('.', at + 1), opcode.size());
    const std::string_view word = opcode.substr(at + 1, next - at - 1);
    at = next;
    if (memory && (std::find(kHints.begin(), kHints.end(), word) != kHints.end() || word.starts_with("L1::") ||
                   word.starts_with("L2::")))
      continue;
    if (fence && (word == "gl" || word == "cta" || word == "sys" || word == "gpu" || word == "cluster")) continue;
    if (base == "bra" && word == "uni") continue;
    if (base == "cp" && (word == "cg" || word == "ca" || word.starts_with("L2::"))) continue;
    name += '.';
    name += word;
  }
  return name;
}

}  // namespace duet::softgpu
