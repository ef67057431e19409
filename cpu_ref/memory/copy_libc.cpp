// SPDX-License-Identifier: Apache-2.0
// copy by the C library's memcpy, one call for each thread: a baseline for copy_tuned.cpp.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/copy.h"

namespace duet {
namespace {

Plan copy_libc(const Copy& p, CpuContext& cpu) {
  const int64_t bytes = p.n * size_of(p.dtype);
  // One call for each thread, not several smaller ones: the library chooses non-temporal stores by the length of one
  // call.
  const int64_t bytes_per_task = std::max<int64_t>(64 << 10, ceil_div(bytes, 64 * cpu.threads()) * 64);
  return [bytes, bytes_per_task, &cpu](Args t) {
    const auto* x = static_cast<const char*>(t[Copy::x].data);
    auto* y = static_cast<char*>(t[Copy::y].data);
    cpu.parallel_for(ceil_div(bytes, bytes_per_task), 1, [&](int64_t first, int64_t last) {
      const int64_t from = first * bytes_per_task, to = std::min(bytes, last * bytes_per_task);
      std::memcpy(y + from, x + from, static_cast<size_t>(to - from));
    });
  };
}
DUET_REGISTER(copy_libc);  // cpu.libc

}  // namespace
}  // namespace duet
