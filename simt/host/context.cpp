// SPDX-License-Identifier: Apache-2.0
// The context of simt.*: device memory on the host, and open_simt(), which makes the context.
#include "simt/host/context.h"

#include <cstring>

#include "core/error.h"
#include "simt/host/checker.h"
#include "simt/host/executor.h"
#include "simt/host/memory.h"

namespace duet {

std::unique_ptr<Context> open_simt(std::string&, const SimtOptions& options) {
  static simt::host::Memory memory;
  simt::host::the_memory = &memory;
  return std::make_unique<simt::GpuContext>(options);
}

namespace simt {
using namespace host;
namespace {
constexpr uint8_t kPoison = 0xFF;
}  // namespace

std::string GpuContext::describe() const {
  const char* order = options_.order == SimtOptions::Order::forward   ? "forward"
                      : options_.order == SimtOptions::Order::reverse ? "reverse"
                                                                      : "shuffled";
  return fmt::format("kernels on the host, {} order, as for {} multiprocessors of sm_{}", order,
                     options_.multiprocessors, options_.capability);
}

void* GpuContext::allocate(int64_t bytes) {
  if (bytes < 0) throw Error("allocation of {} bytes", bytes);
  return device_memory().allocate(static_cast<size_t>(bytes), "memory", false, 1).base;
}
void GpuContext::release(void* memory, int64_t) noexcept { device_memory().release(memory); }

void GpuContext::declare(void* memory, int64_t bytes, int64_t element_bytes, const std::string& name) {
  Region* r = device_memory().find(memory);
  if (!r) throw Error("declare: '{}' is not in device memory", name);
  r->first = static_cast<size_t>(static_cast<char*>(memory) - r->base);
  r->end = r->first + static_cast<size_t>(bytes);
  r->element = static_cast<size_t>(element_bytes);
  r->name = name;
}

void GpuContext::fill_bytes(void* to, uint8_t value, int64_t bytes) {
  if (bytes > 0) std::memset(to, value, static_cast<size_t>(bytes));
  mark(to, bytes, value != kPoison);
}
void GpuContext::upload(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  mark(to, bytes, true);
}
void GpuContext::download(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void GpuContext::enter(const std::function<void()>& work) {
  host::settings = {static_cast<Order>(options_.order), options_.seed, options_.blocks, options_.capability};
  work();
}

}  // namespace simt
}  // namespace duet
