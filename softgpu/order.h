// SPDX-License-Identifier: Apache-2.0
// Which work of streams happens before which other, and whether two streams touch a tensor without an order between
// them. Each stream and the host has a vector clock; an access is stamped with its stream and that stream's time
// (Flanagan and Freund, FastTrack, PLDI 2009). A tensor is a declared part of an allocation, or an allocation without
// parts: two streams that write different halves of one tensor are reported too.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "softgpu/memory.h"
#include "softgpu/warp.h"

namespace duet::softgpu {

using Clock = std::vector<uint64_t>;  // by the number of the stream; what is not there is 0
void join(Clock& clock, const Clock& other);

class Order {
 public:
  explicit Order(const DeviceMemory& memory) : memory_(memory) {}

  int new_stream() { return next_++; }
  Clock host;  // what the host has waited for

  // While it lives, work of a stream runs. `clock` is the stream's, `enqueued` the host's when the work was enqueued.
  class Running {
   public:
    Running(Order& order, int stream, Clock& clock, const Clock& enqueued);
    ~Running();
    Running(const Running&) = delete;

   private:
    Order& order_;
    int stream_before_;
    Clock* clock_before_;
  };

  // The running work touches [address, address + bytes). Throws Fault where another stream does so without an order.
  void touch(uint64_t address, uint64_t bytes, bool writes);
  void forget(uint64_t address, uint64_t bytes);  // memory that is released

 private:
  struct Stamp {
    int stream = kNone;
    uint64_t time = 0;
  };
  struct Accesses {
    uint64_t end = 0;
    Stamp write;
    std::vector<Stamp> reads;  // one for each stream
  };
  void touch_part(uint64_t begin, Accesses& part, bool writes);
  bool happened(const Stamp& stamp) const;

  const DeviceMemory& memory_;
  int next_ = 0, stream_ = kNone;
  Clock* clock_ = nullptr;
  std::map<uint64_t, Accesses> parts_;
  uint64_t latest_begin_ = 0, latest_end_ = 0;  // the part touched last
  bool latest_writes_ = false;
};

// Of a warp's access, while several streams exist; null otherwise. access.h calls it.
extern Order* kernel_accesses_;

}  // namespace duet::softgpu
