// SPDX-License-Identifier: Apache-2.0
#include "core/context.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "core/dtype.h"

namespace duet {

const char* name_of(Device d) { return d == Device::cpu ? "cpu" : d == Device::cuda ? "cuda" : "simt"; }

namespace {
constexpr int64_t kGuard = 4096, kStarts = 16, kLines = 256;  // bytes; starts within a page; bytes between two of them
constexpr uint8_t kPoison = 0xFF;

// Buffers that start at the same offset within 4 KiB make a load wait for an unrelated store (4K aliasing), so
// successive buffers start at different multiples of 256 bytes within a page.
int64_t next_stagger() {
  static std::atomic<int64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed) * 5 % kStarts * kLines;
}
}  // namespace

Buffer::Buffer(Context& context, int64_t bytes, const std::string& name, int64_t element_bytes)
    : context_(&context), bytes_(bytes) {
  const int64_t stagger = next_stagger();
  raw_bytes_ = kGuard + stagger + bytes + kGuard;
  raw_ = context.allocate(raw_bytes_);
  data_ = static_cast<char*>(raw_) + kGuard + stagger;
  context.fill_bytes(raw_, kPoison, raw_bytes_);
  context.declare(data_, bytes_, element_bytes, name);
  context.held_bytes_ += bytes;
}

Buffer::~Buffer() {
  if (!context_) return;
  context_->held_bytes_ -= bytes_;
  context_->release(raw_, raw_bytes_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(raw_, other.raw_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(raw_bytes_, other.raw_bytes_);
}

void Buffer::poison() {
  if (bytes_ > 0) context_->fill_bytes(data_, kPoison, bytes_);
}

bool Buffer::untouched(int64_t first, int64_t last) const {
  std::vector<uint8_t> bytes(static_cast<size_t>(last - first));
  context_->download(bytes.data(), static_cast<char*>(data_) + first, last - first);
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == kPoison; });
}

bool Buffer::guards_intact() const {
  if (!context_) return true;
  const int64_t front = static_cast<char*>(data_) - static_cast<char*>(raw_);
  return untouched(-front, 0) && untouched(bytes_, raw_bytes_ - front);
}

}  // namespace duet
