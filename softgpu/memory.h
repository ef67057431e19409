// SPDX-License-Identifier: Apache-2.0
// Memory of the device. A pointer that a program gets from cudaMalloc lies in a reserved range without any access, so
// that host code which follows it ends with a fault. The bytes themselves, and a state for each byte, lie in two
// other ranges, at fixed distances from the pointer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace duet::softgpu {

// States of a byte. A kernel may store where kUsable is set, and load where both are set.
constexpr uint8_t kUsable = 1, kWritten = 2, kLoadable = kUsable | kWritten;
constexpr uint8_t kFreed = 4, kOutside = 8;  // for messages: released; of an allocation, but of none of its parts
// Of shared memory that a wgmma reads until a wait for it: a kernel may load, and kUsable is not set.
constexpr uint8_t kHeld = 16;
// Of constant memory: kernels only load, and kUsable is not set.
constexpr uint8_t kConstant = 32;
constexpr bool may_load(uint8_t state) { return (state & kWritten) && (state & (kUsable | kHeld | kConstant)); }

// Generic addresses of shared and local memory begin here; no host maps memory at such addresses.
constexpr uint64_t kSharedWindow = uint64_t{1} << 60, kLocalWindow = uint64_t{1} << 61,
                   kWindowBytes = uint64_t{1} << 32;

// Addresses [base, base + bytes), whose data and states are at fixed distances.
struct MemoryView {
  uint64_t base = 0, bytes = 0;
  uint8_t* data = nullptr;
  uint8_t* states = nullptr;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t capacity_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;

  const MemoryView& view() const { return view_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  uint64_t max_used() const { return max_used_; }
  void reset_max_used() { max_used_ = used_; }
  size_t allocations() const { return blocks_.size(); }

  void* allocate(uint64_t bytes);  // aligned to 256 bytes; null where the capacity is exceeded
  bool release(void* memory);      // false where nothing begins there
  // A variable in constant memory. Throws Error where the capacity is exceeded.
  uint64_t allocate_constant(uint64_t bytes, const std::string& name);
  // A part that kernels may touch. From its first part on, the rest of an allocation is out of bounds for them.
  void declare(void* memory, uint64_t bytes, const std::string& name);

  bool contains(uint64_t address) const { return address - view_.base < view_.bytes; }
  // Copies and fills, which may touch a whole allocation. Each throws Fault where the range is not inside of one, where
  // it begins or ends within a part and goes beyond it, and where a copy to the host reads what was never written.
  void write(uint64_t to, const void* from, uint64_t bytes);
  void read(void* to, uint64_t from, uint64_t bytes) const;
  void copy(uint64_t to, uint64_t from, uint64_t bytes);
  void fill(uint64_t to, uint8_t value, uint64_t bytes);  // with 0xFF, memory counts as not written

  // Begin and bytes of the allocation; 0 bytes where there is none.
  std::pair<uint64_t, uint64_t> allocation_at(uint64_t address) const;
  // Begin and end of the declared part that has the address, of the bytes between two parts, or of an allocation
  // without parts. Both are the address itself where nothing is allocated.
  std::pair<uint64_t, uint64_t> tensor_at(uint64_t address) const;

  // "byte 5 behind x (64 bytes)": where an address lies, for messages.
  std::string describe(uint64_t address) const;

 private:
  struct Part {
    uint64_t bytes;
    std::string name;
  };
  struct Allocation {
    uint64_t bytes = 0;
    std::map<uint64_t, Part> parts;
  };
  uint64_t require(uint64_t address, uint64_t bytes, const char* what) const;
  const std::pair<const uint64_t, Allocation>* find(uint64_t address) const;

  MemoryView view_;
  uint64_t capacity_, used_ = 0, max_used_ = 0, next_ = 0;
  std::map<uint64_t, Allocation> blocks_, freed_;  // freed_: the latest ones, for messages
};

}  // namespace duet::softgpu
