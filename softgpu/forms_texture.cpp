// SPDX-License-Identifier: Apache-2.0
// Fetches from textures over linear memory of elements of 32 bits. On a GPU an index beyond the texture gives 0; here
// it is reported.
#include <cstring>

#include "core/error.h"
#include "softgpu/access.h"
#include "softgpu/device.h"
#include "softgpu/forms.h"
#include "softgpu/lanes.h"

namespace duet::softgpu {
namespace {

const Device::Texture& texture(uint64_t handle, int lane) {
  const Device& d = Device::get();
  const auto found = d.textures.find(handle);
  if (found == d.textures.end())
    fault(handle > 0 && handle < d.next_texture ? "a fetch from a texture that was destroyed"
                                                : fmt::format("a fetch from {:#x}, which is no texture", handle),
          lane);
  return found->second;
}

// tex.1d.v4.KIND.s32 {d...}, [a, {b}]: the first of d is the element. The others, which it does not have, are set to
// 0xFF bytes.
template <char kKind>
void fetch(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint64_t* handle = w.at<uint64_t>(i.a);
  const int32_t* index = w.at<int32_t>(i.b);
  alignas(64) uint64_t address[kLanes] = {};
  for (int l = 0; l < kLanes; ++l) {
    if (!(lanes >> l & 1)) continue;
    const Device::Texture& t = texture(handle[l], l);
    if (t.kind != kKind) fault(fmt::format("a fetch of .{}32 from a texture of .{}32", kKind, t.kind), l);
    if (static_cast<uint64_t>(int64_t{index[l]}) >= t.elements)  // also of negative ones
      fault(fmt::format("a fetch of element {} from a texture of {}", index[l], t.elements), l, Fault::Kind::address);
    address[l] = t.address + static_cast<uint64_t>(index[l]) * 4;
  }
  const uint64_t first = address[__builtin_ctz(lanes)];
  for (int l = 0; l < kLanes; ++l)
    if (!(lanes >> l & 1)) address[l] = first;
  Pointers p;
  resolve<Space::generic, 4, Access::load>(w, lanes, address, p);
  alignas(64) uint32_t result[kLanes];
  for (int l = 0; l < kLanes; ++l) std::memcpy(&result[l], p.data[l], 4);
  for (const int to : i.list) {
    if (to != kNone) store_lanes(w.at<uint32_t>(to), result, lanes);
    std::memset(result, 0xFF, sizeof result);
  }
}

}  // namespace

void add_texture(Forms& table) {
  table["tex.1d.v4.f32.s32"] = {.shape = Shape::texture, .handler = fetch<'f'>};
  table["tex.1d.v4.s32.s32"] = {.shape = Shape::texture, .handler = fetch<'s'>};
  table["tex.1d.v4.u32.s32"] = {.shape = Shape::texture, .handler = fetch<'u'>};
}

}  // namespace duet::softgpu
