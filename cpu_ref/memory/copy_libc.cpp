// SPDX-License-Identifier: Apache-2.0
// The C library's memcpy, each thread its share.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/copy.h"

namespace duet {
namespace {

Plan copy_libc(const Copy& p, CpuContext& cpu) {
  const int64_t bytes = p.n * size_of(p.dtype);
  // One memcpy per thread and no smaller: the library chooses non-temporal stores by the length of a single call.
  const int64_t share = std::max<int64_t>(64 << 10, ceil_div(bytes, 64 * cpu.threads()) * 64);
  return [bytes, share, &cpu](Args t) {
    const auto* x = static_cast<const char*>(t[Copy::x].data);
    auto* y = static_cast<char*>(t[Copy::y].data);
    cpu.parallel_for(ceil_div(bytes, share), 1, [&](int64_t first, int64_t last) {
      const int64_t from = first * share, to = std::min(bytes, last * share);
      std::memcpy(y + from, x + from, static_cast<size_t>(to - from));
    });
  };
}
DUET_REGISTER(copy_libc);  // cpu.libc

}  // namespace
}  // namespace duet
