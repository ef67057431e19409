// SPDX-License-Identifier: Apache-2.0
// The scheduler of kernels on the host: threads as fibers, barriers, warp instructions, shared memory, asynchronous
// copies. Start reading at Executor::run (a launch), then begin_block, entry (the loop that every fiber runs) and
// switch_away (how a thread waits).
#include "simt/host/executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "simt/host/checker.h"
#include "simt/host/context.h"
#include "simt/host/cooperative.h"
#include "simt/host/fiber.h"
#include "simt/host/memory.h"
#include "simt/host/profile.h"

namespace duet::simt::host {

constinit Coordinates here{};
constinit bool running = false;
constinit int64_t steps_left = INT64_MAX;
constinit uint32_t current_thread = 0;
constinit uintptr_t stacks_begin = 0, stacks_bytes = 0;
constinit uintptr_t arguments_begin = 0, arguments_bytes = 0;
constinit Profile* profile = nullptr;
constinit Mutation* mutation = nullptr;
Settings settings;

namespace {

constexpr size_t kStackBytes = size_t{256} << 10, kStackReserve = 16 << 10, kPage = 4096;
constexpr size_t kStackShift = 320;
constexpr int64_t kStepsPerTurn = int64_t{1} << 28;  // basic blocks; far more than a kernel runs between two barriers
constexpr int64_t kMaxStaticSharedBytes = 48 * 1024;
int multiprocessors_together = 0;  // of cooperative launches; 0: launches are usual ones
constexpr size_t kMaxStacks = kMaxThreadsTogether;

enum class State : uint8_t { running, ready, at_barrier, in_warp_instruction, at_named, polling, done };

struct AsyncCopy {
  void* to;
  const void* from;
  int bytes, exist;
  uint32_t group;
  const void* pc;
};

struct Thread {
  uint32_t id = 0;
  uint3 index{};  // threadIdx
  State state = State::ready;
  Fiber* fiber = nullptr;
  Where at{};                     // the call in which it waits
  WarpInstruction instruction{};  // while in_warp_instruction
  uint32_t mask = 0;              // while in_warp_instruction
  uint64_t seen_events = 0;       // value of events_ when it last polled
  std::vector<AsyncCopy> copies;  // issued, and not waited for yet
  uint32_t groups = 0;            // of copies, committed
};

struct Warp {
  uint32_t lanes = 0, live = 0;
  std::vector<Lanes> open;  // instructions at which some lanes of the mask have arrived, and some have not
};

struct NamedBarrier {
  int arrived = 0;
  std::vector<Thread*> waiting;
};

struct SharedArray {
  const void* key;
  Region* region;
};

const char* name_of(WarpInstruction instruction) {
  constexpr const char* names[] = {"__syncwarp", "a shuffle", "a vote", "a match", "a reduction", "mma", "ldmatrix"};
  return names[static_cast<int>(instruction)];
}
std::string text(Where at) { return fmt::format("{}:{}", at.file_name(), at.line()); }
bool same(Where a, Where b) {
  return a.line() == b.line() && (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

struct Block {
  uint32_t linear = 0;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<uint32_t> order;  // in which threads start, where it is shuffled
  std::deque<Thread*> ready;
  uint32_t live = 0, started = 0;
  std::vector<Thread*> at_barrier;
  bool for_grid = false;  // they wait for the grid
  std::vector<int*> votes_out;
  int votes = 0;
  NamedBarrier named[kNamedBarriers];
  uint64_t idle_polls = 0;  // polls since the last event
  std::mt19937_64 random;
  std::vector<SharedArray> shared;
  Region* dynamic = nullptr;  // shared memory
};

// A fiber is a loop over threads: it takes the next thread of the block that has not started, runs it to its end, and
// takes the next one. A thread that waits keeps its fiber, and another fiber continues. A kernel without barriers is
// therefore a plain loop on one stack.
class Executor {
 public:
  void run(const void* kernel, void (*call)(const void*), const void* arguments, size_t argument_bytes,
           const Grid& grid);

  [[noreturn]] void stop(const std::string& report);
  void block_barrier(bool vote, int* votes, Where at, bool of_grid = false);
  void grid_barrier(uint32_t* arrived, uint32_t number, const void* pc, Where at);
  void named_barrier(int id, int threads, bool wait, Where at);
  void warp_collective(uint32_t mask, WarpInstruction instruction, const void* in, void* out,
                       void (*finish)(const Lanes&), Where at);
  void pause(Where at);
  void* static_shared(const void* key, const char* name, size_t bytes, size_t element);
  void* dynamic_shared(size_t element);
  void require_space(const void* address, bool shared, const char* what, const void* pc);
  void copy_async(const AsyncCopy& copy);
  void commit() { ++current_->groups; }
  void wait(int groups_left);

  void check_stack(const void* frame, const void* pc);
  std::string thread_text(uint32_t id) const;
  bool is_omitted(const char* what, Where at);
  std::string where_now() const { return thread_text(current_->id) + " of " + block_text(block_->linear); }

 private:
  std::string block_text(uint32_t linear) const {
    const auto& size = here.grid_size;
    return fmt::format("block ({},{},{})", linear % size.x, linear / size.x % size.y, linear / (size.x * size.y));
  }
  std::string name_of_kernel() const { return resolve_lines ? function_at(kernel_) : "kernel"; }
  static void entry();
  Fiber* take_fiber();
  void drop_fibers();
  void resume(Thread* t);
  Thread* start_next();
  Thread* next();
  void make_ready(std::span<Thread*> waiting);
  void switch_away();
  void finish_thread();
  void open_block_barrier();
  [[noreturn]] void deadlock();
  void begin_block(Block& block, uint32_t linear);
  void run_block(Block& block);
  void run_together(std::vector<Block>& blocks);
  static void free_shared(Block& block);
  static std::vector<uint32_t> block_order(const Extent& grid, uint64_t chosen);

  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;

  // the launch
  const void* kernel_ = nullptr;
  void (*call_)(const void*) = nullptr;
  const void* arguments_ = nullptr;
  int64_t dynamic_bytes_ = 0;
  uint32_t count_ = 0;  // threads of a block
  bool cooperative_ = false;
  uint32_t grid_barriers_ = 0;         // that all blocks have reached
  uint32_t* grid_counter_ = nullptr;   // once a block has reached the first one
  std::set<const void*> shared_keys_;  // of static shared arrays
  std::string report_;

  Block usual_;             // of launches that are not cooperative: one block after another
  Block* block_ = &usual_;  // that runs
  Thread* current_ = nullptr;
  uint64_t events_ = 0;  // counts what could make a polled condition true
};
Executor executor;

// --- fibers ---------------------------------------------------------------------------------------------------------

Fiber* Executor::take_fiber() {
  if (!idle_.empty()) {
    Fiber* f = idle_.back();
    idle_.pop_back();
    return f;
  }
  const size_t each = kStackBytes + kPage;
  if (stacks_begin == 0) {
    void* p = mmap(nullptr, (kMaxStacks + 2) * each, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw Error("simt: no address space for the threads' stacks");
    stacks_begin = reinterpret_cast<uintptr_t>(p);
    stacks_bytes = (kMaxStacks + 2) * each;
  }
  auto fiber = std::make_unique<Fiber>();
  char* low = reinterpret_cast<char*>(stacks_begin) + fibers_.size() * each;
  mprotect(low, kPage, PROT_NONE);  // below the stack
  fiber->base = low + kPage;
  // Stacks that end at the same place in their pages would share a few sets of the first-level cache.
  fiber->size = kStackBytes - fibers_.size() * kStackShift % kPage;
  prepare(*fiber, &Executor::entry);
  fibers_.push_back(std::move(fiber));
  return fibers_.back().get();
}

void Executor::drop_fibers() {  // after a report: their frames are never returned to
  fibers_.clear();
  idle_.clear();
}

// `frame`: how far down the stack has grown. The report itself needs kStackReserve.
void Executor::check_stack(const void* frame, const void* pc) {
  const Fiber& f = *current_->fiber;
  const char* at = static_cast<const char*>(frame);
  if (at >= f.base && at < f.base + f.size && at < f.base + kStackReserve)
    stop(fmt::format("stack overrun: the thread's calls and arrays take more than {} KiB at {}: recursion?",
                     (kStackBytes - kStackReserve) >> 10, line(pc_of(pc))));
}

__attribute__((noinline)) void Executor::entry() {
  Executor& e = executor;
  for (;;) {
    running = true;
    e.call_(e.arguments_);
    running = false;
    Fiber* mine = e.current_->fiber;
    e.finish_thread();
    Thread* after = e.next();
    if (after && !after->fiber) {  // not started: this fiber runs it, without a switch
      after->fiber = mine;
      e.resume(after);
      continue;
    }
    e.idle_.push_back(mine);
    if (after) {
      e.resume(after);
      switch_fiber(*mine, *after->fiber);
    } else {
      if (e.block_->live > 0) e.deadlock();
      switch_fiber(*mine, e.main_);
    }
    // Reached when take_fiber() gave this fiber to a thread that starts: current_.
  }
}

void Executor::resume(Thread* t) {
  current_ = t;
  current_thread = t->id;
  t->state = State::running;
  here.thread = t->index;
  steps_left = kStepsPerTurn;
  running = true;
}

Thread* Executor::start_next() {
  const uint32_t k = block_->started++;
  const uint32_t id = settings.order == Order::forward   ? k
                      : settings.order == Order::reverse ? count_ - 1 - k
                                                         : block_->order[k];
  Thread& t = block_->threads[id];
  const auto& size = here.block_size;
  t.id = id;
  t.index = {id % size.x, id / size.x % size.y, id / (size.x * size.y)};
  t.fiber = nullptr;
  t.seen_events = 0;
  t.groups = 0;
  t.at = {};
  t.copies.clear();
  return &t;
}

Thread* Executor::next() {
  if (settings.order == Order::shuffled) {
    const size_t choices = block_->ready.size() + (count_ - block_->started);
    if (choices == 0) return nullptr;
    const size_t i = block_->random() % choices;
    if (i >= block_->ready.size()) return start_next();
    std::swap(block_->ready[i], block_->ready.front());
  } else if (block_->ready.empty()) {
    return block_->started < count_ ? start_next() : nullptr;
  }
  Thread* t = block_->ready.front();
  block_->ready.pop_front();
  return t;
}

// Threads that have waited continue before others start.
void Executor::make_ready(std::span<Thread*> waiting) {
  // Shuffled ones are drawn from anywhere in the list. Others mostly stand in their order, as they arrived in it.
  const auto sort = [&](auto before) {
    if (!std::ranges::is_sorted(waiting, before, &Thread::id)) std::ranges::sort(waiting, before, &Thread::id);
  };
  if (settings.order == Order::forward) sort(std::ranges::less{});
  if (settings.order == Order::reverse) sort(std::ranges::greater{});
  for (Thread* t : waiting) t->state = State::ready;
  block_->ready.insert(block_->ready.begin(), waiting.begin(), waiting.end());
}

void Executor::switch_away() {
  Thread* me = current_;
  Thread* after = next();
  if (!after) deadlock();
  if (after != me && !after->fiber) after->fiber = take_fiber();
  resume(after);
  if (after != me) switch_fiber(*me->fiber, *after->fiber);
}

// --- reports --------------------------------------------------------------------------------------------------------

void Executor::stop(const std::string& report) {
  running = false;
  if (!current_) throw Report(report);
  report_ = fmt::format("{}: {}: {}", name_of_kernel(), where_now(), report);
  switch_fiber(*current_->fiber, main_);  // never returns
  __builtin_unreachable();
}

std::string Executor::thread_text(uint32_t id) const {
  const auto& size = here.block_size;
  return fmt::format("thread ({},{},{})", id % size.x, id / size.x % size.y, id / (size.x * size.y));
}

void Executor::deadlock() {
  std::string all = "deadlock: no thread of the block can continue";
  constexpr int kShown = 6;
  int shown = 0;
  const Thread* last = nullptr;
  for (uint32_t i = 0; i < count_; ++i) {
    const Thread& t = block_->threads[i];
    if (t.state == State::done || (last && last->state == t.state && same(last->at, t.at))) continue;
    if (++shown > kShown) break;
    last = &t;
    const std::string what = t.state == State::at_barrier ? "the block's barrier"
                             : t.state == State::at_named ? "a named barrier"
                             : t.state == State::polling
                                 ? "a condition (spin_pause)"
                                 : fmt::format("{} of lanes {:#010x}", name_of(t.instruction), t.mask);
    all += fmt::format("; {} waits for {} at {}", thread_text(t.id), what, text(t.at));
  }
  stop(all);
}

// Where there is a mutation: records that the kernel executes this synchronisation. Whether the run omits it.
bool Executor::is_omitted(const char* what, Where at) {
  static std::map<const void*, std::string> names;  // by kernel; all instances of a template have the same name
  std::string& name = names[kernel_];
  if (name.empty()) {
    const std::string full = function_at(kernel_),
                      file = frames(pc_of(static_cast<const char*>(kernel_) + 1)).back().line;
    name = full.substr(0, full.find('<')) + " (" + file.substr(0, file.rfind(':')) + ")";
  }
  const SyncPoint point{name, what, text(at)};
  mutation->seen.insert(point);
  return mutation->omitted == point;
}

// --- barriers -------------------------------------------------------------------------------------------------------

void Executor::finish_thread() {
  Thread* t = current_;
  t->state = State::done;
  --block_->live;
  ++events_;
  if (!t->copies.empty())
    stop(fmt::format("exits with {} asynchronous copies that it has not waited for, the first issued at {}",
                     t->copies.size(), line(pc_of(t->copies.front().pc))));
  Warp& w = block_->warps[t->id / 32];
  w.live &= ~(1u << t->id % 32);
  for (const Lanes& l : w.open)
    if (l.mask >> t->id % 32 & 1)
      stop(fmt::format("exits while lanes {:#010x} of its warp wait for it in {} at {}", l.arrived,
                       name_of(l.instruction), text(l.at)));
  if (!block_->at_barrier.empty())
    stop(fmt::format("barrier divergence: exits while {} waits at {}", thread_text(block_->at_barrier[0]->id),
                     text(block_->at_barrier[0]->at)));
}

void Executor::open_block_barrier() {
  for (int* out : block_->votes_out) *out = block_->votes;
  block_->votes_out.clear();
  block_->votes = 0;
  ++events_;
  if (profile) profile->block_barrier();
  Checker::block_barrier();
  make_ready(block_->at_barrier);
  block_->at_barrier.clear();
}

void Executor::block_barrier(bool vote, int* votes, Where at, bool of_grid) {
  Thread* t = current_;
  if (block_->live != count_)
    stop(fmt::format("barrier divergence: waits at {} after other threads of its block have exited", text(at)));
  if (!block_->at_barrier.empty() && !same(block_->at_barrier[0]->at, at))
    stop(fmt::format("barrier divergence: waits at {} while {} waits at {}", text(at),
                     thread_text(block_->at_barrier[0]->id), text(block_->at_barrier[0]->at)));
  if (!block_->at_barrier.empty() && block_->for_grid != of_grid)
    stop(fmt::format("barrier divergence: waits at {} for the {} while {} waits for the {}", text(at),
                     of_grid ? "grid" : "block", thread_text(block_->at_barrier[0]->id), of_grid ? "block" : "grid"));
  block_->for_grid = of_grid;
  t->at = at;
  t->state = State::at_barrier;
  block_->at_barrier.push_back(t);
  block_->votes += vote;
  if (votes) block_->votes_out.push_back(votes);
  if (block_->at_barrier.size() == block_->live) {
    if (of_grid) return switch_fiber(*t->fiber, main_);  // until run_block() opens the barrier
    open_block_barrier();
  }
  switch_away();
}

void Executor::grid_barrier(uint32_t* arrived, uint32_t number, const void* pc, Where at) {
  if (!cooperative_) stop(fmt::format("waits for the grid at {} in a launch that is not cooperative", text(at)));
  if (number != grid_barriers_)
    stop(fmt::format("the barrier of the grid at {} has number {}, and {} were before it", text(at), number,
                     grid_barriers_));
  if (current_->id == 0) {  // the thread that counts its block
    Checker::count_block(arrived, pc_of(pc));
    const uint32_t blocks = here.grid_size.x * here.grid_size.y * here.grid_size.z;
    if (grid_counter_ && grid_counter_ != arrived)
      stop(fmt::format("the barrier of the grid at {} counts in another place than other blocks", text(at)));
    if (*arrived / blocks != number)
      stop(fmt::format("the counter of the barrier of the grid at {} holds {}, with {} blocks and number {}", text(at),
                       *arrived, blocks, number));
    grid_counter_ = arrived;
    ++*arrived;
  }
  block_barrier(false, nullptr, at, true);
}

void Executor::named_barrier(int id, int threads, bool wait, Where at) {
  if (id < 0 || id >= kNamedBarriers) stop(fmt::format("named barrier {} at {}: there are 0 to 15", id, text(at)));
  if (threads <= 0 || threads % 32 != 0)
    stop(fmt::format("named barrier of {} threads at {}: a multiple of 32 is allowed", threads, text(at)));
  NamedBarrier& b = block_->named[id];
  Thread* t = current_;
  Checker::release_barrier(id, t->id);
  ++b.arrived;
  if (wait) {
    t->at = at;
    t->state = State::at_named;
    b.waiting.push_back(t);
  }
  if (b.arrived == threads) {
    b.arrived = 0;
    ++events_;
    for (Thread* w : b.waiting) Checker::acquire_barrier(id, w->id);
    Checker::reset_barrier(id);
    make_ready(b.waiting);
    b.waiting.clear();
  }
  if (wait) switch_away();
}

void Executor::warp_collective(uint32_t mask, WarpInstruction instruction, const void* in, void* out,
                               void (*finish)(const Lanes&), Where at) {
  Thread* t = current_;
  Warp& w = block_->warps[t->id / 32];
  const uint32_t lane = t->id % 32, bit = 1u << lane;
  if (!(mask & bit))
    stop(fmt::format("{} at {}: the mask {:#010x} lacks the caller's lane {}", name_of(instruction), text(at), mask,
                     lane));
  mask &= w.lanes;
  if (mask & ~w.live)
    stop(fmt::format("{} at {}: lanes {:#010x} of the mask have exited", name_of(instruction), text(at),
                     mask & ~w.live));
  auto open = std::find_if(w.open.begin(), w.open.end(), [&](const Lanes& l) { return l.mask == mask; });
  if (open == w.open.end()) {
    w.open.push_back({.mask = mask, .arrived = 0, .instruction = instruction, .in = {}, .out = {}, .at = at});
    open = w.open.end() - 1;
  }
  if (open->instruction != instruction || !same(open->at, at))
    stop(fmt::format("warp divergence: {} at {} while lanes {:#010x} of the same mask wait in {} at {}",
                     name_of(instruction), text(at), open->arrived, name_of(open->instruction), text(open->at)));
  open->in[lane] = in;
  open->out[lane] = out;
  open->arrived |= bit;
  t->at = at;
  t->instruction = instruction;
  t->mask = mask;
  t->state = State::in_warp_instruction;
  if (open->arrived == mask) {
    if (finish) finish(*open);
    ++events_;
    if (instruction == WarpInstruction::barrier) Checker::warp_barrier(t->id / 32, mask, w.lanes);
    std::array<Thread*, 32> members;
    size_t count = 0;
    for (uint32_t l = 0; l < 32; ++l)
      if (mask >> l & 1) members[count++] = &block_->threads[t->id / 32 * 32 + l];
    w.open.erase(open);
    make_ready({members.data(), count});
  }
  switch_away();
}

void Executor::pause(Where at) {
  Thread* t = current_;
  // Enough for every thread of the block to have polled several times since the last event.
  const uint64_t max_idle_polls = 8 * uint64_t{count_} + 4096;
  if (events_ != t->seen_events) {
    t->seen_events = events_;
    block_->idle_polls = 0;
  } else if (++block_->idle_polls > max_idle_polls) {
    t->at = at;
    t->state = State::polling;
    deadlock();
  }
  t->at = at;
  t->state = State::polling;
  block_->ready.push_back(t);
  switch_away();
}

// --- shared memory and asynchronous copies --------------------------------------------------------------------------

void* Executor::static_shared(const void* key, const char* name, size_t bytes, size_t element) {
  int64_t total = static_cast<int64_t>(bytes);
  for (const SharedArray& a : block_->shared) {
    if (a.key == key) return a.region->base;
    total += static_cast<int64_t>(a.region->bytes);
  }
  if (total > kMaxStaticSharedBytes)
    stop(fmt::format("static shared memory: {} bytes with '{}', {} are allowed", total, name, kMaxStaticSharedBytes));
  if (total + dynamic_bytes_ > max_shared_bytes(settings.capability))
    stop(fmt::format("shared memory: {} static bytes with '{}' and {} dynamic ones, {} in all are allowed", total, name,
                     dynamic_bytes_, max_shared_bytes(settings.capability)));
  if (profile && shared_keys_.insert(key).second) profile->shared_array(bytes);
  block_->shared.push_back({key, &device_memory().allocate(bytes, name, true, element)});
  return block_->shared.back().region->base;
}

void* Executor::dynamic_shared(size_t element) {
  if (dynamic_bytes_ == 0) stop("uses dynamic shared memory, but the launch requests none");
  if (!block_->dynamic)
    block_->dynamic = &device_memory().allocate(static_cast<size_t>(dynamic_bytes_), "dynamic shared", true, element);
  return block_->dynamic->base;
}

void Executor::free_shared(Block& block) {
  for (const SharedArray& a : block.shared) device_memory().release(a.region->base);
  block.shared.clear();
  if (block.dynamic) device_memory().release(block.dynamic->base);
  block.dynamic = nullptr;
}

// Instructions that take addresses of one kind of memory. What lies in no region is left to the checker.
void Executor::require_space(const void* address, bool shared, const char* what, const void* pc) {
  const Region* r = device_memory().find(address);
  if (r && (r->shared != shared || r->constant))
    stop(fmt::format("{} at {} is '{}', which is in {} memory", what, line(pc_of(pc)), r->name,
                     r->constant ? "constant"
                     : r->shared ? "shared"
                                 : "global"));
}

// Between issue and wait the target has neither its old data nor the new.
void Executor::copy_async(const AsyncCopy& c) {
  const auto unaligned = [&](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(c.bytes) != 0;
  };
  if (unaligned(c.to) || (c.exist > 0 && unaligned(c.from)))
    stop(fmt::format("asynchronous copy of {} bytes between addresses that are not aligned to them, at {}", c.bytes,
                     line(pc_of(c.pc))));
  require_space(c.to, true, "the target of an asynchronous copy", c.pc);
  if (c.exist > 0) require_space(c.from, false, "the source of an asynchronous copy", c.pc);
  if (c.exist < 0 || c.exist > c.bytes)
    stop(fmt::format("asynchronous copy of {} of {} bytes at {}", c.exist, c.bytes, line(pc_of(c.pc))));
  current_->copies.push_back(c);
  current_->copies.back().group = current_->groups;
  if (c.exist > 0) Checker::access(c.from, static_cast<size_t>(c.exist), Access::load, pc_of(c.pc));
  Checker::in_flight(c.to, static_cast<size_t>(c.bytes), pc_of(c.pc));
  std::memset(c.to, 0xFF, static_cast<size_t>(c.bytes));
}

void Executor::wait(int groups_left) {
  Thread& t = *current_;
  const auto first_kept =
      t.groups > static_cast<uint32_t>(groups_left) ? t.groups - static_cast<uint32_t>(groups_left) : 0;
  std::erase_if(t.copies, [&](const AsyncCopy& c) {
    if (c.group >= first_kept) return false;
    Checker::landed(c.to, static_cast<size_t>(c.bytes), pc_of(c.pc));
    std::memcpy(c.to, c.from, static_cast<size_t>(c.exist));
    std::memset(static_cast<char*>(c.to) + c.exist, 0, static_cast<size_t>(c.bytes - c.exist));
    return true;
  });
}

// --- launches -------------------------------------------------------------------------------------------------------

void Executor::begin_block(Block& block, uint32_t linear) {
  block.linear = linear;
  if (block.threads.size() < count_) block.threads.resize(count_);
  block.warps.resize((count_ + 31) / 32);
  block.live = count_;
  block.started = 0;
  block.votes = 0;
  block.idle_polls = 0;
  block.ready.clear();
  block.at_barrier.clear();
  block.votes_out.clear();
  for (NamedBarrier& b : block.named) {
    b.arrived = 0;
    b.waiting.clear();
  }
  for (uint32_t w = 0; w < block.warps.size(); ++w) {
    const uint32_t lanes = std::min(count_ - w * 32, 32u);
    block.warps[w].lanes = block.warps[w].live = lanes == 32 ? UINT32_MAX : (1u << lanes) - 1;
    block.warps[w].open.clear();
  }
  if (settings.order == Order::shuffled) {
    block.random.seed(settings.seed * 0x9e3779b97f4a7c15u + linear);
    block.order.resize(count_);
    std::iota(block.order.begin(), block.order.end(), 0u);
    std::shuffle(block.order.begin(), block.order.end(), block.random);
  }
}

// Until all threads of the block have ended or wait at the barrier of the grid.
void Executor::run_block(Block& block) {
  block_ = &block;
  const auto& size = here.grid_size;
  here.block = {block.linear % size.x, block.linear / size.x % size.y, block.linear / (size.x * size.y)};
  Checker::begin_block(count_, block.linear);
  if (!block.at_barrier.empty()) open_block_barrier();
  Thread* first = next();
  if (!first->fiber) first->fiber = take_fiber();
  resume(first);
  switch_fiber(main_, *first->fiber);
  running = false;
  steps_left = INT64_MAX;
  current_ = nullptr;
  if (profile) profile->end_block();
}

// The blocks of a cooperative launch, in turn from one barrier of the grid to the next.
void Executor::run_together(std::vector<Block>& blocks) {
  for (;;) {
    const Block* waiting = nullptr;
    for (Block& block : blocks) {
      run_block(block);
      if (!report_.empty()) return;
      if (block.live > 0) waiting = &block;
    }
    if (!waiting) return;
    const Where at = waiting->at_barrier[0]->at;
    const auto ended = [](const Block& block) { return block.live == 0; };
    const auto elsewhere = [&](const Block& block) { return !same(block.at_barrier[0]->at, at); };
    const auto report = [&](const char* what, const Block& block, const std::string& where) {
      report_ = fmt::format("{}: {}: {} waits at the barrier of the grid at {}, and {} {}", name_of_kernel(), what,
                            block_text(waiting->linear), text(at), block_text(block.linear), where);
    };
    if (const auto b = std::ranges::find_if(blocks, ended); b != blocks.end())
      return report("deadlock", *b, "has ended");
    if (const auto b = std::ranges::find_if(blocks, elsewhere); b != blocks.end())
      return report("divergence of the grid's barrier", *b, "at the one at " + text(b->at_barrier[0]->at));
    Checker::grid_barrier();
    ++grid_barriers_;
  }
}

// chosen: how many blocks run beside those at the corners of the grid; 0: all.
std::vector<uint32_t> Executor::block_order(const Extent& grid, uint64_t chosen) {
  std::vector<uint32_t> order;
  std::mt19937_64 random(settings.seed);
  const auto count = static_cast<uint64_t>(grid.count());
  if (chosen > 0 && count > chosen + 2) {
    for (const int64_t z : {int64_t{0}, grid.z - 1})
      for (const int64_t y : {int64_t{0}, grid.y - 1})
        for (const int64_t x : {int64_t{0}, grid.x - 1})
          order.push_back(static_cast<uint32_t>(x + grid.x * (y + grid.y * z)));
    for (uint64_t i = 0; i < chosen; ++i) order.push_back(static_cast<uint32_t>(1 + random() % (count - 2)));
    std::sort(order.begin(), order.end());
    order.erase(std::unique(order.begin(), order.end()), order.end());
  } else {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0u);
  }
  if (settings.order == Order::reverse) std::reverse(order.begin(), order.end());
  if (settings.order == Order::shuffled) std::shuffle(order.begin(), order.end(), random);
  return order;
}

void Executor::run(const void* kernel, void (*call)(const void*), const void* arguments, size_t argument_bytes,
                   const Grid& grid) {
  if (!launchable(grid)) return;
  if (current_) stop("launches a kernel: dynamic parallelism is not emulated");
  const Extent& g = grid.blocks;
  if (const int64_t max = max_shared_bytes(settings.capability); grid.shared_bytes > max)
    throw Error("launch: {} bytes of shared memory over this device's limit {}", grid.shared_bytes, max);
  if (g.count() > UINT32_MAX) throw Error("launch: {} blocks; the host runs at most 2^32 - 1", g.count());
  if (multiprocessors_together > 0) {
    const int64_t max =
        cooperative_blocks(multiprocessors_together, settings.capability, grid.threads.count(), grid.shared_bytes);
    if (g.count() > max)
      throw Report(fmt::format("launch: a cooperative grid of {} blocks; the device holds {}", g.count(), max));
  }
  const auto narrow = [](int64_t v) { return static_cast<unsigned>(v); };
  here.block_size = {narrow(grid.threads.x), narrow(grid.threads.y), narrow(grid.threads.z)};
  here.grid_size = {narrow(g.x), narrow(g.y), narrow(g.z)};
  kernel_ = kernel;
  call_ = call;
  arguments_ = arguments;
  arguments_begin = reinterpret_cast<uintptr_t>(arguments);
  arguments_bytes = argument_bytes;
  dynamic_bytes_ = grid.shared_bytes;
  count_ = narrow(grid.threads.count());
  cooperative_ = multiprocessors_together > 0;
  grid_barriers_ = 0;
  grid_counter_ = nullptr;
  shared_keys_.clear();
  report_.clear();
  Checker::begin_launch(cooperative_);
  // Blocks that wait for each other cannot be left out.
  const std::vector<uint32_t> order = block_order(g, cooperative_ ? 0 : static_cast<uint64_t>(settings.blocks));
  if (profile) profile->begin_launch(kernel, grid, order.size());
  std::vector<Block> together(cooperative_ ? order.size() : 0);
  for (size_t i = 0; i < together.size(); ++i) begin_block(together[i], order[i]);
  if (cooperative_) {
    run_together(together);
  } else {
    for (const uint32_t b : order) {
      begin_block(usual_, b);
      run_block(usual_);
      if (!report_.empty()) break;
    }
  }
  if (profile) profile->end_launch();
  for (Block& block : together) free_shared(block);
  free_shared(usual_);
  block_ = &usual_;
  if (!report_.empty()) {
    drop_fibers();
    throw Report(report_);
  }
}

}  // namespace

void run(const void* kernel, void (*call)(const void*), const void* arguments, size_t argument_bytes,
         const Grid& grid) {
  executor.run(kernel, call, arguments, argument_bytes, grid);
}

Together::Together(int multiprocessors) { multiprocessors_together = multiprocessors; }
Together::~Together() { multiprocessors_together = 0; }

int64_t cooperative_blocks(int multiprocessors, int capability, int64_t threads, int64_t shared_bytes) {
  // Of a multiprocessor, and what the system takes of it for each block (CUDA Programming Guide). Static shared memory
  // is not counted: it is not known before the kernel runs.
  constexpr int64_t kWarps = 64, kBlocks = 32, kSystemBytes = 1024;
  const int64_t all_shared_bytes = max_shared_bytes(capability) + kSystemBytes;
  const int64_t warps = std::max<int64_t>(1, (threads + 31) / 32);
  const int64_t resident = std::min({kBlocks, kWarps / warps, all_shared_bytes / (shared_bytes + kSystemBytes)});
  return std::min(multiprocessors * resident, kMaxThreadsTogether / std::max<int64_t>(1, threads));
}

// The runtime is not instrumented, but code that it calls back may be: accesses are not checked until the kernel
// continues.
namespace {
struct InRuntime {
  InRuntime() { running = false; }
  ~InRuntime() { running = true; }
};
}  // namespace

void stop(const std::string& report) { executor.stop(report); }
void unsupported(const char* feature) { stop(std::string(feature) + " is not emulated on the host"); }
void absent_lane(int lane) { stop(fmt::format("a shuffle reads lane {}, which is not in its mask", lane)); }
void block_barrier(bool vote, int* votes, Where at) {
  const InRuntime here_now;
  if (mutation && !votes && executor.is_omitted("__syncthreads", at)) return;
  executor.block_barrier(vote, votes, at);
}
void grid_barrier(uint32_t* arrived, uint32_t number, Where at) {
  const InRuntime here_now;
  if (mutation && executor.is_omitted("grid_barrier", at)) return;
  executor.grid_barrier(arrived, number, __builtin_return_address(0), at);
}
void read_only_access(const void* address, size_t bytes) {
  const InRuntime here_now;
  Checker::read_only(address, bytes, "__ldg", pc_of(__builtin_return_address(0)));
}
void named_barrier(int id, int threads, bool wait, Where at) {
  const InRuntime here_now;
  if (mutation && executor.is_omitted(wait ? "bar.sync" : "bar.arrive", at)) return;
  executor.named_barrier(id, threads, wait, at);
}
void pause(Where at) {
  const InRuntime here_now;
  executor.pause(at);
}
void warp_collective(uint32_t mask, WarpInstruction instruction, const void* in, void* out,
                     void (*finish)(const Lanes&), Where at) {
  const InRuntime here_now;
  if (mutation && instruction == WarpInstruction::barrier && executor.is_omitted("__syncwarp", at)) return;
  executor.warp_collective(mask, instruction, in, out, finish, at);
}
void* static_shared(const void* key, const char* name, size_t bytes, size_t element) {
  const InRuntime here_now;
  return executor.static_shared(key, name, bytes, element);
}
void* dynamic_shared(size_t element) {
  const InRuntime here_now;
  return executor.dynamic_shared(element);
}
void thread_fence(Where at) {
  if (!mutation || !executor.is_omitted("__threadfence", at)) Checker::fence();
}
void read_matrix_row(const void* row, const void* pc) {
  const InRuntime here_now;
  executor.require_space(row, true, "the matrix of ldmatrix", pc);
  Checker::access(row, 16, Access::load, pc_of(pc), true);
}
void read_operand_piece(const void* piece, const void* pc) {
  const InRuntime here_now;
  executor.require_space(piece, true, "an operand of wgmma", pc);
  Checker::read_by_proxy(piece, 16, pc_of(pc));
}
void proxy_fence(Where at) {
  if (!mutation || !executor.is_omitted("fence_async_proxy", at)) Checker::proxy_fence();
}
void atomic_access(void* address, size_t bytes, const void* pc, Where at) {
  if (!mutation || !executor.is_omitted("atomic", at))
    return Checker::access(address, bytes, Access::atomic, pc_of(pc), true);
  // Omitted: a plain update.
  Checker::access(address, bytes, Access::load, pc_of(pc), true);
  Checker::access(address, bytes, Access::store, pc_of(pc), true);
}
void copy_async(void* to, const void* from, int bytes, int exist, const void* pc) {
  const InRuntime here_now;
  executor.copy_async({to, from, bytes, exist, 0, pc});
}
void commit_copies() { executor.commit(); }
void wait_copies(int groups_left, Where at) {
  const InRuntime here_now;
  if (!mutation || !executor.is_omitted("cp.async wait", at)) executor.wait(groups_left);
}

void check_stack(const void* frame, const void* pc) { executor.check_stack(frame, pc); }
std::string thread_text(uint32_t thread) { return executor.thread_text(thread); }
void out_of_steps(const void* pc) {
  stop(fmt::format("endless: {} basic blocks without a barrier or an end, now at {}", kStepsPerTurn, line(pc_of(pc))));
}

}  // namespace duet::simt::host
