// SPDX-License-Identifier: Apache-2.0
#include "core/context.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/philox.h"

// Of softgpu/, where kernels may touch declared parts alone. Other programs have no such function.
extern "C" [[gnu::weak]] void duet_softgpu_declare(void* memory, size_t bytes, const char* name);

namespace duet {

const char* name_of(Device d) { return d == Device::cpu ? "cpu" : d == Device::cuda ? "cuda" : "simt"; }

namespace {
constexpr int64_t kPage = 4096;
// Bytes of a guard band. Errors of a row or a tile land beyond a page, and where the data is large, so is a tile.
constexpr int64_t kGuard = 4 * kPage, kLargeGuard = 16 * kPage, kLargeBuffer = 1 << 20;
constexpr int64_t kStarts = 16, kLines = 256;  // starts within a page; bytes between two of them
constexpr int64_t kMixedAlignment = 256;       // of memory of mixed types
constexpr uint8_t kPoison = 0xFF;

// Buffers that start at the same offset within 4 KiB make a load wait for an unrelated store (4K aliasing), so
// successive buffers start at different multiples of 256 bytes within a page.
int64_t next_stagger() {
  static std::atomic<int64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed) * 5 % kStarts * kLines;
}

uint64_t next_key() {
  static std::atomic<uint64_t> counter{std::random_device{}()};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

// The bytes of a guard band; `first` is the position of its first byte.
std::vector<uint8_t> guard_bytes(uint64_t key, int64_t first, int64_t bytes) {
  const int64_t block = sizeof(Philox4), skipped = first % block;
  std::vector<uint8_t> pattern;
  pattern.reserve(static_cast<size_t>(skipped + bytes + block));
  for (int64_t at = first - skipped; at < first + bytes; at += block) {
    const Philox4 bits = philox4x32_10(static_cast<uint64_t>(at / block), key);
    const auto* from = reinterpret_cast<const uint8_t*>(bits.v);
    pattern.insert(pattern.end(), from, from + block);
  }
  pattern.erase(pattern.begin(), pattern.begin() + skipped);
  pattern.resize(static_cast<size_t>(bytes));
  return pattern;
}
}  // namespace

Buffer::Buffer(Context& context, int64_t bytes, const std::string& name, int64_t element_bytes, int64_t offset)
    : context_(&context), bytes_(bytes), key_(next_key()) {
  const int64_t guard = bytes < kLargeBuffer ? kGuard : kLargeGuard;
  const auto round_up = [](int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; };
  int64_t front = guard + next_stagger() + offset;
  raw_bytes_ = front + bytes + guard;
  if (context.fence() == Fence::before) {
    front = offset;
    raw_bytes_ = front + bytes + guard;
  } else if (context.fence() == Fence::behind) {
    raw_bytes_ = round_up(guard + bytes, kPage);
    front = (raw_bytes_ - bytes) / kMixedAlignment * kMixedAlignment;
    if (element_bytes > 0) front = raw_bytes_ - bytes;
  }
  raw_ = context.allocate(raw_bytes_);
  data_ = static_cast<char*>(raw_) + front;
  context.fill_bytes(raw_, kPoison, raw_bytes_);
  write_guard(0, front);
  write_guard(front + bytes, raw_bytes_ - front - bytes);
  context.declare(data_, bytes_, std::max<int64_t>(1, element_bytes), name);
  if (duet_softgpu_declare && context.device() == Device::cuda)
    duet_softgpu_declare(data_, static_cast<size_t>(bytes_), name.c_str());
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
  std::swap(key_, other.key_);
  std::swap(inner_guards_, other.inner_guards_);
}

void Buffer::poison() {
  if (bytes_ > 0) context_->fill_bytes(data_, kPoison, bytes_);
}

void Buffer::add_guard(int64_t first, int64_t last) {
  const int64_t front = static_cast<char*>(data_) - static_cast<char*>(raw_);
  inner_guards_.emplace_back(first, last);
  write_guard(front + first, last - first);
}

// The host executor of kernels takes 0xFF bytes for memory that was never written and reports who reads them: there,
// guards stay so.
std::vector<uint8_t> Buffer::guard(int64_t first, int64_t count) const {
  if (context_->device() == Device::simt) return std::vector<uint8_t>(static_cast<size_t>(count), kPoison);
  return guard_bytes(key_, first, count);
}

void Buffer::write_guard(int64_t first, int64_t count) {
  if (count > 0 && context_->device() != Device::simt)
    context_->upload(static_cast<char*>(raw_) + first, guard(first, count).data(), count);
}

int64_t Buffer::changed_guard(int64_t first, int64_t count) const {
  if (count == 0) return -1;
  std::vector<uint8_t> now(static_cast<size_t>(count));
  context_->download(now.data(), static_cast<char*>(raw_) + first, count);
  const std::vector<uint8_t> then = guard(first, count);
  const auto at = std::mismatch(now.begin(), now.end(), then.begin()).first;
  return at == now.end() ? -1 : at - now.begin();
}

std::string Buffer::guard_failure() const {
  if (!context_) return "";
  const int64_t front = static_cast<char*>(data_) - static_cast<char*>(raw_), end = front + bytes_;
  if (const int64_t at = changed_guard(0, front); at >= 0)
    return fmt::format("byte {} before its beginning was overwritten", front - at);
  if (const int64_t at = changed_guard(end, raw_bytes_ - end); at >= 0)
    return fmt::format("byte {} behind its end was overwritten", at);
  for (const auto& [first, last] : inner_guards_)
    if (const int64_t at = changed_guard(front + first, last - first); at >= 0)
      return fmt::format("its byte {}, which belongs to no piece, was overwritten", first + at);
  return "";
}

}  // namespace duet
