// SPDX-License-Identifier: Apache-2.0
#include "softgpu/device.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "softgpu/access.h"
#include "softgpu/fatbin.h"

namespace duet {
// What ptxas reported of each kernel (kernels/CMakeLists.txt), where the program is linked with it.
[[gnu::weak]] extern const char* const duet_kernel_resources;
}  // namespace duet

namespace duet::softgpu {
namespace {
// Registers of a thread, by the kernel's name as in C++; the fewest where files have kernels of one name. Empty for an
// architecture that ptxas did not compile for. Lines of interest:
//   ptxas info    : Compiling entry function 'NAME' for 'sm_90a'
//   ptxas info    : Used 27 registers, used 0 barriers
std::map<std::string, int> read_registers(int capability) {
  std::map<std::string, int> registers;
  const char* const* const report = &duet_kernel_resources;
  if (!report) return registers;
  std::istringstream lines(*report);
  const std::string target = fmt::format("' for 'sm_{}", capability);
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find("Compiling entry function '"); at != line.npos) {
      const size_t begin = line.find('\'', at) + 1, end = line.find(target, begin);
      name = end == line.npos ? "" : line.substr(begin, end - begin);
    } else if (const size_t used = line.find(": Used "); used != line.npos && !name.empty()) {
      const int count = std::atoi(line.c_str() + used + std::strlen(": Used "));
      const auto [at, is_new] = registers.try_emplace(name, count);
      if (!is_new) at->second = std::min(at->second, count);
    }
  }
  return registers;
}

uint64_t number_of(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The architecture that the device stands for; sm_90 unless DUET_SOFTGPU_ARCH says 80.
Limits chosen_limits() {
  Limits limits;
  const char* text = std::getenv("DUET_SOFTGPU_ARCH");
  const std::string arch = text && *text ? text : "90";
  if (arch == "80") {
    limits.capability = 80;
    limits.shared_opt_in_bytes = 163 << 10;
  } else if (arch != "90") {
    std::fprintf(stderr, "software GPU: DUET_SOFTGPU_ARCH=%s; 80 and 90 are known\n", text);
    std::_Exit(2);
  }
  return limits;
}

// No host code may follow a pointer into device memory: the range has no access, and the signal is explained. Then it
// takes its usual way.
struct sigaction former_action;
void explain_signal(int number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (Device::get().memory.contains(address)) {
    const std::string what = describe_device_address(address);
    std::fprintf(stderr, "software GPU: host code accesses device memory: %s\n", what.c_str());
  }
  sigaction(number, &former_action, nullptr);
}

void explain_host_accesses() {
  struct sigaction action {};
  action.sa_sigaction = explain_signal;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &former_action);
}
}  // namespace

const MemoryView* device_view_ = nullptr;

uint8_t* host_memory(uint64_t address, uint64_t bytes) {
  const auto& blocks = Device::get().host_blocks;
  auto at = blocks.upper_bound(address);
  if (at == blocks.begin()) return nullptr;
  --at;
  return address + bytes <= at->first + at->second ? reinterpret_cast<uint8_t*>(address) : nullptr;
}

std::string describe_device_address(uint64_t address) { return Device::get().memory.describe(address); }

// Never destroyed: destructors of the program's own static objects still use it.
Device& Device::get() {
  static Device* const device = new Device;
  return *device;
}

Device::Device()
    : limits(chosen_limits()),
      memory(limits.memory_bytes),
      order(memory),
      default_stream_(order.new_stream()),
      random_(number_of("DUET_SOFTGPU_SEED", 1)) {
  device_view_ = &memory.view();
  explain_host_accesses();
  options.reverse = number_of("DUET_SOFTGPU_REVERSE", 0) != 0;
  options.max_warp_instructions = number_of("DUET_SOFTGPU_BUDGET", options.max_warp_instructions);
  limits.multiprocessors =
      static_cast<int>(number_of("DUET_SOFTGPU_SMS", static_cast<uint64_t>(limits.multiprocessors)));
  allocations_until_failure = static_cast<int64_t>(number_of("DUET_SOFTGPU_FAIL_ALLOCATION", 0)) - 1;
}

void Device::add_program(const void* wrapper) {
  programs_.push_back(std::make_unique<Program>());
  programs_.back()->wrapper = wrapper;
}

// nvcc's code registers a program and then its functions and variables.
void Device::add_function(const void* stub, const char* name) {
  functions_[stub] = {name, nullptr};
  programs_of_[name].push_back(programs_.back().get());
}

// They live as long as the program.
void Device::add_constant(const void* shadow, const char* name, uint64_t bytes) {
  const std::string full = demangled(name);
  const size_t scope = full.rfind("::");
  const uint64_t address = memory.allocate_constant(bytes, scope == full.npos ? full : full.substr(scope + 2));
  constants_[shadow] = {address, bytes};
  programs_.back()->constants[name] = address;
}

const Device::Variable* Device::constant(const void* shadow) const {
  const auto found = constants_.find(shadow);
  return found == constants_.end() ? nullptr : &found->second;
}

void Device::read_modules(Program& p) const {
  if (p.read) return;
  std::vector<PtxText> all = ptx_of(p.wrapper);
  std::stable_sort(all.begin(), all.end(),
                   [](const PtxText& a, const PtxText& b) { return a.capability > b.capability; });
  for (PtxText& ptx : all)
    if (ptx.capability <= limits.capability)
      p.modules.push_back(std::make_unique<Module>(plant.ptx ? plant.ptx(std::move(ptx.text)) : std::move(ptx.text)));
  p.read = true;
}

Kernel& Device::kernel(const void* stub) {
  const auto found = functions_.find(stub);
  if (found == functions_.end()) throw Error("no kernel is registered for this function");
  Function& f = found->second;
  if (f.kernel) return *f.kernel;
  for (Program* p : programs_of_[f.name]) {
    read_modules(*p);
    for (const auto& module : p->modules)
      for (const EntryText& entry : module->entries())
        if (entry.name == f.name) {
          f.kernel = decode(*module, entry, p->constants);
          static const std::map<std::string, int> registers = read_registers(limits.capability);
          if (const auto known = registers.find(demangled(f.name)); known != registers.end())
            f.kernel->registers_per_thread = known->second;
          return *f.kernel;
        }
  }
  const std::string target = fmt::format("compute_{}{}", limits.capability, limits.capability == 90 ? "a" : "");
  throw Error("no PTX for {}: is the program compiled with --generate-code=arch={},code=[{}]?", readable_name(f.name),
              target, target);
}

Stream& Device::stream(void* handle) {
  auto* s = static_cast<Stream*>(handle);
  return reinterpret_cast<uintptr_t>(handle) <= 2 ? default_stream_ : *s;  // legacy and per-thread default streams
}

void Device::touch(uint64_t address, uint64_t bytes, bool writes) {
  order.touch(address, bytes, writes);
  if (scope_) scope_->require(address, bytes, writes, kNone);
}

void Device::enqueue(Stream& stream, Work work) {
  if (scope)
    work = [scope = scope, work = std::move(work)] {
      const Scope::Running running(scope.get());
      work();
    };
  if (stream.capture)
    stream.capture->work.push_back(std::move(work));
  else
    stream.queue.push_back({std::move(work), order.host});
}

void Device::run_one(Stream& stream) {
  const Stream::Enqueued next = std::move(stream.queue.front());
  stream.queue.pop_front();
  const bool several =
      streams.size() > 1 || (streams.size() == 1 && (&stream == &default_stream_ || !default_stream_.clock.empty() ||
                                                     !default_stream_.queue.empty()));
  const Order::Running running(order, stream.number, stream.clock, next.host);
  kernel_accesses_ = several ? &order : nullptr;
  next.work();
}

void Device::run_until(Stream& stream, const std::function<bool()>& done) {
  while (!stream.queue.empty() && !done()) run_one(stream);
}

void Device::run_all(Stream& stream) {
  run_until(stream, [] { return false; });
}

// One piece of work at a time, of a stream chosen by chance: streams have no order between them.
void Device::run_everything() {
  for (;;) {
    std::vector<Stream*> busy;
    if (!default_stream_.queue.empty()) busy.push_back(&default_stream_);
    for (Stream* s : streams)
      if (!s->queue.empty()) busy.push_back(s);
    if (busy.empty()) break;
    // By number: the choice is the same in every run, wherever the streams lie.
    std::sort(busy.begin(), busy.end(), [](const Stream* a, const Stream* b) { return a->number < b->number; });
    run_one(*busy[random_() % busy.size()]);
  }
  wait_for(default_stream_.clock);
  for (const Stream* s : streams) wait_for(s->clock);
}

void Device::write_entries(const std::string& path) const {
  std::map<std::string, uint64_t> launches;
  for (const auto& [stub, f] : functions_) launches[f.name] += f.kernel ? f.kernel->launches : 0;
  std::ofstream file(path);
  for (const auto& [name, count] : launches) file << count << ' ' << name << '\n';
  if (!file.flush()) throw Error("{} cannot be written", path);
}

std::vector<std::string> Device::leaks() const {
  std::vector<std::string> all;
  const auto add = [&](size_t count, const char* what) {
    if (count > 0) all.push_back(fmt::format("{} {} not released", count, what));
  };
  add(memory.allocations() - constants_.size(), "allocations of device memory");
  add(host_blocks.size(), "allocations of pinned memory");
  add(streams.size(), "streams");
  add(events.size(), "events");
  add(textures.size(), "textures");
  add(graphs.size(), "graphs");
  add(executable_graphs.size(), "executable graphs");
  return all;
}

}  // namespace duet::softgpu
