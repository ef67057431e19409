// SPDX-License-Identifier: Apache-2.0
// The happens-before checker of device memory. The analysis and its words (clock, release, acquire, join, happens
// before) are those of FastTrack: Flanagan and Freund, "FastTrack: efficient and precise dynamic race detection", PLDI
// 2009. Start reading at check_access(), which applies all rules to one access of one cell.
//
// Order is kept on two levels. __syncthreads orders all threads of a block, so time is cut into barrier intervals: the
// stretches between two block barriers, numbered through the whole program. Accesses in different intervals of a block
// are ordered, and no clock is needed. Inside an interval each thread has a clock, which advances when the thread takes
// part in a barrier of its warp or in a named barrier. While only whole warps synchronise, the clocks of a warp's lanes
// suffice; from the first barrier of part of a warp, or the first named barrier, each thread of the block has a vector
// clock.
//
// Blocks of a launch are ordered by flags: a thread that fences and then writes a flag releases to it what happened
// before its fence, and one that reads a flag and then fences acquires that. Every atomic or volatile access in global
// memory may be of a flag.
#include "simt/host/checker.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "simt/host/executor.h"
#include "simt/host/memory.h"
#include "simt/host/profile.h"

namespace duet::simt::host {
namespace {

// A read of a cell in the current interval: an element of the list that starts at Cell::readers.
struct Reader {
  uint32_t thread, clock;
  Pc pc;
  int32_t next;
};

using VectorClock = std::vector<uint32_t>;  // (threads of the block)

// A thread's clock counts its barriers in units of kTick, and its fences since the last barrier below that.
constexpr uint32_t kTick = 256;
void tick(uint32_t& clock) { clock = (clock / kTick + 1) * kTick; }
void count_fence(uint32_t& clock) {
  if (clock % kTick < kTick - 1) ++clock;
}

// Before a fence of a thread happens what its block did in earlier intervals, and what the thread did until its clock.
struct Fence {
  uint32_t interval = 0, clock = 0;
  bool vector_clocks = false;  // who else of the block was ordered before it is not known
};
constexpr uint32_t kAnyThread = UINT32_MAX;
// The latest fences of threads of earlier blocks (index in State::blocks, thread).
using Fences = std::map<std::pair<uint32_t, uint32_t>, Fence>;

struct State {
  // Barrier intervals. launch_start: of the part of a launch since the latest barrier of the grid; block_start: of that
  // part of a block; shared_start: of what shared memory holds.
  uint32_t interval = 1, launch_start = 1, block_start = 1, shared_start = 1;
  bool cooperative = false;                           // the launch: each block has shared memory of its own
  const uint32_t* grid_counter = nullptr;             // of the barriers of the grid, from the first one on
  std::vector<std::pair<uint32_t, uint32_t>> blocks;  // of the launch: first interval, linear index
  uint32_t threads = 0;
  std::vector<Reader> readers;  // of this interval; the first is none
  bool clocks_moved = false;    // of some thread, in this interval

  VectorClock clock;  // each thread's own clock
  // (threads, threads): a row is the vector clock of a thread. Empty while only whole warps synchronise.
  std::vector<uint32_t> vector_clocks;
  std::array<VectorClock, kNamedBarriers> barrier_clocks;
  std::vector<Fence> proxy_fences;  // the latest of each thread of this block

  std::unordered_map<const void*, Fences> flags;                // of the launch: what was released to each
  std::map<uint32_t, Fence> fences;                             // of this block: the latest of each thread
  std::vector<std::pair<uint32_t, const void*>> flags_read;     // by a thread, which has not fenced since
  std::vector<std::pair<uint32_t, Fences>> acquired_by_thread;  // in this interval
  Fences acquired;                                              // by the block, in earlier intervals
};
State s;

// Whether what thread `other` did at its `clock` happens before what thread `me` does now, in the same interval.
inline bool happens_before(uint32_t other, uint32_t clock, uint32_t me) {
  if (!s.vector_clocks.empty()) return s.vector_clocks[size_t{me} * s.threads + other] >= clock;
  return me / 32 == other / 32 && clock / kTick < s.clock[me] / kTick;
}

// From here on each thread has a vector clock. Until now whole warps have synchronised: a lane has seen what its warp's
// lanes did before the last barrier of the warp, and nothing of other warps.
void start_vector_clocks() {
  if (!s.vector_clocks.empty()) return;
  s.vector_clocks.assign(size_t{s.threads} * s.threads, 0);
  for (uint32_t t = 0; t < s.threads; ++t)
    for (uint32_t u = t / 32 * 32; u < std::min(s.threads, t / 32 * 32 + 32); ++u)
      s.vector_clocks[size_t{t} * s.threads + u] = s.clock[t] / kTick * kTick - 1;
}

void join(uint32_t* to, const uint32_t* from) {  // the maximum of two vector clocks, element by element
  for (uint32_t t = 0; t < s.threads; ++t) to[t] = std::max(to[t], from[t]);
}

// What `thread` did before is visible to those that acquire `barrier` after it.
void release(uint32_t thread, VectorClock& barrier) {
  uint32_t* mine = &s.vector_clocks[size_t{thread} * s.threads];
  mine[thread] = s.clock[thread];
  tick(s.clock[thread]);
  join(barrier.data(), mine);
}
void acquire(uint32_t thread, const VectorClock& barrier) {
  join(&s.vector_clocks[size_t{thread} * s.threads], barrier.data());
}

uint32_t block_of(uint32_t interval) {  // index in State::blocks
  const auto after = std::upper_bound(s.blocks.begin(), s.blocks.end(), std::make_pair(interval, UINT32_MAX));
  return after == s.blocks.begin() ? 0 : static_cast<uint32_t>(after - s.blocks.begin()) - 1;
}

void join(Fences& to, const Fences& from) {
  for (const auto& [who, fence] : from) {
    Fence& latest = to[who];
    if (std::pair(fence.interval, fence.clock) > std::pair(latest.interval, latest.clock)) latest = fence;
  }
}
// An access of what may be a flag. Atomics read and write it.
void access_flag(const void* flag, Access kind, uint32_t me) {
  if (s.fences.empty() && s.flags.empty()) return;
  if (kind != Access::volatile_store && s.flags.contains(flag)) s.flags_read.emplace_back(me, flag);
  if (kind == Access::volatile_load) return;
  if (kind == Access::volatile_store) s.flags.erase(flag);
  const auto fence = s.fences.find(me);
  if (fence == s.fences.end()) return;
  Fences& released = s.flags[flag];
  join(released, s.acquired);
  for (const auto& [thread, fences] : s.acquired_by_thread)
    if (thread == me) join(released, fences);
  released[{static_cast<uint32_t>(s.blocks.size()) - 1, me}] = fence->second;
}
// Whether an access by an earlier block of this launch happens before what thread `me` does now.
bool acquired(uint32_t interval, uint32_t thread, uint32_t clock, uint32_t me) {
  const uint32_t block = block_of(interval);
  const auto among = [&](const Fences& fences) {
    for (auto f = fences.lower_bound({block, 0}); f != fences.end() && f->first.first == block; ++f) {
      const auto& [who, fence] = *f;
      if (interval < fence.interval) return true;
      if (interval > fence.interval) continue;
      if (thread == kAnyThread || fence.vector_clocks) return true;
      if (thread == who.second ? clock <= fence.clock
                               : thread / 32 == who.second / 32 && clock / kTick < fence.clock / kTick)
        return true;
    }
    return false;
  };
  return among(s.acquired) || std::any_of(s.acquired_by_thread.begin(), s.acquired_by_thread.end(),
                                          [&](const auto& a) { return a.first == me && among(a.second); });
}
bool in_earlier_block(uint32_t interval) { return interval >= s.launch_start && interval < s.block_start; }
// Whether an access was by another block of this launch, and is not ordered before what thread `me` does now.
bool in_unordered_block(uint32_t interval, uint32_t thread, uint32_t clock, uint32_t me) {
  return in_earlier_block(interval) && !acquired(interval, thread, clock, me);
}

[[noreturn]] void report_race(const Region& r, size_t offset, bool write, Pc pc, const char* other_kind,
                              uint32_t other_interval, uint32_t other, Pc other_pc) {
  const bool earlier = in_earlier_block(other_interval);
  stop(fmt::format("{}/{} race on {}: {} at {}, {} by {} at {} {}", write ? "write" : "read", other_kind,
                   r.place(offset), write ? "write" : "read", line(pc), other_kind,
                   earlier ? "block " + std::to_string(s.blocks[block_of(other_interval)].second) : thread_text(other),
                   line(other_pc),
                   earlier ? "in the same launch, with no fences and flag between" : "with no barrier between"));
}

// Constants, tables and string literals lie in the program's own images.
bool in_program_image(uintptr_t address) {
  static const auto images = [] {
    std::vector<std::pair<uintptr_t, uintptr_t>> found;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* out) {
          for (int i = 0; i < object->dlpi_phnum; ++i)
            if (const auto& h = object->dlpi_phdr[i]; h.p_type == PT_LOAD)
              static_cast<decltype(found)*>(out)->emplace_back(object->dlpi_addr + h.p_vaddr,
                                                               object->dlpi_addr + h.p_vaddr + h.p_memsz);
          return 0;
        },
        &found);
    return found;
  }();
  return std::any_of(images.begin(), images.end(),
                     [&](const auto& i) { return address >= i.first && address < i.second; });
}
// Keeps up to three readers of a cell that are not ordered among themselves: two of any warp, and one of another warp
// than theirs. A reader that happens before this one is replaced: what is ordered after this read is ordered after that
// one too. While whole warps synchronise, three are enough to find every race with a later write: if a reader exists
// that is not the writing thread, one is kept, and so is one of another warp than the writer's. Once parts of warps
// synchronise, a race with a reader that was not kept goes unreported.
void record_reader(Cell& c, uint32_t me, Pc pc) {
  int kept = 0;
  bool other_warp = false;
  Reader* replaced = nullptr;  // the thread's own entry, else one that happens before this read
  for (int32_t i = c.readers; i > 0; ++kept) {
    Reader& reader = s.readers[static_cast<size_t>(i)];
    if (reader.thread == me || (!replaced && happens_before(reader.thread, reader.clock, me))) replaced = &reader;
    other_warp = other_warp || reader.thread / 32 != me / 32;
    i = reader.next;
  }
  if (replaced) {
    replaced->thread = me;
    replaced->clock = s.clock[me];
    replaced->pc = pc;
    return;
  }
  const bool of_two_warps = kept > 2 || other_warp;
  c.complete_for = kept < 2 ? 0 : of_two_warps ? Cell::kAll : static_cast<uint16_t>(me / 32 + 1);
  if (kept > 2 || (kept == 2 && !other_warp)) return;
  s.readers.push_back({me, s.clock[me], pc, c.readers});
  c.readers = static_cast<int32_t>(s.readers.size()) - 1;
}

// Applies every rule to one access of one cell by thread `me`, then records the access in the cell.
void check_access(Region& r, size_t cell, Access kind, Pc pc, uint32_t me) {
  Cell& c = r.cells[cell];
  // One more read of many in an interval, whose first one has passed all rules, and which changes nothing.
  if (kind == Access::load && c.read_interval == s.interval && !s.clocks_moved &&
      (c.complete_for == Cell::kAll || c.complete_for == me / 32 + 1) && c.write_interval != s.interval &&
      !in_earlier_block(c.write_interval)) {
    c.read_pc = pc;
    return;
  }
  const bool write = writes(kind), flag = may_be_flag(kind);
  const size_t offset = cell << r.shift;
  // Shared memory starts anew with each block, although the next block has it at the same address.
  const auto in_scope = [&](uint32_t interval) { return interval >= (r.shared ? s.shared_start : s.launch_start); };

  // Targets of asynchronous copies.
  if (c.in_flight && in_scope(c.write_interval))
    stop(fmt::format("{} of {} at {} while the asynchronous copy issued at {} is under way", write ? "write" : "read",
                     r.place(offset), line(pc), line(c.write_pc)));

  // Reads of what was never written. Where blocks are left out, what they would have written is not known.
  const bool known = r.shared || settings.blocks == 0;
  if (reads(kind) && known && !(r.shared ? in_scope(c.write_interval) : c.written || r.all_written))
    stop(fmt::format("read of {} at {}, which has not been written before", r.place(offset), line(pc)));

  // Races with the last write.
  if (in_scope(c.write_interval) && !(flag && c.flag_write)) {
    const bool same_interval =
        c.write_interval == s.interval && c.writer != me && !happens_before(c.writer, c.write_clock, me);
    if (same_interval || in_unordered_block(c.write_interval, c.writer, c.write_clock, me))
      report_race(r, offset, write, pc, "write", c.write_interval, c.writer, c.write_pc);
  }

  if (kind == Access::load) {
    // Record the read.
    if (c.read_interval != s.interval) {
      if (in_scope(c.read_interval) && in_earlier_block(c.read_interval)) {
        c.earlier_read_interval = c.read_interval;
        c.earlier_read_pc = c.read_pc;
      }
      c.read_interval = s.interval;
      c.readers = 0;
      c.complete_for = 0;
    }
    c.read_pc = pc;
    record_reader(c, me, pc);
  } else if (write) {
    // Races with reads, then record the write.
    if (in_scope(c.read_interval) && in_unordered_block(c.read_interval, kAnyThread, 0, me))
      report_race(r, offset, true, pc, "read", c.read_interval, 0, c.read_pc);
    if (c.read_interval == s.interval)
      for (int32_t i = c.readers; i > 0; i = s.readers[static_cast<size_t>(i)].next) {
        const Reader& reader = s.readers[static_cast<size_t>(i)];
        if (reader.thread != me && !happens_before(reader.thread, reader.clock, me))
          report_race(r, offset, true, pc, "read", c.read_interval, reader.thread, reader.pc);
      }
    if (in_scope(c.earlier_read_interval) && in_unordered_block(c.earlier_read_interval, kAnyThread, 0, me))
      report_race(r, offset, true, pc, "read", c.earlier_read_interval, 0, c.earlier_read_pc);
    c.write_interval = s.interval;
    c.write_clock = s.clock[me];
    c.write_pc = pc;
    c.writer = static_cast<uint16_t>(me);
    c.flag_write = flag;
    c.written = true;
    c.in_flight = false;
  }
}

[[noreturn, gnu::noinline]] void report_out_of_bounds(const Region* r, const void* address, size_t bytes, bool write,
                                                      Pc pc) {
  const char* verb = write ? "write" : "read";
  if (!r) stop(fmt::format("out of bounds: {} of {} bytes at {}, in no allocation", verb, bytes, line(pc)));
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - r->base);
  stop(fmt::format("out of bounds: {} of {} bytes at {}, of {} which has {} elements", verb, bytes, line(pc),
                   r->place(offset), (r->end - r->first) / r->element));
}
// The region that the whole access lies in. Stops with a report where there is none.
inline Region& region_or_stop(const void* address, size_t bytes, bool write, Pc pc) {
  Region* r = device_memory().find(address);
  const size_t offset = r ? static_cast<size_t>(static_cast<const char*>(address) - r->base) : 0;
  if (!r || offset < r->first || offset + bytes > r->end) report_out_of_bounds(r, address, bytes, write, pc);
  return *r;
}

template <class F>
void for_each_cell(Region& r, const void* address, size_t bytes, F&& f) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - r.base);
  r.touched = true;
  r.fit(offset | bytes);
  for (size_t i = offset >> r.shift; i <= (offset + bytes - 1) >> r.shift; ++i) f(i);
}

}  // namespace

void Checker::begin_launch(bool cooperative) {
  grid_barrier();
  s.cooperative = cooperative;
  s.grid_counter = nullptr;
  s.shared_start = s.interval;
}
void Checker::grid_barrier() {
  s.launch_start = s.block_start = ++s.interval;
  s.blocks.clear();
  s.flags.clear();
  s.readers.resize(1);
}
void Checker::count_block(uint32_t* counter, Pc pc) {
  s.grid_counter = nullptr;
  access(counter, sizeof *counter, Access::atomic, pc, true);
  s.grid_counter = counter;
}
void Checker::begin_block(uint32_t threads, uint32_t block) {
  s.block_start = ++s.interval;
  if (!s.cooperative) s.shared_start = s.interval;
  s.blocks.emplace_back(s.interval, block);
  s.threads = threads;
  s.clock.assign(threads, kTick);
  s.vector_clocks.clear();
  s.clocks_moved = false;
  s.proxy_fences.assign(threads, {});
  s.readers.resize(1);
  for (VectorClock& barrier : s.barrier_clocks) barrier.clear();
  s.fences.clear();
  s.flags_read.clear();
  s.acquired_by_thread.clear();
  s.acquired.clear();
}
void Checker::block_barrier() {
  ++s.interval;
  for (uint32_t& clock : s.clock) clock -= clock % kTick;  // fences are counted anew in each interval
  s.readers.resize(1);
  s.clocks_moved = !s.vector_clocks.empty();
  for (const auto& [thread, fences] : s.acquired_by_thread) join(s.acquired, fences);
  s.acquired_by_thread.clear();
}

void Checker::warp_barrier(uint32_t warp, uint32_t mask, uint32_t all) {
  s.clocks_moved = true;
  if (s.vector_clocks.empty() && mask == all) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1) tick(s.clock[warp * 32 + lane]);
    return;
  }
  start_vector_clocks();
  VectorClock barrier(s.threads, 0);
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) release(warp * 32 + lane, barrier);
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) acquire(warp * 32 + lane, barrier);
}

void Checker::release_barrier(int barrier, uint32_t thread) {
  s.clocks_moved = true;
  start_vector_clocks();
  VectorClock& clock = s.barrier_clocks[static_cast<size_t>(barrier)];
  clock.resize(s.threads, 0);
  release(thread, clock);
}
void Checker::acquire_barrier(int barrier, uint32_t thread) {
  acquire(thread, s.barrier_clocks[static_cast<size_t>(barrier)]);
}
void Checker::reset_barrier(int barrier) { s.barrier_clocks[static_cast<size_t>(barrier)].clear(); }

void Checker::fence() {
  const uint32_t me = current_thread;
  std::erase_if(s.flags_read, [&](const auto& read) {
    if (read.first != me) return false;
    s.acquired_by_thread.emplace_back(me, s.flags[read.second]);
    return true;
  });
  s.fences[me] = {s.interval, s.clock[me], !s.vector_clocks.empty()};
  count_fence(s.clock[me]);
  s.clocks_moved = true;
}
void Checker::proxy_fence() {
  const uint32_t me = current_thread;
  s.proxy_fences[me] = {s.interval, s.clock[me]};
  count_fence(s.clock[me]);
  s.clocks_moved = true;
}

void Checker::access(const void* address, size_t bytes, Access kind, Pc pc, bool aligned) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const char* verb = writes(kind) ? "write" : "read";
  if (!device_memory().holds(address)) {
    if (on_fiber_stack(address) || is_argument(address) || in_program_image(at)) return;
    stop(at < 4096 ? fmt::format("{} through a null pointer at {}", verb, line(pc))
                   : fmt::format("{} of host memory, which is not a device buffer, at {}", verb, line(pc)));
  }
  Region& r = region_or_stop(address, bytes, writes(kind), pc);
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - r.base);
  if (aligned && (at & (bytes - 1)) != 0)  // what has an alignment has a power of two of bytes
    stop(fmt::format("misaligned {}-byte {} of {} at {}", bytes, verb, r.place(offset), line(pc)));
  const uint32_t me = current_thread;
  const Access plain = kind == Access::atomic ? kind : writes(kind) ? Access::store : Access::load;
  if (r.constant && writes(kind))
    stop(fmt::format("write of {} at {}, which is in constant memory", r.place(offset), line(pc)));
  if (r.read_only && writes(kind)) stop(fmt::format("write of {} at {}, which is an input", r.place(offset), line(pc)));
  if (s.grid_counter && writes(kind) && at < reinterpret_cast<uintptr_t>(s.grid_counter + 1) &&
      at + bytes > reinterpret_cast<uintptr_t>(s.grid_counter))
    stop(fmt::format("write of {} at {}, the counter of the barrier of the grid, at which blocks may still wait",
                     r.place(offset), line(pc)));
  if (profile && !r.constant)  // constant memory has a cache of its own
    profile->access(me, pc, r.shared ? offset : device_memory().offset(address), static_cast<uint32_t>(bytes), r.shared,
                    plain);
  if (r.shared) kind = plain;
  for_each_cell(r, address, bytes, [&](size_t cell) { check_access(r, cell, kind, pc, me); });
  if (may_be_flag(kind) && !r.shared) access_flag(address, kind, me);
}

void Checker::read_by_proxy(const void* address, size_t bytes, Pc pc) {
  access(address, bytes, Access::load, pc, true);
  Region& r = region_or_stop(address, bytes, false, pc);
  for_each_cell(r, address, bytes, [&](size_t cell) {
    const Cell& c = r.cells[cell];
    const Fence& fence = s.proxy_fences[c.writer];
    if (c.write_interval >= s.block_start &&
        std::pair(c.write_interval, c.write_clock) > std::pair(fence.interval, fence.clock))
      stop(fmt::format("read of {} at {}, written at {} by {}, which has executed no fence_async_proxy since",
                       r.place(cell << r.shift), line(pc), line(c.write_pc), thread_text(c.writer)));
  });
}

void Checker::read_only(const void* address, size_t bytes, const char* what, Pc pc) {
  if (!device_memory().holds(address)) return;  // the access itself is reported
  Region& r = region_or_stop(address, bytes, false, pc);
  const uint32_t first = s.cooperative ? s.shared_start : s.launch_start;  // interval of the launch
  for_each_cell(r, address, bytes, [&](size_t cell) {
    if (const Cell& c = r.cells[cell]; c.write_interval >= first)
      stop(fmt::format("{} of {} at {}, which this launch has written at {}", what, r.place(cell << r.shift), line(pc),
                       line(c.write_pc)));
  });
}

void Checker::in_flight(void* target, size_t bytes, Pc pc) {
  Region& r = region_or_stop(target, bytes, true, pc);
  for_each_cell(r, target, bytes, [&](size_t cell) {
    check_access(r, cell, Access::store, pc, current_thread);
    r.cells[cell].in_flight = true;
  });
}

void Checker::landed(void* target, size_t bytes, Pc pc) {
  Region& r = region_or_stop(target, bytes, true, pc);
  for_each_cell(r, target, bytes, [&](size_t cell) { r.cells[cell].in_flight = false; });
  access(target, bytes, Access::store, pc);
}

}  // namespace duet::simt::host
