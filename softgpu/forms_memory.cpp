// SPDX-License-Identifier: Apache-2.0
// Loads and stores, parameters, asynchronous copies, ldmatrix. A lane's access is a vector of up to 4 elements,
// aligned to its size. Registers may be wider than the elements: a load extends, a store truncates.
#include <array>
#include <cstring>
#include <string>
#include <type_traits>

#include "core/error.h"
#include "softgpu/access.h"
#include "softgpu/forms.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {

// T: an element in memory. R: a register.
template <Space kSpace, class T, class R, int kCount>
void load(Warp& w, const Instruction& i, uint32_t lanes) {
  Pointers p;
  resolve<kSpace, sizeof(T) * kCount, Access::load>(w, i, lanes, p);
  for (int e = 0; e < kCount; ++e) {
    if (kCount > 1 && i.list[e] == kNone) continue;  // the sink '_'
    alignas(64) R result[kLanes];
    if (p.adjacent) {
      const uint8_t* from = p.data[0] + e * sizeof(T);
      for (int l = 0; l < kLanes; ++l) {
        T value;
        std::memcpy(&value, from + l * sizeof(T) * kCount, sizeof value);
        result[l] = static_cast<R>(value);
      }
    } else {
      for (int l = 0; l < kLanes; ++l) {
        T value;
        std::memcpy(&value, p.data[l] + e * sizeof(T), sizeof value);
        result[l] = static_cast<R>(value);
      }
    }
    store_lanes(w.at<R>(kCount > 1 ? i.list[e] : i.dst), result, lanes);
  }
}

template <Space kSpace, class T, class R, int kCount>
void store(Warp& w, const Instruction& i, uint32_t lanes) {
  Pointers p;
  resolve<kSpace, sizeof(T) * kCount, Access::store>(w, i, lanes, p);
  for (int e = 0; e < kCount; ++e) {
    const R* from = w.at<R>(kCount > 1 ? i.list[e] : i.dst);
    if (p.adjacent) {
      uint8_t* to = p.data[0] + e * sizeof(T);
      for (int l = 0; l < kLanes; ++l) {
        const T value = static_cast<T>(from[l]);
        std::memcpy(to + l * sizeof(T) * kCount, &value, sizeof value);
      }
    } else {
      for (int l = 0; l < kLanes; ++l) {
        if (!(lanes >> l & 1)) continue;
        const T value = static_cast<T>(from[l]);
        std::memcpy(p.data[l] + e * sizeof(T), &value, sizeof value);
      }
    }
  }
}

// [parameter + offset], or an address in a register where a parameter is an array that is indexed.
template <class T, class R, int kCount>
void load_parameter(Warp& w, const Instruction& i, uint32_t lanes) {
  const auto bytes = static_cast<uint64_t>(w.kernel->parameter_bytes);
  for (int e = 0; e < kCount; ++e) {
    R result[kLanes] = {};
    for (int l = 0; l < kLanes; ++l) {
      if (!(lanes >> l & 1)) continue;
      uint64_t at = static_cast<uint64_t>(i.offset) + static_cast<uint64_t>(e) * sizeof(T);
      if (i.a != kNone) at += w.at<uint64_t>(i.a)[l];
      if (at + sizeof(T) > bytes)
        fault(fmt::format("byte {} of the kernel's {} bytes of parameters", at, bytes), l, Fault::Kind::address);
      T value;
      std::memcpy(&value, w.parameters + at, sizeof value);
      result[l] = static_cast<R>(value);
    }
    store_lanes(w.at<R>(kCount > 1 ? i.list[e] : i.dst), result, lanes);
  }
}

template <class T, int kBytes>
using RegisterOf =
    std::conditional_t<std::is_signed_v<T>,
                       std::conditional_t<kBytes == 2, int16_t, std::conditional_t<kBytes == 4, int32_t, int64_t>>,
                       std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

// Local memory has a window among generic addresses, and decode.cpp adds where it begins. So global, local and generic
// accesses have the same handlers.
template <class T, int kCount>
void add_loads(Forms& table, const std::string& type) {
  const std::string name = (kCount == 1 ? "." : kCount == 2 ? ".v2." : ".v4.") + type;
  const auto put = [&](const std::string& space, Shape shape, const Form& form) {
    table["ld" + space + name] = form;
    table["ld" + space + name].shape = shape;
    table["ld" + space + name].dst_bytes = sizeof(T);
  };
  Form any, shared, constant, parameter;
  const auto set = [&]<class R>(R) {
    const int width = sizeof(R) == 2 ? 0 : sizeof(R) == 4 ? 1 : 2;
    any.by_register[width] = load<Space::generic, T, R, kCount>;
    shared.by_register[width] = load<Space::shared, T, R, kCount>;
    constant.by_register[width] = load<Space::constant, T, R, kCount>;
    parameter.by_register[width] = load_parameter<T, R, kCount>;
  };
  if constexpr (sizeof(T) <= 2) set(RegisterOf<T, 2>{});
  if constexpr (sizeof(T) <= 4) set(RegisterOf<T, 4>{});
  set(RegisterOf<T, 8>{});
  put("", Shape::load, any);
  put(".global", Shape::load, any);
  put(".local", Shape::load_local, any);
  put(".shared", Shape::load, shared);
  put(".const", Shape::load, constant);
  put(".param", Shape::parameter, parameter);
}

template <class T, int kCount>
void add_stores(Forms& table, std::initializer_list<const char*> types) {
  Form any{.shape = Shape::store, .dst_bytes = sizeof(T)}, shared = any;
  const auto set = [&]<class R>(R) {
    const int width = sizeof(R) == 2 ? 0 : sizeof(R) == 4 ? 1 : 2;
    any.by_register[width] = store<Space::generic, T, R, kCount>;
    shared.by_register[width] = store<Space::shared, T, R, kCount>;
  };
  if constexpr (sizeof(T) <= 2) set(uint16_t{});
  if constexpr (sizeof(T) <= 4) set(uint32_t{});
  set(uint64_t{});
  for (const char* type : types) {
    const std::string name = std::string(kCount == 1 ? "." : kCount == 2 ? ".v2." : ".v4.") + type;
    table["st" + name] = table["st.global" + name] = table["st.local" + name] = any;
    table["st.local" + name].shape = Shape::store_local;
    table["st.shared" + name] = shared;
  }
}

template <class T>
void add_load_type(Forms& table, const char* type) {
  add_loads<T, 1>(table, type);
  add_loads<T, 2>(table, type);
  if constexpr (sizeof(T) < 8) add_loads<T, 4>(table, type);
}

template <class T>
void add_store_type(Forms& table, std::initializer_list<const char*> types) {
  add_stores<T, 1>(table, types);
  add_stores<T, 2>(table, types);
  if constexpr (sizeof(T) < 8) add_stores<T, 4>(table, types);
}

// cp.async [shared], [global], bytes, source bytes. It lands as late as the program allows: at the wait. Until then the
// target counts as not written. a: shared address; b: global address; c: source bytes; list[0]: offset of the source.
void start_copy(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t bytes = i.count;
  for (int l = 0; l < kLanes; ++l) {
    if (!(lanes >> l & 1)) continue;
    const MemoryView& shared = w.block->shared;
    uint64_t to = i.wide_address ? w.at<uint64_t>(i.a)[l] : w.at<uint32_t>(i.a)[l];
    to += static_cast<uint64_t>(i.offset);
    if (to - kSharedWindow < kWindowBytes) to -= kSharedWindow;
    const uint64_t from = w.at<uint64_t>(i.b)[l] + static_cast<uint64_t>(i.list[0]);
    const uint32_t present = i.c == kNone ? bytes : w.at<uint32_t>(i.c)[l];
    if (present > bytes) fault(fmt::format("cp.async of {} bytes from {} of the source", bytes, present), l);
    if (to % bytes != 0 || to + bytes > shared.bytes || !(shared.states[to] & kUsable))
      refuse_address(w, shared, true, l, to, static_cast<int>(bytes), Access::store);
    if (present > 0) {
      if (scope_) scope_->require(from, present, false, l);
      const MemoryView& global = device_view();
      const uint64_t offset = from - global.base;
      if (from % bytes != 0 || offset >= global.bytes)
        refuse_address(w, global, false, l, from, static_cast<int>(bytes), Access::load);
      for (uint32_t b = 0; b < present; ++b)
        if ((global.states[offset + b] & kLoadable) != kLoadable)
          refuse_address(w, global, false, l, from + b, 1, Access::load);
    }
    std::memset(shared.data + to, 0xFF, bytes);
    std::memset(shared.states + to, kUsable, bytes);
    w.copies.push_back({static_cast<uint32_t>(l), static_cast<uint32_t>(to), bytes, present, w.groups[l], from});
  }
}

void commit_copies(Warp& w, const Instruction&, uint32_t lanes) {
  for (int l = 0; l < kLanes; ++l) w.groups[l] += lanes >> l & 1;
}

// offset: how many of the latest groups may stay in flight; -1: also what is not committed has to land.
void wait_for_copies(Warp& w, const Instruction& i, uint32_t lanes) {
  const MemoryView& shared = w.block->shared;
  const MemoryView& global = device_view();
  size_t kept = 0;
  for (const AsyncCopy& copy : w.copies) {
    const bool lands = (lanes >> copy.lane & 1) && static_cast<int64_t>(copy.group) + i.offset < w.groups[copy.lane];
    if (!lands && i.offset >= 0) {
      w.copies[kept++] = copy;
      continue;
    }
    std::memset(shared.data + copy.to, 0, copy.bytes);
    if (copy.source_bytes > 0)
      std::memcpy(shared.data + copy.to, global.data + (copy.from - global.base), copy.source_bytes);
    std::memset(shared.states + copy.to, kLoadable, copy.bytes);
  }
  w.copies.resize(kept);
}

// Matrices of 8x8 elements of 16 bits: lane l passes the address of row l % 8 of matrix l / 8, and receives of each
// matrix the elements of row l / 4 in columns 2 (l % 4) and the next (transposed: rows and columns exchanged).
template <int kMatrices, bool kTransposed>
void load_matrices(Warp& w, const Instruction& i, uint32_t) {
  uint64_t address[kLanes];
  detail::read_addresses(w, i, kAllLanes, address);
  const MemoryView& shared = w.block->shared;
  uint16_t rows[kMatrices * 8][8];
  for (int l = 0; l < kMatrices * 8; ++l) {
    uint64_t at = address[l];
    if (at - kSharedWindow < kWindowBytes) at -= kSharedWindow;
    bool allowed = at % 16 == 0 && at + 16 <= shared.bytes;
    for (int b = 0; allowed && b < 16; ++b) allowed = may_load(shared.states[at + b]);
    if (!allowed) refuse_address(w, shared, true, l, at, 16, Access::load);
    std::memcpy(rows[l], shared.data + at, 16);
  }
  for (int m = 0; m < kMatrices; ++m) {
    uint32_t* to = w.at<uint32_t>(kMatrices > 1 ? i.list[m] : i.dst);
    for (int l = 0; l < kLanes; ++l) {
      const int r = l / 4, c = 2 * (l % 4);
      const uint32_t low = kTransposed ? rows[m * 8 + c][r] : rows[m * 8 + r][c];
      const uint32_t high = kTransposed ? rows[m * 8 + c + 1][r] : rows[m * 8 + r][c + 1];
      to[l] = low | high << 16;
    }
  }
}
}  // namespace

void add_memory(Forms& table) {
  for (const char* type : {"u8", "b8"}) add_load_type<uint8_t>(table, type);
  for (const char* type : {"u16", "b16"}) add_load_type<uint16_t>(table, type);
  for (const char* type : {"u32", "b32", "f32"}) add_load_type<uint32_t>(table, type);
  for (const char* type : {"u64", "s64", "b64", "f64"}) add_load_type<uint64_t>(table, type);
  add_load_type<int8_t>(table, "s8");
  add_load_type<int16_t>(table, "s16");
  add_load_type<int32_t>(table, "s32");
  add_store_type<uint8_t>(table, {"u8", "s8", "b8"});
  add_store_type<uint16_t>(table, {"u16", "s16", "b16"});
  add_store_type<uint32_t>(table, {"u32", "s32", "b32", "f32"});
  add_store_type<uint64_t>(table, {"u64", "s64", "b64", "f64"});

  table["cp.async.shared.global"] = {.shape = Shape::copy, .handler = start_copy};
  table["cp.async.commit_group"] = {.shape = Shape::bare, .handler = commit_copies};
  table["cp.async.wait_group"] = {.shape = Shape::constant, .handler = wait_for_copies};
  table["cp.async.wait_all"] = {.shape = Shape::bare, .handler = wait_for_copies};

  const auto matrices = [&](const std::string& name, Handler plain, Handler transposed) {
    for (const char* shared : {".shared.b16", ".shared::cta.b16"}) {
      table["ldmatrix.sync.aligned.m8n8." + name + shared] = {
          .shape = Shape::ldmatrix, .handler = plain, .flow = Flow::aligned};
      table["ldmatrix.sync.aligned.m8n8." + name + ".trans" + shared] = {
          .shape = Shape::ldmatrix, .handler = transposed, .flow = Flow::aligned};
    }
  };
  matrices("x1", load_matrices<1, false>, load_matrices<1, true>);
  matrices("x2", load_matrices<2, false>, load_matrices<2, true>);
  matrices("x4", load_matrices<4, false>, load_matrices<4, true>);
}

}  // namespace duet::softgpu
