// SPDX-License-Identifier: Apache-2.0
// What the stand-ins for cuBLAS and cuDNN have in common: work in the order of a stream, and checked access to the
// elements of tensors in device memory.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "core/error.h"
#include "softgpu/half.h"
#include "softgpu/runtime.h"

namespace duet::softgpu {

enum class Element : uint8_t { f64, f32, bf16, f16, i32, i8, e4m3 };
constexpr int bytes_of(Element e) {
  constexpr int kBytes[] = {8, 4, 2, 2, 4, 1, 1};
  return kBytes[static_cast<int>(e)];
}

// A tensor in device memory, as one call of a library uses it. Elements may be touched only inside the declared tensor
// in which the first one lies, and read only where they were written.
class Elements {
 public:
  // what: call and name of the argument, for messages.
  Elements(const void* memory, Element type, std::string what)
      : address_(reinterpret_cast<uint64_t>(memory)), type_(type), what_(std::move(what)) {
    const auto [begin, end] = device().memory.tensor_at(address_);
    begin_ = begin;
    end_ = end;
    if (address_ % static_cast<uint64_t>(bytes_of(type)) != 0)
      fault(fmt::format("{}: {} is not aligned to an element", what_, device().memory.describe(address_)), kNone,
            Fault::Kind::alignment);
  }

  double load(int64_t index) const {
    const uint8_t* data = at(index, kLoadable);
    note(false);
    switch (type_) {
      case Element::f64:
        return read<double>(data);
      case Element::f32:
        return read<float>(data);
      case Element::bf16:
        return f32_of_bf16(read<uint16_t>(data));
      case Element::i32:
        return read<int32_t>(data);
      case Element::i8:
        return read<int8_t>(data);
      case Element::e4m3:
        return f32_of_e4m3(read<uint8_t>(data));
      case Element::f16:
        break;
    }
    return f32_of_f16(read<uint16_t>(data));
  }
  void store(int64_t index, double value) {
    uint8_t* data = at(index, kUsable);
    note(true);
    const auto narrow = static_cast<float>(value);
    switch (type_) {
      case Element::f64:
        write(data, value);
        break;
      case Element::f32:
        write(data, narrow);
        break;
      case Element::bf16:
        write(data, bf16_of(narrow));
        break;
      case Element::f16:
        write(data, f16_of(narrow));
        break;
      case Element::i32:
        write(data, static_cast<int32_t>(value));
        break;
      case Element::i8:
        write(data, static_cast<int8_t>(value));
        break;
      case Element::e4m3:
        throw Error("{}: no stand-in stores f8e4m3", what_);
    }
    std::memset(view().states + (data - view().data), kLoadable, static_cast<size_t>(bytes_of(type_)));
  }
  // What a store leaves of a value.
  double round(double value) const {
    const auto narrow = static_cast<float>(value);
    return type_ == Element::f64    ? value
           : type_ == Element::f32  ? narrow
           : type_ == Element::bf16 ? f32_of_bf16(bf16_of(narrow))
                                    : f32_of_f16(f16_of(narrow));
  }

 private:
  static const MemoryView& view() { return device().memory.view(); }
  template <class T>
  static T read(const uint8_t* data) {
    T value;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
  template <class T>
  static void write(uint8_t* data, T value) {
    std::memcpy(data, &value, sizeof value);
  }
  uint8_t* at(int64_t index, uint8_t wanted) const {
    const auto bytes = static_cast<uint64_t>(bytes_of(type_));
    const uint64_t address = address_ + static_cast<uint64_t>(index) * bytes;
    if (address < begin_ || address + bytes > end_ || end_ == begin_)
      fault(fmt::format("{}: element {} is at {}", what_, index, device().memory.describe(address)), kNone,
            Fault::Kind::address);
    if (scope_) scope_->require(address, bytes, wanted == kUsable, kNone);
    const uint64_t offset = address - view().base;
    for (uint64_t b = 0; b < bytes; ++b)
      if ((view().states[offset + b] & wanted) != wanted)
        fault(fmt::format("{}: element {} was {}: {}", what_, index,
                          view().states[offset + b] & kUsable ? "never written" : "released or is outside its tensor",
                          device().memory.describe(address)),
              kNone, Fault::Kind::address);
    return view().data + offset;
  }
  // Once for each call: the order of streams is kept by tensor.
  void note(bool writes) const {
    bool& noted = writes ? noted_write_ : noted_read_;
    if (noted) return;
    noted = true;
    device().order.touch(address_, 1, writes);
  }

  uint64_t address_, begin_ = 0, end_ = 0;
  Element type_;
  std::string what_;
  mutable bool noted_read_ = false, noted_write_ = false;
};

// Memory that a library may use as it likes during a call: all of it must belong to a tensor, and nothing is left in
// its first pages.
inline void spoil(void* memory, uint64_t bytes, const std::string& what) {
  constexpr uint64_t kSpoilt = 1 << 20;
  if (bytes == 0) return;
  const auto address = reinterpret_cast<uint64_t>(memory);
  const auto [begin, end] = device().memory.tensor_at(address);
  if (end == begin || address + bytes > end)
    fault(fmt::format("{}: {} bytes from {}", what, bytes, device().memory.describe(address)), kNone,
          Fault::Kind::address);
  device().touch(address, bytes, true);
  device().memory.fill(address, 0xFF, std::min(bytes, kSpoilt));
}

// f32 with the 10 bits of mantissa that tensor cores keep of TF32, rounded to nearest.
inline double tf32_of(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if ((bits & 0x7f800000) == 0x7f800000) return value;
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff});
}

// Work of a library, in the order of the stream, or into the graph that it records.
inline void enqueue(cudaStream_t stream, Work work) { device().enqueue(device().stream(stream), std::move(work)); }

// Runs the body of a library's call, which enqueues its work. `failed` where a kernel has failed before, or it throws.
template <class Status, class F>
Status library_call(Status failed, F&& body) {
  Status status = failed;
  const cudaError_t cuda = call([&] {
    status = body();
    return cudaSuccess;
  });
  return cuda == cudaSuccess ? status : failed;
}

// Refuses an argument, with the reason in the text of CUDA's latest error.
template <class Status>
Status refuse_call(Status status, const std::string& why) {
  device().latest_message = why;
  std::fprintf(stderr, "software GPU: %s\n", why.c_str());
  return status;
}

}  // namespace duet::softgpu
