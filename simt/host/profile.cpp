// SPDX-License-Identifier: Apache-2.0
// The static profile: requests, sectors, wavefronts and lanes, counted block by block (end_block) and added up by
// source line when the profile is read (kernels).
#include "simt/host/profile.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <tuple>
#include <unordered_map>

#include "core/error.h"
#include "simt/host/executor.h"

namespace duet::simt::host {
namespace {

struct Request {
  std::array<uint64_t, 32> address;
  uint32_t lanes = 0;  // mask
};

// One instruction in one block: what its threads accessed, by warp and n-th execution.
struct Instruction {
  Pc pc = 0;
  bool shared = false;
  Access kind = Access::load;
  uint32_t bytes = 0;
  std::vector<uint32_t> executed;              // by thread
  std::vector<std::vector<Request>> requests;  // by warp
};
struct BasicBlock {
  std::vector<uint32_t> executed;
  std::vector<std::vector<uint8_t>> lanes;  // by warp, n-th execution
};

constexpr uint64_t kSector = 32;

uint64_t distinct(std::vector<uint64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values.size();
}

struct Cost {
  uint64_t cost = 0, ideal = 0;
};
Cost sectors(const Request& r, uint32_t bytes) {
  std::vector<uint64_t> touched, addresses;
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (r.lanes >> lane & 1) {
      const uint64_t a = r.address[lane];
      for (uint64_t s = a / kSector; s <= (a + bytes - 1) / kSector; ++s) touched.push_back(s);
      addresses.push_back(a);
    }
  const uint64_t requested_bytes = distinct(addresses) * bytes;
  return {distinct(touched), (requested_bytes + kSector - 1) / kSector};
}
Cost wavefronts(const Request& r, uint32_t bytes) {
  const uint32_t lanes_at_once = bytes > 4 ? 128 / bytes : 32;
  Cost sum;
  for (uint32_t first = 0; first < 32; first += lanes_at_once) {
    std::vector<uint64_t> words;
    for (uint32_t lane = first; lane < first + lanes_at_once; ++lane)
      if (r.lanes >> lane & 1)
        for (uint64_t w = r.address[lane] / 4; w <= (r.address[lane] + bytes - 1) / 4; ++w) words.push_back(w);
    if (words.empty()) continue;
    const uint64_t n = distinct(words);
    uint64_t words_of_bank[32] = {}, max_words = 0;
    for (const uint64_t w : words) max_words = std::max(max_words, ++words_of_bank[w % 32]);
    sum.cost += max_words;
    sum.ideal += (n + 31) / 32;
  }
  return sum;
}

// Distinct bytes of an address range, page by page.
class Touched {
 public:
  void add(uint64_t address, uint32_t bytes) {
    for (uint64_t a = address; a < address + bytes; ++a) pages_[a / kPage].set(a % kPage);
  }
  uint64_t count() const {
    uint64_t n = 0;
    for (const auto& [page, bits] : pages_) n += bits.count();
    return n;
  }

 private:
  static constexpr uint64_t kPage = 4096;
  std::unordered_map<uint64_t, std::bitset<kPage>> pages_;
};

using Key = std::tuple<Pc, bool, Access, uint32_t>;

}  // namespace

struct Profile::Kernel {
  const void* function;
  KernelProfile total;
  std::map<Key, AccessLine> by_instruction;
  std::map<Pc, PartlyFilled> by_basic_block;
  Touched read, written;

  std::unordered_map<uint64_t, Instruction> instructions;  // of the current block
  std::unordered_map<Pc, BasicBlock> basic_blocks;
};

Profile::Profile() = default;
Profile::~Profile() = default;

void Profile::begin_launch(const void* kernel, const Grid& grid, uint64_t blocks_run) {
  const auto found =
      std::find_if(kernels_.begin(), kernels_.end(), [&](const auto& k) { return k->function == kernel; });
  if (found == kernels_.end()) {
    kernels_.push_back(std::make_unique<Kernel>());
    now_ = kernels_.back().get();
    now_->function = kernel;
  } else {
    now_ = found->get();
  }
  now_->total.grid = grid;
  now_->total.static_shared_bytes = 0;
  ++now_->total.launches;
  now_->total.blocks += static_cast<uint64_t>(grid.blocks.count());
  now_->total.blocks_run += blocks_run;
}

void Profile::access(uint32_t thread, Pc pc, uint64_t address, uint32_t bytes, bool shared, Access kind) {
  const uint64_t key = uint64_t{pc} << 16 | uint64_t{bytes} << 4 | static_cast<uint64_t>(kind) << 1 | (shared ? 1 : 0);
  Instruction& i = now_->instructions[key];
  const auto threads = static_cast<size_t>(now_->total.grid.threads.count());
  if (i.executed.empty()) {
    i.pc = pc;
    i.shared = shared;
    i.kind = kind;
    i.bytes = bytes;
    i.executed.resize(threads);
    i.requests.resize((threads + 31) / 32);
  }
  const uint32_t n = i.executed[thread]++;
  auto& requests = i.requests[thread / 32];
  if (requests.size() <= n) requests.resize(n + 1);
  requests[n].address[thread % 32] = address;
  requests[n].lanes |= 1u << thread % 32;
  if (!shared && kind != Access::store) now_->read.add(address, bytes);
  if (!shared && kind != Access::load) now_->written.add(address, bytes);
}

void Profile::basic_block(uint32_t thread, Pc pc) {
  BasicBlock& b = now_->basic_blocks[pc];
  const auto threads = static_cast<size_t>(now_->total.grid.threads.count());
  if (b.executed.empty()) {
    b.executed.resize(threads);
    b.lanes.resize((threads + 31) / 32);
  }
  const uint32_t n = b.executed[thread]++;
  auto& lanes = b.lanes[thread / 32];
  if (lanes.size() <= n) lanes.resize(n + 1);
  ++lanes[n];
}

void Profile::block_barrier() { ++now_->total.block_barriers; }
void Profile::shared_array(uint64_t bytes) { now_->total.static_shared_bytes += bytes; }

void Profile::end_block() {
  for (const auto& [key, i] : now_->instructions) {
    AccessLine& line = now_->by_instruction[{i.pc, i.shared, i.kind, i.bytes}];
    for (const auto& warp : i.requests)
      for (const Request& r : warp) {
        const Cost c = i.shared ? wavefronts(r, i.bytes) : sectors(r, i.bytes);
        ++line.requests;
        line.lanes += static_cast<uint64_t>(__builtin_popcount(r.lanes));
        line.cost += c.cost;
        line.ideal += c.ideal;
        line.worst = std::max(line.worst, c.cost);
        std::map<uint64_t, uint64_t> lanes_on;
        uint64_t max_lanes = 0;
        for (uint32_t lane = 0; lane < 32; ++lane)
          if (r.lanes >> lane & 1) max_lanes = std::max(max_lanes, ++lanes_on[r.address[lane]]);
        line.same_address += max_lanes;
      }
  }
  for (const auto& [pc, b] : now_->basic_blocks)
    for (const auto& warp : b.lanes)
      for (const uint8_t lanes : warp) {
        PartlyFilled& p = now_->by_basic_block[pc];
        ++p.executions;
        p.lanes += lanes;
        ++now_->total.block_executions;
        now_->total.block_lanes += lanes;
      }
  now_->instructions.clear();
  now_->basic_blocks.clear();
}

void Profile::end_launch() {  // a launch may have been abandoned inside a block
  now_->instructions.clear();
  now_->basic_blocks.clear();
}

std::vector<KernelProfile> Profile::kernels() {
  std::vector<Pc> all;
  for (const auto& k : kernels_) {
    for (const auto& [key, line] : k->by_instruction) all.push_back(std::get<0>(key));
    for (const auto& [pc, block] : k->by_basic_block) all.push_back(pc);
  }
  resolve(all);
  std::vector<KernelProfile> result;
  for (const auto& k : kernels_) {
    KernelProfile p = k->total;
    p.name = function_at(k->function);
    p.function = k->function;
    p.bytes_read = k->read.count();
    p.bytes_written = k->written.count();
    // The compiler duplicates and unrolls code: instructions of one source line are added up here.
    std::map<std::tuple<std::string, bool, Access, uint32_t>, AccessLine> lines;
    for (const auto& [key, one] : k->by_instruction) {
      const auto& [pc, shared, kind, bytes] = key;
      const std::string at = line(pc);
      AccessLine& l = lines[{at, shared, kind, bytes}];
      l.at = at;
      l.shared = shared;
      l.op = static_cast<MemoryOp>(kind);
      l.bytes = bytes;
      l.requests += one.requests;
      l.lanes += one.lanes;
      l.cost += one.cost;
      l.ideal += one.ideal;
      l.same_address += one.same_address;
      l.worst = std::max(l.worst, one.worst);
    }
    for (auto& [key, l] : lines) p.lines.push_back(std::move(l));
    std::map<std::string, PartlyFilled> filled;
    for (const auto& [pc, b] : k->by_basic_block)
      if (b.lanes < 32 * b.executions) {
        PartlyFilled& f = filled[line(pc)];
        f.at = line(pc);
        f.executions += b.executions;
        f.lanes += b.lanes;
      }
    for (auto& [at, f] : filled) p.partly_filled.push_back(std::move(f));
    result.push_back(std::move(p));
  }
  return result;
}

}  // namespace duet::simt::host

namespace duet {

std::vector<KernelProfile> profile_kernels(const std::function<void()>& work) {
  using simt::host::profile;
  if (profile) throw Error("profile_kernels: already counting");
  simt::host::Profile counters;
  struct Counting {
    explicit Counting(simt::host::Profile& p) { profile = &p; }
    ~Counting() { profile = nullptr; }
  } const counting(counters);
  work();
  return counters.kernels();
}

}  // namespace duet
