// SPDX-License-Identifier: Apache-2.0
#include "softgpu/execute.h"

#include <cxxabi.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "softgpu/access.h"

namespace duet::softgpu {
namespace {
constexpr int kBarriers = 16;
constexpr uint64_t kTurn =
    100'000;  // instructions after which another warp has its turn: a loop may wait for its store
// Turns that all end asleep (nanosleep), with no barrier opened: what the warps wait for never comes. Warps that hand a
// flag to each other so often without a barrier would be reported as well; so would be one that waits for another block
// and does not sleep (as a kernel that does not end). A kernel that reads the clock may wait for a time.
constexpr int kMaxIdleTurns = 10'000;

std::string where(const Warp& w, const Instruction& i, int lane) {
  const Launch& launch = *w.block->launch;
  const Extent3& b = launch.block;
  const uint32_t* block = w.block->index;
  std::string text = readable_name(w.kernel->name);
  const std::string file = w.kernel->module->file(i.source.file);
  if (!file.empty()) text += fmt::format(", {}:{}", file, i.source.line);
  text += fmt::format(" (PTX line {})", i.line);
  if (lane == kNone) return text + fmt::format(", warp {} of block ({},{},{})", w.index, block[0], block[1], block[2]);
  const uint32_t t = w.index * kLanes + static_cast<uint32_t>(lane);
  return text + fmt::format(", thread ({},{},{}) of block ({},{},{})", t % b.x, t / b.x % b.y, t / b.x / b.y, block[0],
                            block[1], block[2]);
}

// A block's warps and their memory, used again for the next block.
class Runner {
 public:
  // spent: warp instructions of the launch.
  Runner(const Launch& launch, const ExecutorOptions& options, ExecutorCounts& counts, uint64_t& spent)
      : launch_(launch), kernel_(*launch.kernel), options_(options), counts_(counts), spent_(spent) {
    const auto threads = static_cast<uint32_t>(launch.block.volume());
    const uint32_t warps = (threads + kLanes - 1) / kLanes;
    const size_t each = kernel_.registers.size();
    registers_.resize(each * warps + 64);
    auto* first = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(registers_.data()) + 63) / 64 * 64);
    const uint32_t shared = kernel_.shared_bytes + launch.dynamic_shared_bytes;
    shared_.resize(shared + 64);
    states_.resize(shared + 64);
    block_.launch = &launch;
    block_.shared = {.base = 0, .bytes = shared, .data = shared_.data(), .states = states_.data()};
    if (const auto rest = reinterpret_cast<uintptr_t>(block_.shared.data) % 16) block_.shared.data += 16 - rest;
    warps_.resize(warps);
    for (uint32_t n = 0; n < warps; ++n) {
      Warp& w = warps_[n];
      w.registers = first + each * n;
      w.kernel = &kernel_;
      w.block = &block_;
      w.parameters = launch.parameters.data();
      w.index = n;
      w.local.resize(size_t{kernel_.local_bytes} * kLanes);
      std::memcpy(w.registers, kernel_.registers.data(), each);
      for (const SpecialRegister& s : kernel_.specials) set_special(w, s);
    }
  }

  void begin_block(uint64_t block) {
    ++counts_.blocks;
    const Extent3& g = launch_.grid;
    const uint32_t index[3] = {static_cast<uint32_t>(block % g.x), static_cast<uint32_t>(block / g.x % g.y),
                               static_cast<uint32_t>(block / g.x / g.y)};
    std::memcpy(block_.index, index, sizeof index);
    std::memset(block_.shared.data, 0xFF, block_.shared.bytes);
    std::memset(block_.shared.states, kUsable, block_.shared.bytes);
    block_.holders.clear();
    const auto threads = static_cast<uint32_t>(launch_.block.volume());
    for (Warp& w : warps_) {
      const uint32_t left = threads - w.index * kLanes;
      w.live = left >= kLanes ? kAllLanes : (uint32_t{1} << left) - 1;
      w.done = false;
      w.barrier = kNone;
      w.paths.assign(1, Path{0, w.live, false});
      w.copies.clear();
      w.sums.clear();
      w.held.clear();
      w.sum_groups = 0;
      std::memset(w.groups, 0, sizeof w.groups);
      for (const SpecialRegister& s : kernel_.specials)
        if (s.name.starts_with("%ctaid.")) std::fill_n(w.at<uint32_t>(s.place), kLanes, index[s.name.back() - 'x']);
    }
    for (Barrier& b : barriers_) b = {};
    done_ = false;
  }
  bool done() const { return done_; }

  // A turn of each warp; not all_warps: until one ends asleep, with nanosleep. False where all that ran ended asleep.
  bool run_turn(bool all_warps) {
    bool any_ran = false, all_slept = true;
    done_ = true;
    for (size_t n = 0; n < warps_.size(); ++n) {
      Warp& w = warps_[options_.reverse ? warps_.size() - 1 - n : n];
      if (!w.done && w.barrier == kNone) {
        run_warp(w);
        any_ran = true;
        all_slept &= w.yielded;
        if (w.yielded && !all_warps) {
          done_ = false;
          break;
        }
      }
      done_ &= w.done;
    }
    if (done_ || open_barriers()) return true;
    if (!any_ran) report_deadlock();
    return !all_slept;
  }

  // After a turn in which no block did anything but wait.
  [[noreturn]] void report_sleep() const {
    for (const Warp& w : warps_)
      if (w.yielded && !w.done)
        throw KernelError(
            "waits for what never comes: " + where(w, kernel_.code[static_cast<size_t>(w.paths.front().at)], kNone),
            Fault::Kind::launch);
    report_deadlock();
  }

 private:
  struct Barrier {
    uint32_t arrived = 0, expected = 0;  // threads; expected 0: all of the block
  };

  void set_special(Warp& w, const SpecialRegister& s) {
    uint32_t* to = w.at<uint32_t>(s.place);
    const auto threads = static_cast<uint32_t>(launch_.block.volume());
    const auto pick = [&](const Extent3& e) { return s.name.back() == 'x' ? e.x : s.name.back() == 'y' ? e.y : e.z; };
    for (uint32_t l = 0; l < kLanes; ++l) {
      const uint32_t t = w.index * kLanes + l, bit = uint32_t{1} << l;
      const Extent3& b = launch_.block;
      if (s.name.starts_with("%tid."))
        to[l] = pick({t % b.x, t / b.x % b.y, t / b.x / b.y});
      else if (s.name.starts_with("%ntid."))
        to[l] = pick(b);
      else if (s.name.starts_with("%nctaid."))
        to[l] = pick(launch_.grid);
      else if (s.name == "%laneid")
        to[l] = l;
      else if (s.name == "%warpid")
        to[l] = w.index;
      else if (s.name == "%nwarpid")
        to[l] = (threads + kLanes - 1) / kLanes;
      else if (s.name == "%lanemask_eq")
        to[l] = bit;
      else if (s.name == "%lanemask_lt")
        to[l] = bit - 1;
      else if (s.name == "%lanemask_le")
        to[l] = bit - 1 + bit;
      else if (s.name == "%lanemask_gt")
        to[l] = ~(bit - 1 + bit);
      else if (s.name == "%lanemask_ge")
        to[l] = ~(bit - 1);
      else if (s.name == "%dynamic_smem_size")
        to[l] = launch_.dynamic_shared_bytes;
      else if (s.name == "%total_smem_size")
        to[l] = kernel_.shared_bytes + launch_.dynamic_shared_bytes;
      else
        to[l] = 0;  // %ctaid.*, set for each block; %smid
    }
  }

  // Opens each barrier for which all have arrived.
  bool open_barriers() {
    bool opened = false;
    for (int id = 0; id < kBarriers; ++id) {
      Barrier& b = barriers_[id];
      bool any = false, every = true;
      for (const Warp& w : warps_) {
        any |= w.barrier == id;
        every &= w.done || w.barrier == id;
      }
      if (!any || !(b.expected > 0 ? b.arrived >= b.expected : every)) continue;
      if (b.expected > 0 && b.arrived > b.expected)
        throw KernelError(fmt::format("{}: {} threads arrive at barrier {}, which is for {}",
                                      readable_name(kernel_.name), b.arrived, id, b.expected),
                          Fault::Kind::launch);
      for (Warp& w : warps_)
        if (w.barrier == id) w.barrier = kNone;
      b = {};
      opened = true;
    }
    return opened;
  }

  [[noreturn]] void report_deadlock() const {
    std::string text = fmt::format("{}: the warps of block ({},{},{}) wait for ever:", readable_name(kernel_.name),
                                   block_.index[0], block_.index[1], block_.index[2]);
    int named = 0;
    for (const Warp& w : warps_)
      if (w.barrier != kNone && named++ < 4) {
        const Instruction& i = kernel_.code[static_cast<size_t>(w.paths.front().at - 1)];
        text += fmt::format(" warp {} at barrier {} ({}:{}, PTX line {});", w.index, w.barrier,
                            kernel_.module->file(i.source.file), i.source.line, i.line);
      }
    throw KernelError(text, Fault::Kind::launch);
  }

  // Takes the path that runs next out of the warp's list: the one at the lowest instruction that need not wait,
  // together with those at the same place. `limit`: the next place at which another path stands.
  Path take_path(Warp& w, int& limit) {
    size_t best = w.paths.size();
    for (size_t p = 0; p < w.paths.size(); ++p)
      if (!w.paths[p].waits && (best == w.paths.size() || w.paths[p].at < w.paths[best].at)) best = p;
    if (best == w.paths.size()) {
      const Instruction& first = kernel_.code[static_cast<size_t>(w.paths.front().at)];
      const Instruction& last = kernel_.code[static_cast<size_t>(w.paths.back().at)];
      fault(w.paths.size() == 1
                ? fmt::format("lanes {:#x} wait for lanes that do not come", w.paths.front().lanes)
                : fmt::format("lanes {:#x} at PTX line {} and lanes {:#x} at line {} wait for each other",
                              w.paths.front().lanes, first.line, w.paths.back().lanes, last.line));
    }
    Path path = w.paths[best];
    limit = INT32_MAX;
    size_t kept = 0;
    for (const Path& other : w.paths) {
      if (other.at == path.at) {
        path.lanes |= other.lanes;
        continue;
      }
      if (other.at > path.at) limit = std::min(limit, other.at);
      w.paths[kept++] = other;
    }
    w.paths.resize(kept);
    return path;
  }

  // Until the warp waits at a barrier of the block, is done, or has had its turn.
  void run_warp(Warp& w) {
    const Instruction* const code = kernel_.code.data();
    const Instruction* current = code;
    uint64_t instructions = 0, threads = 0;
    w.yielded = false;
    try {
      while (!w.yielded && w.barrier == kNone && instructions < kTurn) {
        if (w.paths.empty()) {
          w.done = true;
          break;
        }
        int limit = 0;
        current = code + w.paths.front().at;
        Path path = take_path(w, limit);
        bool running = true;
        while (running) {
          if (path.at >= limit || instructions >= kTurn) {
            w.paths.push_back(path);
            break;
          }
          const Instruction& i = code[path.at];
          current = &i;
          uint32_t lanes = path.lanes;
          if (i.predicate != kNone) {
            const uint32_t p = *w.at<uint32_t>(i.predicate);
            lanes &= i.negated ? ~p : p;
          }
          ++instructions;
          threads += static_cast<uint64_t>(std::popcount(lanes));
          if (i.flow == Flow::next) {
            if (lanes) i.handler(w, i, lanes);
            ++path.at;
          } else {
            running = flow(w, path, i, lanes);
          }
        }
      }
    } catch (const Fault& f) {
      throw KernelError(f.what + ": " + where(w, *current, f.lane), f.kind);
    }
    counts_.warp_instructions += instructions;
    counts_.thread_instructions += threads;
    spent_ += instructions;
    if (spent_ > options_.max_warp_instructions)
      throw KernelError(
          fmt::format("the kernel does not end: {} instructions so far: {}", spent_, where(w, *current, kNone)),
          Fault::Kind::launch);
  }

  // Everything but plain instructions. False where the path is in the warp's list again, or has ended.
  bool flow(Warp& w, Path& path, const Instruction& i, uint32_t lanes) {
    const auto wait = [&] {
      path.waits = true;
      w.paths.push_back(path);
      return false;
    };
    const auto step = [&] {
      path.waits = false;
      ++path.at;
      if (!w.yielded) return true;
      w.paths.push_back(path);
      return false;
    };
    switch (i.flow) {
      case Flow::next:
        break;
      case Flow::branch:
        if (lanes == 0) return step();
        if (lanes == path.lanes) {
          path.at = i.target;
          if (w.paths.empty()) return true;
          w.paths.push_back(path);
          return false;
        }
        w.paths.push_back({i.target, lanes, false});
        w.paths.push_back({path.at + 1, path.lanes & ~lanes, false});
        return false;
      case Flow::exit:
        w.live &= ~lanes;
        path.lanes &= ~lanes;
        for (Path& other : w.paths) other.waits = false;  // for lanes that will not come
        if (path.lanes == 0) return false;
        return step();
      case Flow::members: {
        if (lanes == 0) return step();
        const uint32_t members = w.at<uint32_t>(i.members)[std::countr_zero(lanes)];
        if (lanes & ~members)
          fault(
              fmt::format("lanes {:#x} are not in the mask {:#x} of what they do together", lanes & ~members, members));
        if ((lanes & members & w.live) != (members & w.live)) return wait();
        i.handler(w, i, lanes);
        return step();
      }
      case Flow::aligned:
        if (w.live != kAllLanes) fault(fmt::format("only lanes {:#x} of the warp are there; all have to be", w.live));
        if (lanes != kAllLanes) return wait();
        i.handler(w, i, lanes);
        return step();
      case Flow::barrier: {
        if (path.lanes != w.live) return wait();
        if (lanes == 0) return step();
        if (lanes != path.lanes) fault(fmt::format("only lanes {:#x} of {:#x} reach the barrier", lanes, path.lanes));
        const uint32_t id = w.at<uint32_t>(i.a)[std::countr_zero(lanes)];
        const uint32_t expected = i.b == kNone ? 0 : w.at<uint32_t>(i.b)[std::countr_zero(lanes)];
        if (id >= kBarriers) fault(fmt::format("barrier {}; there are {}", id, kBarriers));
        if (expected % kLanes != 0)
          fault(fmt::format("barrier {} for {} threads, no multiple of {}", id, expected, kLanes));
        Barrier& b = barriers_[id];
        if (b.arrived > 0 && b.expected != expected)
          fault(fmt::format("barrier {} for {} threads, where other warps wait for {}", id, expected, b.expected));
        b.expected = expected;
        b.arrived += kLanes;
        ++path.at;
        path.waits = false;
        if (i.offset == 0) w.barrier = static_cast<int>(id);  // not bar.arrive
        w.paths.push_back(path);
        return false;
      }
    }
    return true;
  }

  const Launch& launch_;
  const Kernel& kernel_;
  const ExecutorOptions& options_;
  ExecutorCounts& counts_;
  std::vector<uint8_t> registers_, shared_, states_;
  Block block_;
  std::vector<Warp> warps_;
  Barrier barriers_[kBarriers];
  uint64_t& spent_;
  bool done_ = false;
};
}  // namespace

void fault(std::string what, int lane, Fault::Kind kind) { throw Fault{std::move(what), lane, kind}; }

void execute(const Launch& launch, const ExecutorOptions& options, ExecutorCounts& counts) {
  const auto start = std::chrono::steady_clock::now();
  std::fenv_t environment;
  std::fegetenv(&environment);
  std::fesetenv(FE_DFL_ENV);  // to nearest, with subnormal numbers
  struct Restore {
    const std::fenv_t& environment;
    ~Restore() { std::fesetenv(&environment); }
  } const restore{environment};
  ++counts.launches;
  // Blocks follow each other. Those of a cooperative launch are there at once, and each has a turn until it only waits.
  // In the first, third, ... of them a warp that sleeps ends the turn, and the other warps run when no block can
  // continue without them: where one warp announces what others have not done yet, it is missing for other blocks. In
  // the rest, all warps have their turn: those that do not wait for what their sleeping warp waits for read too early.
  const uint64_t blocks = launch.grid.volume(), together = launch.cooperative ? blocks : 1;
  uint64_t spent = 0;
  std::deque<Runner> runners;
  while (runners.size() < together) runners.emplace_back(launch, options, counts, spent);
  for (uint64_t begun = 0; begun < blocks;) {
    for (Runner& r : runners) {
      r.begin_block(options.reverse ? blocks - 1 - begun : begun);
      ++begun;
    }
    Runner* running = &runners.front();
    for (int idle_turns = 0; running;) {
      running = nullptr;
      bool any_ran = false;
      for (size_t n = 0; n < runners.size(); ++n) {
        Runner& r = runners[n];
        while (!r.done() && r.run_turn(!launch.cooperative || n % 2 == 1 || idle_turns > 0)) any_ran = true;
        if (!r.done()) running = &r;
      }
      idle_turns = any_ran ? 0 : idle_turns + 1;
      if (running && idle_turns > kMaxIdleTurns && !launch.kernel->reads_clock) running->report_sleep();
    }
  }
  counts.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void detail::require_constant(uint32_t lanes, const uint64_t (&address)[kLanes]) {
  const MemoryView& view = device_view();
  for (int l = 0; l < kLanes; ++l) {
    const uint64_t offset = address[l] - view.base;
    if ((lanes >> l & 1) && (offset >= view.bytes || !(view.states[offset] & kConstant)))
      fault("a load outside of constant memory, at " + describe_device_address(address[l]), l, Fault::Kind::address);
  }
}

void refuse_address(const Warp&, const MemoryView& view, bool is_shared, int lane, uint64_t address, int bytes,
                    Access access) {
  const char* what = access == Access::load ? "load" : access == Access::store ? "store" : "atomic update";
  const uint64_t offset = address - view.base;
  const std::string place = is_shared
                                ? fmt::format("byte {} of the block's {} bytes of shared memory", address, view.bytes)
                                : describe_device_address(address);
  if (address % static_cast<uint64_t>(bytes) != 0)
    fault(fmt::format("a misaligned {} of {} bytes at {}", what, bytes, place), lane, Fault::Kind::alignment);
  bool usable = offset < view.bytes && offset + static_cast<uint64_t>(bytes) <= view.bytes;
  uint64_t at = address;
  for (int b = 0; usable && b < bytes; ++b) {
    usable = view.states[offset + static_cast<uint64_t>(b)] & (access == Access::load ? kUsable | kConstant : kUsable);
    if (!usable) at = address + static_cast<uint64_t>(b);
  }
  if (usable) fault(fmt::format("a {} of {} bytes that were never written, at {}", what, bytes, place), lane);
  if (is_shared && at - view.base < view.bytes && (view.states[at - view.base] & kHeld))
    fault(fmt::format("a {} of {} bytes that a wgmma still reads, for which nothing waited, at {}", what, bytes, place),
          lane);
  if (!is_shared && at - view.base < view.bytes && (view.states[at - view.base] & kConstant))
    fault(fmt::format("a {} of {} bytes in constant memory, which kernels only load from, at {}", what, bytes, place),
          lane, Fault::Kind::address);
  const std::string first = is_shared ? place : describe_device_address(at);
  fault(fmt::format("a {} of {} bytes out of bounds, at {}", what, bytes, first), lane, Fault::Kind::address);
}

std::string demangled(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = text ? text : mangled;
  std::free(text);
  return name;
}

std::string readable_name(const std::string& mangled) {
  std::string name = demangled(mangled);
  if (name.starts_with("void ")) name.erase(0, 5);
  for (const char* noise : {"(anonymous namespace)::", "duet::cuda::"})
    for (size_t at = name.find(noise); at != std::string::npos; at = name.find(noise))
      name.erase(at, std::strlen(noise));
  if (const size_t parameters = name.rfind(">("); parameters != std::string::npos)
    name.resize(parameters + 1);
  else if (const size_t open = name.find('('); open != std::string::npos)
    name.resize(open);
  return name;
}

}  // namespace duet::softgpu
