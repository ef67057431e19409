// SPDX-License-Identifier: Apache-2.0
// The device that the runtime (runtime.cpp) hands out: its memory, the kernels of the program, streams, and what went
// wrong.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "softgpu/execute.h"
#include "softgpu/memory.h"
#include "softgpu/order.h"
#include "softgpu/scope.h"

namespace duet::softgpu {

using Work = std::function<void()>;

struct Graph {
  std::vector<Work> work;
};
// Work runs at the latest moment that CUDA allows: when the host waits for it. So a missing wait is seen.
struct Stream {
  explicit Stream(int number) : number(number) {}
  struct Enqueued {
    Work work;
    Clock host;  // of the moment it was enqueued
  };
  const int number;
  Clock clock;
  std::deque<Enqueued> queue;
  std::unique_ptr<Graph> capture;  // while it records
  bool capture_failed = false;
};
// A wait refers to the record that was the latest when it was enqueued, whatever becomes of the event and its stream.
struct Event {
  struct Record {
    Stream* stream;        // not used once it is done: the stream may be destroyed then
    const Graph* capture;  // that recorded it; null where none did
    bool done = false;
    Clock clock = {};  // of the stream, when the event took place
    double time_s = 0;
  };
  std::shared_ptr<Record> latest;
};

// What a kernel needs of an architecture to be launched.
struct Limits {
  int capability = 90;
  uint32_t max_threads = 1024, max_block_z = 64, max_grid_yz = 65535;
  uint32_t registers = 65536, registers_unit = 256;  // of a block; a warp gets whole units
  uint32_t shared_bytes = 48 << 10, shared_opt_in_bytes = 227 << 10;
  int multiprocessors = 4;  // few, so that small cases have several blocks on each
  int l2_bytes = 1 << 20;   // small, so that emptying it is cheap
  uint64_t memory_bytes = uint64_t{8} << 30;
  uint64_t texture_alignment = 512, texture_elements = uint64_t{1} << 28;  // over linear memory
};

class Device {
 public:
  static Device& get();

  Limits limits;
  DeviceMemory memory;
  Order order;
  ExecutorOptions options;
  ExecutorCounts counts;
  uint64_t bytes_to_host = 0;  // that copies took there

  // Kernels, by the address of their stub in the host program.
  void add_program(const void* wrapper);
  void add_function(const void* stub, const char* name);
  Kernel& kernel(const void* stub);  // throws Error
  // Variables in constant memory, by the address of their shadow in the host program.
  struct Variable {
    uint64_t address, bytes;
  };
  void add_constant(const void* shadow, const char* name, uint64_t bytes);
  const Variable* constant(const void* shadow) const;  // null where none is registered
  std::map<const void*, int> dynamic_shared;           // what cudaFuncSetAttribute allows beyond limits.shared_bytes

  // Streams. run_until: until the condition holds or nothing is left. Throws what the work throws.
  Stream& stream(void* handle);  // of a cudaStream_t
  void enqueue(Stream& stream, Work work);
  std::shared_ptr<const Scope> scope;  // of what is enqueued from now on; null: none
  // The running work touches memory other than by a kernel. Throws Fault where another stream does so without an order
  // between them, and outside of the work's scope.
  void touch(uint64_t address, uint64_t bytes, bool writes);
  void wait_for(const Clock& clock) { join(order.host, clock); }  // the host knows of this work from now on
  void run_until(Stream& stream, const std::function<bool()>& done);
  void run_all(Stream& stream);
  void run_everything();  // and the host has waited for it

  struct Texture {
    uint64_t address, elements;
    char kind;  // of an element of 32 bits: f, s or u
  };
  std::map<uint64_t, Texture> textures;  // by their handles, of which none is used again
  uint64_t next_texture = 1;

  std::map<uint64_t, uint64_t> host_blocks;  // pinned memory: address, bytes
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Graph*> graphs, executable_graphs;
  std::set<uint64_t> being_freed;  // by cudaFreeAsync, not yet in effect

  std::string first_error;  // of a kernel: the device is lost from then on
  Fault::Kind first_error_kind = Fault::Kind::launch;
  std::string latest_message;              // of a call that was refused
  int64_t allocations_until_failure = -1;  // for tests: the allocation that fails; negative: none

  // Planted errors, for tests: changes of a module's PTX before it is read, and of what the program asks for.
  struct Plant {
    std::function<std::string(std::string)> ptx;
    std::function<void(Launch&)> launch;
    std::function<bool()> drop_fill;  // whether this cudaMemset is not carried out
  } plant;

  // A line for each kernel of the program: how often it was launched, and its mangled name.
  void write_entries(const std::string& path) const;
  // What was not released, one line each.
  std::vector<std::string> leaks() const;

 private:
  Device();
  struct Program {
    const void* wrapper;
    std::vector<std::unique_ptr<Module>> modules;
    Addresses constants;
    bool read = false;
  };
  std::vector<std::unique_ptr<Program>> programs_;
  struct Function {
    std::string name;
    std::unique_ptr<Kernel> kernel;
  };
  std::unordered_map<const void*, Function> functions_;
  std::unordered_map<const void*, Variable> constants_;
  // By the kernel's name. Several objects may have a template, while the linker keeps the launch by one of them, and
  // not each has PTX for this architecture.
  std::unordered_map<std::string, std::vector<Program*>> programs_of_;
  void read_modules(Program& program) const;
  void run_one(Stream& stream);
  Stream default_stream_;
  std::mt19937_64 random_;
};

}  // namespace duet::softgpu
