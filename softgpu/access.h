// SPDX-License-Identifier: Apache-2.0
// Checked addresses of a warp's loads and stores: from the addresses in registers to pointers that may be followed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "softgpu/order.h"
#include "softgpu/scope.h"
#include "softgpu/warp.h"

namespace duet::softgpu {

// generic: global and constant memory, and the windows of shared and local memory.
enum class Space : uint8_t { generic, shared, constant };
enum class Access : uint8_t { load, store, update };  // update: load and store, of an atomic

// Where each lane's data is. A lane that takes no part has the pointer of one that does, so that loops need no branch.
struct Pointers {
  uint8_t* data[kLanes];
  bool adjacent = false;  // lane l's data follows that of lane l - 1, in all 32 lanes
};

// What a kernel may use of the host's memory: pinned and managed. Null where `address` is in none.
uint8_t* host_memory(uint64_t address, uint64_t bytes);
std::string describe_device_address(uint64_t address);

// Why the address of a lane is refused; throws Fault.
[[noreturn]] void refuse_address(const Warp& w, const MemoryView& view, bool is_shared, int lane, uint64_t address,
                                 int bytes, Access access);

extern const MemoryView* device_view_;  // of the device that exists
inline const MemoryView& device_view() { return *device_view_; }

namespace detail {
// The addresses of lanes that take part; the others get that of the first one.
inline void read_addresses(const Warp& w, const Instruction& i, uint32_t lanes, uint64_t (&address)[kLanes]) {
  const auto offset = static_cast<uint64_t>(i.offset);
  if (i.wide_address) {
    const uint64_t* base = w.at<uint64_t>(i.a);
    for (int l = 0; l < kLanes; ++l) address[l] = base[l] + offset;
  } else {
    const uint32_t* base = w.at<uint32_t>(i.a);
    for (int l = 0; l < kLanes; ++l) address[l] = static_cast<uint32_t>(base[l] + offset);
  }
  if (lanes == kAllLanes) return;
  const uint64_t first = address[__builtin_ctz(lanes)];
  for (int l = 0; l < kLanes; ++l) address[l] = lanes >> l & 1 ? address[l] : first;
}

void require_constant(uint32_t lanes, const uint64_t (&address)[kLanes]);
void require_scope(uint32_t lanes, const uint64_t (&address)[kLanes], uint64_t bytes, Access access);
void note_accesses(uint32_t lanes, const uint64_t (&address)[kLanes], int bytes, Access access);

template <int kBytes>
inline bool states_allow(const uint8_t* states, uint64_t wanted) {
  uint64_t all = wanted;
  for (int at = 0; at < kBytes; at += 8) {
    uint64_t word = wanted;
    std::memcpy(&word, states + at, kBytes < 8 ? kBytes : 8);
    all &= word;
  }
  return (all & wanted) == wanted;
}

// Of one view; false where an address is not allowed, or lies elsewhere.
template <int kBytes, Access kAccess>
bool resolve_in(const MemoryView& view, const uint64_t (&address)[kLanes], Pointers& p) {
  uint64_t low = address[0], high = address[0], ones = 0, apart = 0;
  for (int l = 0; l < kLanes; ++l) {
    low = std::min(low, address[l]);
    high = std::max(high, address[l]);
    ones |= address[l];
    apart |= address[l] - address[0] - static_cast<uint64_t>(l * kBytes);
  }
  if ((ones & (kBytes - 1)) != 0 || low < view.base || high - view.base + kBytes > view.bytes || high < low)
    return false;
  constexpr uint64_t kEach = 0x0101010101010101;
  constexpr uint64_t kWanted = kEach * (kAccess == Access::store ? kUsable : kLoadable);
  p.adjacent = apart == 0;
  const uint64_t offset = address[0] - view.base;
  for (int l = 0; l < kLanes; ++l) p.data[l] = view.data + (address[l] - view.base);
  if (apart == 0) {
    uint64_t all = kWanted, word;
    const uint8_t* states = view.states + offset;
    for (int at = 0; at < kLanes * kBytes; at += 8) {
      std::memcpy(&word, states + at, 8);
      all &= word;
    }
    if ((all & kWanted) != kWanted) return false;
    if constexpr (kAccess == Access::store) std::memset(view.states + offset, kLoadable, kLanes * kBytes);
    return true;
  }
  bool allowed = true;
  for (int l = 0; l < kLanes; ++l) allowed &= states_allow<kBytes>(view.states + (address[l] - view.base), kWanted);
  if (!allowed) return false;
  if constexpr (kAccess == Access::store)
    for (int l = 0; l < kLanes; ++l) std::memset(view.states + (address[l] - view.base), kLoadable, kBytes);
  return true;
}

// Lane by lane: for addresses of several kinds, and to find the one that is refused.
template <int kBytes, Access kAccess>
[[gnu::noinline]] void resolve_slowly(const Warp& w, Space space, uint32_t lanes, const uint64_t (&address)[kLanes],
                                      Pointers& p) {
  p.adjacent = false;
  uint8_t* some = nullptr;
  for (int l = 0; l < kLanes; ++l) {
    if (!(lanes >> l & 1)) continue;
    uint64_t a = address[l];
    bool in_shared = space == Space::shared;
    if (!in_shared && a - kSharedWindow < kWindowBytes) {
      in_shared = true;
      a -= kSharedWindow;
    }
    if (!in_shared && a - kLocalWindow < kWindowBytes) {
      a -= kLocalWindow;
      const uint32_t each = w.kernel->local_bytes;
      if (a + kBytes > each) fault(fmt::format("local address {} of {} bytes", a, each), l, Fault::Kind::address);
      p.data[l] = const_cast<uint8_t*>(w.local.data()) + static_cast<uint64_t>(l) * each + a;
      some = p.data[l];
      continue;
    }
    const MemoryView& view = in_shared ? w.block->shared : device_view();
    const uint64_t offset = a - view.base;
    constexpr uint8_t kWanted = kAccess == Access::store ? kUsable : kLoadable;
    if (a % kBytes != 0) refuse_address(w, view, in_shared, l, a, kBytes, kAccess);
    if (offset < view.bytes && offset + kBytes <= view.bytes) {
      for (int b = 0; b < kBytes; ++b)
        if ((view.states[offset + b] & kWanted) != kWanted &&
            (kAccess != Access::load || !may_load(view.states[offset + b])))
          refuse_address(w, view, in_shared, l, a, kBytes, kAccess);
      if constexpr (kAccess == Access::store) std::memset(view.states + offset, kLoadable, kBytes);
      p.data[l] = view.data + offset;
    } else {
      p.data[l] = in_shared ? nullptr : host_memory(a, kBytes);
      if (!p.data[l]) refuse_address(w, view, in_shared, l, a, kBytes, kAccess);
    }
    some = p.data[l];
  }
  for (int l = 0; l < kLanes; ++l)
    if (!(lanes >> l & 1)) p.data[l] = some;
}
}  // namespace detail

// kBytes: of one lane's access, 1 to 16, to which its address has to be aligned. address: of lanes that take part; the
// others have that of one that does.
template <Space kSpace, int kBytes, Access kAccess>
inline void resolve(Warp& w, uint32_t lanes, const uint64_t (&address)[kLanes], Pointers& p) {
  if constexpr (kSpace == Space::constant) detail::require_constant(lanes, address);
  if constexpr (kSpace != Space::shared) {
    if (kernel_accesses_) [[unlikely]]
      detail::note_accesses(lanes, address, kBytes, kAccess);
    if (scope_) detail::require_scope(lanes, address, kBytes, kAccess);
    if (detail::resolve_in<kBytes, kAccess>(device_view(), address, p)) return;
  } else {
    if (detail::resolve_in<kBytes, kAccess>(w.block->shared, address, p)) return;
  }
  detail::resolve_slowly<kBytes, kAccess>(w, kSpace, lanes, address, p);
}

template <Space kSpace, int kBytes, Access kAccess>
inline void resolve(Warp& w, const Instruction& i, uint32_t lanes, Pointers& p) {
  alignas(64) uint64_t address[kLanes];
  detail::read_addresses(w, i, lanes, address);
  resolve<kSpace, kBytes, kAccess>(w, lanes, address, p);
}

}  // namespace duet::softgpu
