// SPDX-License-Identifier: Apache-2.0
#include "simt/host/checker.h"

#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "simt/host/executor.h"
#include "simt/host/memory.h"
#include "simt/host/profile.h"

namespace duet::simt::host {
namespace {

struct Reader {
  uint32_t thread, clock;
  Pc pc;
  int32_t next;
};
constexpr int kNamed = 16;

struct State {
  uint32_t epoch = 1, launch_epoch = 1, block_epoch = 1;
  std::vector<std::pair<uint32_t, uint32_t>> blocks;  // of the launch: first epoch, index
  std::vector<bool> fenced;                           // by index of block
  uint32_t block = 0, threads = 0;
  std::vector<Reader> readers;  // of this epoch

  // Order inside an epoch. Each thread has a clock, which a barrier of its warp advances. As long as only whole warps met,
  // what a lane did before the other's clock is known to it; once parts of warps or named barriers meet, each thread keeps
  // what it knows of every other one (vector clocks).
  std::vector<uint32_t> clock;
  std::vector<uint32_t> knows;  // (threads, threads); empty while whole warps meet
  std::array<std::vector<uint32_t>, kNamed> gathered;
};
State s;

bool knows(uint32_t me, uint32_t other, uint32_t clock) {
  if (!s.knows.empty()) return s.knows[size_t{me} * s.threads + other] >= clock;
  return me / 32 == other / 32 && clock < s.clock[me];
}

void keep_vector_clocks() {
  if (!s.knows.empty()) return;
  s.knows.assign(size_t{s.threads} * s.threads, 0);
  for (uint32_t t = 0; t < s.threads; ++t)
    for (uint32_t u = t / 32 * 32; u < std::min(s.threads, t / 32 * 32 + 32); ++u)
      s.knows[size_t{t} * s.threads + u] = s.clock[t] - 1;
}
void gather(std::vector<uint32_t>& into, uint32_t thread) {
  uint32_t* mine = &s.knows[size_t{thread} * s.threads];
  mine[thread] = s.clock[thread];
  for (uint32_t u = 0; u < s.threads; ++u) into[u] = std::max(into[u], mine[u]);
}
void learn(uint32_t thread, const std::vector<uint32_t>& from) {
  uint32_t* mine = &s.knows[size_t{thread} * s.threads];
  for (uint32_t u = 0; u < s.threads; ++u) mine[u] = std::max(mine[u], from[u]);
}

uint32_t block_of(uint32_t epoch) {
  const auto after = std::upper_bound(s.blocks.begin(), s.blocks.end(), std::make_pair(epoch, UINT32_MAX));
  return after == s.blocks.begin() ? 0 : std::prev(after)->second;
}
bool fenced(uint32_t block) { return block < s.fenced.size() && s.fenced[block]; }
bool of_earlier_block(uint32_t epoch) { return epoch >= s.launch_epoch && epoch < s.block_epoch; }
bool unordered_blocks(uint32_t epoch) {
  return of_earlier_block(epoch) && !(fenced(block_of(epoch)) && fenced(s.block));
}

[[noreturn]] void report_race(const Region& r, size_t offset, bool write, Pc pc, const char* other_kind,
                              uint32_t other_epoch, uint32_t other, Pc other_pc) {
  const bool earlier = of_earlier_block(other_epoch);
  stop(fmt::format("{}/{} race on {}: {} at {}, {} by {} at {} {}", write ? "write" : "read", other_kind,
                   r.place(offset), write ? "write" : "read", line(pc), other_kind,
                   earlier ? "block " + std::to_string(block_of(other_epoch)) : thread_text(other), line(other_pc),
                   earlier ? "in the same launch" : "with no barrier between"));
}

// Constants, tables, string literals: the program's own images.
bool in_an_image(uintptr_t address) {
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
bool on_launching_stack(uintptr_t address) {  // a launch's arguments
  static thread_local const auto bounds = [] {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    void* low = nullptr;
    size_t size = 0;
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    return std::make_pair(reinterpret_cast<uintptr_t>(low), reinterpret_cast<uintptr_t>(low) + size);
  }();
  return address >= bounds.first && address < bounds.second;
}

// Two readers of any warp and one of another: whoever writes, one of them is another thread, and another warp's if there
// is one. All that were kept are needed only where parts of a warp meet.
void remember_reader(Cell& c, uint32_t me, Pc pc) {
  int kept = 0;
  bool other_warp = false;
  for (int32_t i = c.readers; i >= 0; ++kept) {
    Reader& reader = s.readers[static_cast<size_t>(i)];
    if (reader.thread == me) {  // who knows the later read knows the earlier one
      reader.clock = s.clock[me];
      reader.pc = pc;
      return;
    }
    other_warp = other_warp || reader.thread / 32 != me / 32;
    i = reader.next;
  }
  if (kept >= 3 || (kept == 2 && !other_warp)) return;
  s.readers.push_back({me, s.clock[me], pc, c.readers});
  c.readers = static_cast<int32_t>(s.readers.size()) - 1;
}

void judge(Region& r, size_t cell, Access kind, Pc pc, uint32_t me) {
  Cell& c = r.cells[cell];
  const bool write = kind != Access::load, atomic = kind == Access::atomic;
  const size_t offset = cell << r.shift;
  // Another block's shared memory is another memory, at the same address.
  const auto counts = [&](uint32_t epoch) { return epoch >= (r.shared ? s.block_epoch : s.launch_epoch); };

  if (c.in_flight && counts(c.write_epoch))
    stop(fmt::format("{} of {} at {} while the asynchronous copy issued at {} is under way", write ? "write" : "read",
                     r.place(offset), line(pc), line(c.write_pc)));
  if (kind != Access::store) {
    if (!(r.shared ? counts(c.write_epoch) : c.written))
      stop(fmt::format("read of {} at {}, which nobody has written before", r.place(offset), line(pc)));
  }
  if (counts(c.write_epoch) && !(atomic && c.atomic_write)) {
    const bool same_epoch = c.write_epoch == s.epoch && c.writer != me && !knows(me, c.writer, c.write_clock);
    if (same_epoch || unordered_blocks(c.write_epoch))
      report_race(r, offset, write, pc, "write", c.write_epoch, c.writer, c.write_pc);
  }
  if (kind == Access::load) {
    if (c.read_epoch != s.epoch) {
      if (counts(c.read_epoch) && of_earlier_block(c.read_epoch)) {
        c.earlier_read_epoch = c.read_epoch;
        c.earlier_read_pc = c.read_pc;
      }
      c.read_epoch = s.epoch;
      c.readers = -1;
    }
    c.read_pc = pc;
    remember_reader(c, me, pc);
  } else {
    if (counts(c.read_epoch) && unordered_blocks(c.read_epoch))
      report_race(r, offset, true, pc, "read", c.read_epoch, 0, c.read_pc);
    if (c.read_epoch == s.epoch)
      for (int32_t i = c.readers; i >= 0; i = s.readers[static_cast<size_t>(i)].next) {
        const Reader& reader = s.readers[static_cast<size_t>(i)];
        if (reader.thread != me && !knows(me, reader.thread, reader.clock))
          report_race(r, offset, true, pc, "read", c.read_epoch, reader.thread, reader.pc);
      }
    if (counts(c.earlier_read_epoch) && unordered_blocks(c.earlier_read_epoch))
      report_race(r, offset, true, pc, "read", c.earlier_read_epoch, 0, c.earlier_read_pc);
    c.write_epoch = s.epoch;
    c.write_clock = s.clock[me];
    c.write_pc = pc;
    c.writer = static_cast<uint16_t>(me);
    c.atomic_write = atomic;
    c.written = true;
    c.in_flight = false;
  }
}

// The region that holds all of it, or a report.
Region& must_hold(const void* address, size_t bytes, bool write, Pc pc) {
  Region* r = device_memory().find(address);
  const char* verb = write ? "write" : "read";
  if (!r) stop(fmt::format("out of bounds: {} of {} bytes at {}, in no allocation", verb, bytes, line(pc)));
  const auto offset = static_cast<const char*>(address) - r->base;
  if (offset < static_cast<int64_t>(r->first) || offset + static_cast<int64_t>(bytes) > static_cast<int64_t>(r->end))
    stop(fmt::format("out of bounds: {} of {} bytes at {}, of {} which has {} elements", verb, bytes, line(pc),
                     r->place(static_cast<size_t>(offset)), (r->end - r->first) / r->element));
  return *r;
}

template <class F>
void for_cells(Region& r, const void* address, size_t bytes, F&& f) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - r.base);
  r.fit(offset | bytes);
  for (size_t i = offset >> r.shift; i <= (offset + bytes - 1) >> r.shift; ++i) f(i);
}

}  // namespace

void Checker::begin_launch() {
  s.launch_epoch = s.block_epoch = ++s.epoch;
  s.blocks.clear();
  s.fenced.clear();
  s.readers.clear();
}
void Checker::begin_block(uint32_t threads, uint32_t block) {
  s.block_epoch = ++s.epoch;
  s.blocks.emplace_back(s.epoch, block);
  s.block = block;
  s.threads = threads;
  s.clock.assign(threads, 1);
  s.knows.clear();
  s.readers.clear();
  for (auto& g : s.gathered) g.clear();
}
void Checker::block_barrier() {
  ++s.epoch;
  s.readers.clear();
}

void Checker::warp_barrier(uint32_t warp, uint32_t mask, uint32_t all) {
  if (s.knows.empty() && mask == all) {
    for (uint32_t lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1) ++s.clock[warp * 32 + lane];
    return;
  }
  keep_vector_clocks();
  std::vector<uint32_t> met(s.threads, 0);
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) gather(met, warp * 32 + lane);
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) {
      learn(warp * 32 + lane, met);
      ++s.clock[warp * 32 + lane];
    }
}

void Checker::arrive(int barrier, uint32_t thread) {
  keep_vector_clocks();
  auto& met = s.gathered[static_cast<size_t>(barrier)];
  met.resize(s.threads, 0);
  gather(met, thread);
  ++s.clock[thread];
}
void Checker::depart(int barrier, uint32_t thread) { learn(thread, s.gathered[static_cast<size_t>(barrier)]); }
void Checker::reset(int barrier) { s.gathered[static_cast<size_t>(barrier)].clear(); }

void Checker::fence() {
  if (s.fenced.size() <= s.block) s.fenced.resize(s.block + 1);
  s.fenced[s.block] = true;
}

void Checker::access(const void* address, size_t bytes, Access kind, Pc pc, bool aligned) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const char* verb = kind == Access::load ? "read" : "write";
  if (!device_memory().holds(address)) {
    if (on_fiber_stack(address) || on_launching_stack(at) || in_an_image(at)) return;
    stop(at < 4096 ? fmt::format("{} through a null pointer at {}", verb, line(pc))
                   : fmt::format("{} of host memory, which is no device buffer, at {}", verb, line(pc)));
  }
  Region& r = must_hold(address, bytes, kind != Access::load, pc);
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - r.base);
  if (aligned && at % bytes != 0)
    stop(fmt::format("misaligned {}-byte {} of {} at {}", bytes, verb, r.place(offset), line(pc)));
  const uint32_t me = current_thread;
  if (profile)
    profile->access(me, pc, r.shared ? offset : device_memory().offset(address), static_cast<uint32_t>(bytes), r.shared,
                    kind);
  for_cells(r, address, bytes, [&](size_t cell) { judge(r, cell, kind, pc, me); });
}

void Checker::in_flight(void* target, size_t bytes, Pc pc) {
  Region& r = must_hold(target, bytes, true, pc);
  for_cells(r, target, bytes, [&](size_t cell) {
    judge(r, cell, Access::store, pc, current_thread);
    r.cells[cell].in_flight = true;
  });
}

void Checker::landed(void* target, size_t bytes, Pc pc) {
  Region& r = must_hold(target, bytes, true, pc);
  for_cells(r, target, bytes, [&](size_t cell) { r.cells[cell].in_flight = false; });
  access(target, bytes, Access::store, pc);
}

}  // namespace duet::simt::host
