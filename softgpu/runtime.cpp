// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA runtime that Duet calls, for the device in software. A program that links this folder
// instead of libcudart_static.a runs unchanged; a function that is missing is a link error. Here: what nvcc's own code
// calls, launches, memory and copies.
#include "softgpu/runtime.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace duet::softgpu {
namespace {
bool injected_failure() {
  int64_t& left = device().allocations_until_failure;
  return left >= 0 && left-- == 0;
}

cudaError_t allocate(void** memory, size_t bytes, const char* what) {
  if (breaks_capture()) return in_capture(what);
  if (bytes == 0) {
    *memory = nullptr;
    return cudaSuccess;
  }
  *memory = nullptr;
  if (!injected_failure()) {
    *memory = device().memory.allocate(bytes);
    if (!*memory && bytes <= device().memory.capacity()) {  // what is being released may be enough
      device().run_everything();
      *memory = device().memory.allocate(bytes);
    }
  }
  return *memory ? cudaSuccess : refuse(cudaErrorMemoryAllocation);
}

cudaError_t release_now(void* memory) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  device().being_freed.erase(address);
  const auto [begin, bytes] = device().memory.allocation_at(address);
  device().order.touch(begin, bytes, true);
  device().order.forget(begin, bytes);
  if (!device().memory.release(memory))
    return refuse(cudaErrorInvalidValue, "released memory: " + device().memory.describe(address));
  return cudaSuccess;
}

// Pinned memory, or any other of the host's.
bool is_pinned(const void* p, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(p);
  auto at = device().host_blocks.upper_bound(address);
  if (at == device().host_blocks.begin()) return false;
  --at;
  return address + bytes <= at->first + at->second;
}

// Memory of the host that kernels reach as well: the device reads and writes it where it lies, so that mapped and
// managed memory are the same here.
cudaError_t allocate_host(void** memory, size_t bytes, const char* what) {
  if (breaks_capture()) return in_capture(what);
  constexpr size_t kPage = 4096;
  *memory = injected_failure() ? nullptr : std::aligned_alloc(kPage, (bytes + kPage) / kPage * kPage);
  if (!*memory) return refuse(cudaErrorMemoryAllocation);
  std::memset(*memory, 0xFF, bytes);
  device().host_blocks[reinterpret_cast<uint64_t>(*memory)] = bytes;
  return cudaSuccess;
}
bool release_host(void* memory) {
  if (device().host_blocks.erase(reinterpret_cast<uint64_t>(memory)) == 0) return false;
  std::free(memory);
  return true;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  if (!is_stream(handle)) return refuse(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  Device& d = device();
  Stream& stream = d.stream(handle);
  const auto to_address = reinterpret_cast<uint64_t>(to), from_address = reinterpret_cast<uint64_t>(from);
  const bool to_device = d.memory.contains(to_address), from_device = d.memory.contains(from_address);
  const bool as_told = kind == cudaMemcpyDefault || (kind == cudaMemcpyHostToDevice && to_device && !from_device) ||
                       (kind == cudaMemcpyDeviceToHost && !to_device && from_device) ||
                       (kind == cudaMemcpyDeviceToDevice && to_device && from_device) ||
                       (kind == cudaMemcpyHostToHost && !to_device && !from_device);
  if (!as_told)
    return refuse(
        cudaErrorInvalidMemcpyDirection,
        fmt::format("a copy from {} to {} memory", from_device ? "device" : "host", to_device ? "device" : "host"));
  if (to_device && from_device) {
    d.enqueue(stream, [=, &d] {
      d.touch(from_address, bytes, false);
      d.touch(to_address, bytes, true);
      d.memory.copy(to_address, from_address, bytes);
    });
  } else if (to_device) {
    if (stream.capture || is_pinned(from, bytes)) {
      d.enqueue(stream, [=, &d] {
        d.touch(to_address, bytes, true);
        d.memory.write(to_address, from, bytes);
      });
    } else {
      auto staged = std::make_shared<std::vector<uint8_t>>(static_cast<const uint8_t*>(from),
                                                           static_cast<const uint8_t*>(from) + bytes);
      d.enqueue(stream, [=, &d] {
        d.touch(to_address, bytes, true);
        d.memory.write(to_address, staged->data(), bytes);
      });
    }
  } else if (from_device) {
    d.enqueue(stream, [=, &d] {
      d.touch(from_address, bytes, false);
      d.memory.read(to, from_address, bytes);
      d.bytes_to_host += bytes;
    });
    if (!stream.capture && !is_pinned(to, bytes)) {
      d.run_all(stream);
      d.wait_for(stream.clock);
    }
  } else {
    d.enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  }
  return cudaSuccess;
}

// Of a warp, which gets whole units.
uint32_t registers_of_warp(const Kernel& k) {
  const uint32_t each = static_cast<uint32_t>(k.registers_per_thread) * kLanes, unit = device().limits.registers_unit;
  return (each + unit - 1) / unit * unit;
}

cudaError_t check_limits(const Kernel& k, const void* stub, const Launch& l) {
  const Device& d = device();
  const Limits& limits = d.limits;
  const auto bad = [&](const std::string& why) {
    return refuse(cudaErrorInvalidConfiguration, readable_name(k.name) + ": " + why);
  };
  if (l.grid.volume() == 0 || l.block.volume() == 0) return bad("an empty grid or block");
  const uint32_t max_threads =
      k.max_threads > 0 ? std::min(limits.max_threads, static_cast<uint32_t>(k.max_threads)) : limits.max_threads;
  if (l.block.volume() > max_threads) return bad(fmt::format("{} threads; at most {}", l.block.volume(), max_threads));
  const auto warps = static_cast<uint32_t>((l.block.volume() + kLanes - 1) / kLanes);
  if (registers_of_warp(k) * warps > limits.registers)
    return refuse(cudaErrorLaunchOutOfResources,
                  fmt::format("{}: {} threads of {} registers; a block has {}", readable_name(k.name), l.block.volume(),
                              k.registers_per_thread, limits.registers));
  if (l.block.z > limits.max_block_z)
    return bad(fmt::format("a block of depth {}; at most {}", l.block.z, limits.max_block_z));
  if (l.grid.y > limits.max_grid_yz || l.grid.z > limits.max_grid_yz || l.grid.x > INT32_MAX)
    return bad(fmt::format("a grid of {} x {} x {} blocks", l.grid.x, l.grid.y, l.grid.z));
  const auto granted = d.dynamic_shared.find(stub);
  const uint32_t shared = k.shared_bytes + l.dynamic_shared_bytes;
  const uint32_t allowed =
      granted == d.dynamic_shared.end()
          ? limits.shared_bytes
          : std::max<uint32_t>(limits.shared_bytes, k.shared_bytes + static_cast<uint32_t>(granted->second));
  if (shared > allowed)
    return refuse(cudaErrorInvalidValue, fmt::format("{}: {} bytes of shared memory where {} are allowed",
                                                     readable_name(k.name), shared, allowed));
  return cudaSuccess;
}

// Of a kernel, on a multiprocessor at once: by warps, registers as far as they are known, and shared memory.
uint64_t resident_blocks(const Kernel& k, uint64_t threads, size_t shared) {
  constexpr uint64_t kMaxWarps = 64, kMaxBlocks = 32;  // of a multiprocessor
  constexpr uint64_t kParts = 4;              // of a multiprocessor: each has a part of the registers, for whole warps
  constexpr uint64_t kSystemBytes = 1 << 10;  // of shared memory, for each block; one block may have all others
  const Limits& limits = device().limits;
  const uint64_t registers = registers_of_warp(k), warps = (threads + kLanes - 1) / kLanes;
  const uint64_t max_warps =
      registers == 0 ? kMaxWarps : std::min(kMaxWarps, limits.registers / kParts / registers * kParts);
  return std::min({kMaxBlocks, max_warps / warps,
                   (limits.shared_opt_in_bytes + kSystemBytes) / (k.shared_bytes + shared + kSystemBytes)});
}

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t handle,
                   bool cooperative = false) {
  if (!is_stream(handle)) return refuse(cudaErrorInvalidResourceHandle);
  Device& d = device();
  Kernel* kernel = nullptr;
  try {
    kernel = &d.kernel(stub);
  } catch (const Error& e) {
    std::fprintf(stderr, "software GPU: %s\n", e.what());
    return refuse(cudaErrorInvalidPtx, e.what());
  }
  Launch l;
  l.kernel = kernel;
  l.grid = {grid.x, grid.y, grid.z};
  l.block = {block.x, block.y, block.z};
  l.dynamic_shared_bytes = static_cast<uint32_t>(shared);
  l.cooperative = cooperative;
  if (const cudaError_t status = check_limits(*kernel, stub, l); status != cudaSuccess) return status;
  const uint64_t resident =
      static_cast<uint64_t>(d.limits.multiprocessors) * resident_blocks(*kernel, l.block.volume(), shared);
  if (cooperative && l.grid.volume() > resident)
    return refuse(
        cudaErrorCooperativeLaunchTooLarge,
        fmt::format("{}: {} blocks, of which {} fit", readable_name(kernel->name), l.grid.volume(), resident));
  l.parameters.resize(static_cast<size_t>(kernel->parameter_bytes));
  for (size_t p = 0; p < kernel->parameters.size(); ++p)
    std::memcpy(l.parameters.data() + kernel->parameters[p].offset, arguments[p],
                static_cast<size_t>(kernel->parameters[p].bytes));
  if (d.plant.launch) d.plant.launch(l);
  d.enqueue(d.stream(handle), [&d, kernel, l = std::move(l)] {
    ++kernel->launches;
    execute(l, d.options, d.counts);
  });
  return cudaSuccess;
}

// At the end of the program: what it did not release, and how much was run. A leak is an error.
struct AtExit {
  ~AtExit() {
    const ExecutorCounts& c = device().counts;
    if (std::getenv("DUET_SOFTGPU_COUNTS"))
      std::fprintf(stderr,
                   "software GPU: %llu launches, %llu blocks, %.3g thread instructions in %.2f s: %.3g a second\n",
                   static_cast<unsigned long long>(c.launches), static_cast<unsigned long long>(c.blocks),
                   static_cast<double>(c.thread_instructions), c.seconds,
                   static_cast<double>(c.thread_instructions) / std::max(c.seconds, 1e-9));
    if (const char* path = std::getenv("DUET_SOFTGPU_ENTRIES"); path && *path) device().write_entries(path);
    if (!device().first_error.empty()) return;  // after a failure, nothing can be released
    const auto leaks = device().leaks();
    for (const std::string& leak : leaks)
      std::fprintf(stderr, "software GPU: at the end of the program: %s\n", leak.c_str());
    if (leaks.empty()) return;
    std::fflush(nullptr);
    _exit(70);
  }
};

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local Configuration configured;
}  // namespace
}  // namespace duet::softgpu

using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

extern "C" {

// For core/: a part of an allocation, which kernels may touch.
void duet_softgpu_declare(void* memory, size_t bytes, const char* name) {
  const std::lock_guard lock(runtime_mutex());
  device().memory.declare(memory, bytes, name);
}

void duet_softgpu_scope(const char* job, const duet::ScopedTensor* tensors, size_t count) {
  const std::lock_guard lock(runtime_mutex());
  device().scope = count > 0 ? std::make_shared<const Scope>(job, tensors, count) : nullptr;
}

// What nvcc's host code calls before main(), by its names.
// NOLINTBEGIN(readability-identifier-naming)
void** __cudaRegisterFatBinary(void* wrapper) {
  static const AtExit at_exit;  // made first, so it is destroyed after all that uses the device
  device().add_program(wrapper);
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  device().add_function(stub, name);
}
// Others than in constant memory, which only CUB's headers have, are used by no kernel.
void __cudaRegisterVar(void**, char* shadow, char*, const char* name, int, size_t bytes, int constant, int) {
  if (constant) device().add_constant(shadow, name, bytes);
}
// <<<>>>, which CUB uses, stores what is between the brackets here, and calls a function that takes it back.
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configured = {grid, block, shared, static_cast<cudaStream_t>(stream)};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = configured.grid;
  *block = configured.block;
  *shared = configured.shared;
  *static_cast<cudaStream_t*>(stream) = configured.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return call([&] { return launch(kernel, grid, block, arguments, shared, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* stub, void** arguments) {
  return call([&] {
    bool cooperative = false;
    for (unsigned i = 0; i < c->numAttrs; ++i) {
      if (c->attrs[i].id != cudaLaunchAttributeCooperative)
        return refuse(cudaErrorNotSupported, "a launch with an attribute other than that it is cooperative");
      cooperative = c->attrs[i].val.cooperative != 0;
    }
    return launch(stub, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream, cooperative);
  });
}
cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  return call([&] {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
      return refuse(cudaErrorNotSupported, "this attribute of a function");
    const Kernel& k = device().kernel(stub);
    if (value < 0 || k.shared_bytes + static_cast<uint32_t>(value) > device().limits.shared_opt_in_bytes)
      return refuse(cudaErrorInvalidValue,
                    fmt::format("{} bytes of dynamic shared memory beside {} static ones", value, k.shared_bytes));
    device().dynamic_shared[stub] = value;
    return cudaSuccess;
  });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* stub) {
  return call([&] {
    const Kernel& k = device().kernel(stub);
    *a = {};
    a->sharedSizeBytes = k.shared_bytes;
    a->localSizeBytes = k.local_bytes;
    a->numRegs = k.registers_per_thread;
    a->maxThreadsPerBlock = k.max_threads > 0 ? k.max_threads : static_cast<int>(device().limits.max_threads);
    a->ptxVersion = a->binaryVersion = device().limits.capability;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int threads, size_t shared) {
  return call([&] {
    if (threads < 1 || static_cast<uint32_t>(threads) > device().limits.max_threads)
      return refuse(cudaErrorInvalidValue);
    *blocks = static_cast<int>(resident_blocks(device().kernel(stub), static_cast<uint64_t>(threads), shared));
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int threads,
                                                                   size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, stub, threads, shared);
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return call([&] { return allocate(memory, bytes, "cudaMalloc"); });
}
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream) {
  return call([&] {
    if (!is_stream(stream)) return refuse(cudaErrorInvalidResourceHandle);
    return allocate(memory, bytes, "cudaMallocAsync");
  });
}
cudaError_t cudaFree(void* memory) {
  return call([&] {
    if (breaks_capture()) return in_capture("cudaFree");
    if (!memory) return cudaSuccess;
    device().run_everything();
    return release_host(memory) ? cudaSuccess : release_now(memory);  // the former where it is managed
  });
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return call([&] {
    if (breaks_capture()) return in_capture("cudaFreeAsync");
    if (!memory) return cudaSuccess;
    if (!device().being_freed.insert(reinterpret_cast<uint64_t>(memory)).second)
      return refuse(cudaErrorInvalidValue, "memory is released twice");
    device().enqueue(device().stream(stream), [memory] {
      if (release_now(memory) != cudaSuccess) fault(device().latest_message);
    });
    return cudaSuccess;
  });
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return call([&] { return allocate_host(memory, bytes, "cudaMallocHost"); });
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return call([&] { return allocate_host(memory, bytes, "cudaHostAlloc"); });
}
cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned) {
  return call([&] { return allocate_host(memory, bytes, "cudaMallocManaged"); });
}
cudaError_t cudaFreeHost(void* memory) {
  return call([&] {
    if (breaks_capture()) return in_capture("cudaFreeHost");
    device().run_everything();
    return release_host(memory) ? cudaSuccess
                                : refuse(cudaErrorInvalidValue, "pinned memory is released that does not exist");
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  return call([&] {
    *attributes = {};
    if (device().memory.contains(reinterpret_cast<uint64_t>(memory)))
      attributes->type = cudaMemoryTypeDevice;
    else if (is_pinned(memory, 1))  // or managed
      attributes->type = cudaMemoryTypeHost;
    return cudaSuccess;
  });
}
// Nothing moves: managed memory has one place here.
cudaError_t cudaMemPrefetchAsync(const void* memory, size_t bytes, cudaMemLocation, unsigned, cudaStream_t stream) {
  return call([&] {
    if (!is_stream(stream)) return refuse(cudaErrorInvalidResourceHandle);
    return is_pinned(memory, bytes) ? cudaSuccess : refuse(cudaErrorInvalidValue, "memory that is not managed");
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] { return copy(to, from, bytes, kind, stream); });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call([&] {
    if (breaks_capture()) return in_capture("cudaMemcpy");
    // On the default stream: streams of Duet are non-blocking, so it does not wait for them.
    Stream& s = device().stream(nullptr);
    const cudaError_t status = copy(to, from, bytes, kind, nullptr);
    device().run_all(s);
    device().wait_for(s.clock);
    return status;
  });
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] {
    const Device::Variable* const v = device().constant(symbol);
    if (!v) return refuse(cudaErrorInvalidSymbol);
    if (offset > v->bytes || bytes > v->bytes - offset)
      return refuse(cudaErrorInvalidValue,
                    fmt::format("a copy of {} bytes to byte {} of a variable of {} bytes", bytes, offset, v->bytes));
    return copy(reinterpret_cast<void*>(v->address + offset), from, bytes, kind, stream);
  });
}
cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return call([&] {
    const Device::Variable* const v = device().constant(symbol);
    if (!v) return refuse(cudaErrorInvalidSymbol);
    *address = reinterpret_cast<void*>(v->address);
    return cudaSuccess;
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return call([&] {
    if (!is_stream(stream)) return refuse(cudaErrorInvalidResourceHandle);
    Device& d = device();
    const auto address = reinterpret_cast<uint64_t>(to);
    if (bytes > 0 && !(d.plant.drop_fill && d.plant.drop_fill()))
      d.enqueue(d.stream(stream), [=, &d] {
        d.touch(address, bytes, true);
        d.memory.fill(address, static_cast<uint8_t>(value), bytes);
      });
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&] {
    *total = device().memory.capacity();
    *free = *total - device().memory.used();
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  const uint64_t none = 0;  // released memory goes back to the device at once
  std::memcpy(value, &none, sizeof none);
  return cudaSuccess;
}
}
// NOLINTEND(readability-identifier-naming)
