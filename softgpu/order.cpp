// SPDX-License-Identifier: Apache-2.0
#include "softgpu/order.h"

#include <algorithm>

#include "core/error.h"
#include "softgpu/access.h"

namespace duet::softgpu {

Order* kernel_accesses_ = nullptr;

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t s = 0; s < other.size(); ++s) clock[s] = std::max(clock[s], other[s]);
}

Order::Running::Running(Order& order, int stream, Clock& clock, const Clock& enqueued)
    : order_(order), stream_before_(order.stream_), clock_before_(order.clock_) {
  join(clock, enqueued);
  const auto own = static_cast<size_t>(stream);
  if (clock.size() <= own) clock.resize(own + 1);
  ++clock[own];
  order.stream_ = stream;
  order.clock_ = &clock;
  order.latest_end_ = 0;
}

Order::Running::~Running() {
  order_.stream_ = stream_before_;
  order_.clock_ = clock_before_;
  order_.latest_end_ = 0;
}

bool Order::happened(const Stamp& stamp) const {
  if (stamp.stream == kNone || stamp.stream == stream_) return true;
  const auto s = static_cast<size_t>(stamp.stream);
  return s < clock_->size() && stamp.time <= (*clock_)[s];
}

void Order::touch(uint64_t address, uint64_t bytes, bool writes) {
  if (stream_ == kNone || bytes == 0) return;
  const uint64_t end = address + bytes;
  if (address >= latest_begin_ && end <= latest_end_ && (latest_writes_ || !writes)) return;
  for (uint64_t at = address; at < end;) {
    const auto [begin, part_end] = memory_.tensor_at(at);
    if (part_end <= at) break;
    Accesses& part = parts_[begin];
    part.end = part_end;
    touch_part(begin, part, writes);
    latest_begin_ = begin;
    latest_end_ = part_end;
    latest_writes_ = writes;
    at = part_end;
  }
}

void Order::touch_part(uint64_t begin, Accesses& part, bool writes) {
  const auto report = [&](const Stamp& other, const char* did) {
    fault(fmt::format("stream {} {} {}, which stream {} has {} without an order between them", stream_,
                      writes ? "writes" : "reads", memory_.describe(begin), other.stream, did));
  };
  if (!happened(part.write)) report(part.write, "written");
  const uint64_t now = (*clock_)[static_cast<size_t>(stream_)];
  if (!writes) {
    for (Stamp& read : part.reads)
      if (read.stream == stream_) {
        read.time = now;
        return;
      }
    part.reads.push_back({stream_, now});
    return;
  }
  for (const Stamp& read : part.reads)
    if (!happened(read)) report(read, "read");
  part.reads.clear();
  part.write = {stream_, now};
}

void Order::forget(uint64_t address, uint64_t bytes) {
  parts_.erase(parts_.lower_bound(address), parts_.lower_bound(address + bytes));
  latest_end_ = 0;
}

// All lanes at once, and one by one only where that is refused.
void detail::require_scope(uint32_t lanes, const uint64_t (&address)[kLanes], uint64_t bytes, Access access) {
  uint64_t low = address[0], high = address[0];
  for (int l = 1; l < kLanes; ++l) {
    low = std::min(low, address[l]);
    high = std::max(high, address[l]);
  }
  const bool store = access != Access::load;
  if (scope_->allows(low, high - low + bytes, store)) return;
  for (int l = 0; l < kLanes; ++l)
    if (lanes >> l & 1) scope_->require(address[l], bytes, store, l);
}

void detail::note_accesses(uint32_t lanes, const uint64_t (&address)[kLanes], int bytes, Access access) {
  for (int l = 0; l < kLanes; ++l)
    if (lanes >> l & 1) kernel_accesses_->touch(address[l], static_cast<uint64_t>(bytes), access != Access::load);
}

}  // namespace duet::softgpu
