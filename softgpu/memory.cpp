// SPDX-License-Identifier: Apache-2.0
#include "softgpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/error.h"
#include "softgpu/warp.h"

namespace duet::softgpu {
namespace {
// Addresses are not used again before this range is used up, so that a late access to released memory is seen.
constexpr uint64_t kRange = uint64_t{256} << 30;
constexpr uint64_t kAlignment = 256, kPage = 4096, kGap = 4096;
constexpr size_t kRemembered = 4096;  // released allocations, for messages

void* reserve(uint64_t bytes, int protection) {
  void* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("software GPU: {} bytes of addresses cannot be reserved", bytes);
  return memory;
}
}  // namespace

DeviceMemory::DeviceMemory(uint64_t capacity) : capacity_(capacity) {
  view_.base = reinterpret_cast<uint64_t>(reserve(kRange, PROT_NONE));
  view_.bytes = kRange;
  view_.data = static_cast<uint8_t*>(reserve(kRange, PROT_READ | PROT_WRITE));
  view_.states = static_cast<uint8_t*>(reserve(kRange, PROT_READ | PROT_WRITE));
}

DeviceMemory::~DeviceMemory() {
  munmap(reinterpret_cast<void*>(view_.base), kRange);
  munmap(view_.data, kRange);
  munmap(view_.states, kRange);
}

void* DeviceMemory::allocate(uint64_t bytes) {
  if (bytes > capacity_ - used_) return nullptr;
  const uint64_t room = (bytes + kGap + kPage - 1) / kPage * kPage;
  if (next_ + room > kRange) next_ = 0;
  // The next free place, behind the allocations that a former round has left.
  for (auto at = blocks_.lower_bound(view_.base + next_); at != blocks_.end(); ++at) {
    if (view_.base + next_ + room <= at->first) break;
    next_ = (at->first - view_.base + at->second.bytes + kGap + kPage - 1) / kPage * kPage;
  }
  if (next_ + room > kRange) return nullptr;
  const uint64_t address = view_.base + next_;
  static_assert(kPage % kAlignment == 0);
  std::memset(view_.data + next_, 0xFF, bytes);
  std::memset(view_.states + next_, kUsable, bytes);
  std::memset(view_.states + next_ + bytes, 0, room - bytes);
  blocks_[address].bytes = bytes;
  freed_.erase(address);
  used_ += bytes;
  max_used_ = std::max(max_used_, used_);
  next_ += room;
  return reinterpret_cast<void*>(address);
}

bool DeviceMemory::release(void* memory) {
  const auto found = blocks_.find(reinterpret_cast<uint64_t>(memory));
  if (found == blocks_.end()) return false;
  const uint64_t offset = found->first - view_.base, bytes = found->second.bytes;
  // Whole pages go back to the system: their states become 0, which allows no access either.
  const uint64_t pages = bytes / kPage * kPage;
  std::memset(view_.states + offset + pages, kFreed, bytes - pages);
  if (pages > 0) {
    madvise(view_.data + offset, pages, MADV_DONTNEED);
    madvise(view_.states + offset, pages, MADV_DONTNEED);
  }
  used_ -= bytes;
  if (freed_.size() >= kRemembered) freed_.clear();
  freed_[found->first] = std::move(found->second);
  blocks_.erase(found);
  return true;
}

void DeviceMemory::declare(void* memory, uint64_t bytes, const std::string& name) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  const auto* found = find(address);
  if (!found || address + bytes > found->first + found->second.bytes)
    throw Error("software GPU: '{}' of {} bytes is not inside an allocation", name, bytes);
  Allocation& block = blocks_[found->first];
  if (block.parts.empty()) {
    uint8_t* states = view_.states + (found->first - view_.base);
    const uint64_t before = address - found->first;
    std::memset(states, kOutside, before);
    std::memset(states + before + bytes, kOutside, block.bytes - before - bytes);
  }
  std::memset(view_.states + (address - view_.base), kUsable, bytes);
  block.parts[address] = {bytes, name};
}

uint64_t DeviceMemory::allocate_constant(uint64_t bytes, const std::string& name) {
  void* memory = allocate(bytes);
  if (!memory) throw Error("software GPU: no room for the {} bytes of '{}' in constant memory", bytes, name);
  declare(memory, bytes, name);
  const auto address = reinterpret_cast<uint64_t>(memory);
  std::memset(view_.states + (address - view_.base), kConstant, bytes);
  return address;
}

const std::pair<const uint64_t, DeviceMemory::Allocation>* DeviceMemory::find(uint64_t address) const {
  auto at = blocks_.upper_bound(address);
  if (at == blocks_.begin()) return nullptr;
  --at;
  return address < at->first + std::max<uint64_t>(at->second.bytes, 1) ? &*at : nullptr;
}

// The offset of a range, which must lie in one allocation.
uint64_t DeviceMemory::require(uint64_t address, uint64_t bytes, const char* what) const {
  const auto* found = find(address);
  if (!found || address + bytes > found->first + found->second.bytes)
    fault(fmt::format("{} of {} bytes at {}", what, bytes, describe(address)), kNone, Fault::Kind::address);
  // Whole parts may be copied together, with what lies between them. Else a range stays in the part where it begins or
  // ends.
  const auto& parts = found->second.parts;
  const auto cut = [&](uint64_t place) {  // whether a part lies on both sides of it
    auto part = parts.lower_bound(place);
    if (part == parts.begin()) return false;
    --part;
    return place < part->first + part->second.bytes;
  };
  if (bytes > 0 && (cut(address) || cut(address + bytes)) && tensor_at(address) != tensor_at(address + bytes - 1))
    fault(fmt::format("{} of {} bytes, which goes from one tensor into the next: from {} to {}", what, bytes,
                      describe(address), describe(address + bytes - 1)),
          kNone, Fault::Kind::address);
  return address - view_.base;
}

void DeviceMemory::write(uint64_t to, const void* from, uint64_t bytes) {
  const uint64_t offset = require(to, bytes, "a copy to the device");
  std::memcpy(view_.data + offset, from, bytes);
  for (uint64_t i = 0; i < bytes; ++i) view_.states[offset + i] |= kWritten;
}

void DeviceMemory::read(void* to, uint64_t from, uint64_t bytes) const {
  const uint64_t offset = require(from, bytes, "a copy from the device");
  const uint8_t* states = view_.states + offset;
  const auto is_unwritten = [](uint8_t s) { return (s & (kUsable | kConstant)) && !(s & kWritten); };
  uint64_t unwritten = 0;
  for (uint64_t i = 0; i < bytes; ++i) unwritten += is_unwritten(states[i]);
  if (unwritten > 0) {
    const auto* first = std::find_if(states, states + bytes, is_unwritten);
    fault(fmt::format("a copy from the device of {} bytes, of which {} were never written; the first is {}", bytes,
                      unwritten, describe(from + static_cast<uint64_t>(first - states))),
          kNone, Fault::Kind::address);
  }
  std::memcpy(to, view_.data + offset, bytes);
}

void DeviceMemory::copy(uint64_t to, uint64_t from, uint64_t bytes) {
  const uint64_t target = require(to, bytes, "a copy within the device, to");
  const uint64_t source = require(from, bytes, "a copy within the device, from");
  std::memmove(view_.data + target, view_.data + source, bytes);
  for (uint64_t i = 0; i < bytes; ++i)
    view_.states[target + i] =
        static_cast<uint8_t>((view_.states[target + i] & ~kWritten) | (view_.states[source + i] & kWritten));
}

void DeviceMemory::fill(uint64_t to, uint8_t value, uint64_t bytes) {
  const uint64_t offset = require(to, bytes, "a fill");
  std::memset(view_.data + offset, value, bytes);
  uint8_t* states = view_.states + offset;
  if (value == 0xFF)
    for (uint64_t i = 0; i < bytes; ++i) states[i] &= static_cast<uint8_t>(~kWritten);
  else
    for (uint64_t i = 0; i < bytes; ++i) states[i] |= kWritten;
}

std::pair<uint64_t, uint64_t> DeviceMemory::allocation_at(uint64_t address) const {
  const auto* found = find(address);
  return found ? std::pair{found->first, found->second.bytes} : std::pair{address, uint64_t{0}};
}

std::pair<uint64_t, uint64_t> DeviceMemory::tensor_at(uint64_t address) const {
  const auto* found = find(address);
  if (!found || address >= found->first + found->second.bytes) return {address, address};
  uint64_t begin = found->first, end = begin + found->second.bytes;
  const auto& parts = found->second.parts;
  const auto next = parts.upper_bound(address);
  if (next != parts.end()) end = next->first;
  if (next != parts.begin()) {
    const auto& [part, about] = *std::prev(next);
    if (address < part + about.bytes) return {part, part + about.bytes};
    begin = part + about.bytes;
  }
  return {begin, end};
}

std::string DeviceMemory::describe(uint64_t address) const {
  const std::string hex = fmt::format("address {:#x}", address);
  if (!contains(address)) return hex + ", which is no device memory";
  const auto where = [&](uint64_t first, uint64_t bytes, const std::string& name) {
    if (address < first) return fmt::format("{} bytes before {} ({} bytes)", first - address, name, bytes);
    if (address < first + bytes) return fmt::format("byte {} of {} ({} bytes)", address - first, name, bytes);
    return fmt::format("{} bytes behind the end of {} ({} bytes)", address - first - bytes, name, bytes);
  };
  if (const auto* found = find(address)) {
    const Allocation& block = found->second;
    if (block.parts.empty()) return fmt::format("{}, {}", hex, where(found->first, block.bytes, "an allocation"));
    auto part = block.parts.upper_bound(address);
    if (part != block.parts.begin()) --part;
    return fmt::format("{}, {}", hex, where(part->first, part->second.bytes, part->second.name));
  }
  auto old = freed_.upper_bound(address);
  if (old != freed_.begin()) --old;
  if (old != freed_.end() && address >= old->first && address < old->first + old->second.bytes)
    return fmt::format("{}, {}", hex, where(old->first, old->second.bytes, "released memory"));
  auto near = blocks_.upper_bound(address);
  if (near == blocks_.begin()) return hex + ", outside every allocation";
  --near;
  const auto& parts = near->second.parts;
  if (!parts.empty())
    return fmt::format("{}, {}", hex,
                       where(parts.rbegin()->first, parts.rbegin()->second.bytes, parts.rbegin()->second.name));
  return fmt::format("{}, {}", hex, where(near->first, near->second.bytes, "an allocation"));
}

}  // namespace duet::softgpu
