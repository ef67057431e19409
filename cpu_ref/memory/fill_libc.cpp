// SPDX-License-Identifier: Apache-2.0
// The C library's memset, each thread its share.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/memory/fill.h"

namespace duet {
namespace {

Plan fill_libc(const FillValue& p, CpuContext& cpu) {
  if (round_to(p.dtype, p.value) != 0) return Unsupported{"a value other than 0: memset knows bytes"};
  const int64_t bytes = p.n * size_of(p.dtype);
  const int64_t share = std::max<int64_t>(64 << 10, ceil_div(bytes, 64 * cpu.threads()) * 64);  // as copy_libc.cpp
  return [bytes, share, &cpu](Args t) {
    auto* y = static_cast<char*>(t[FillValue::y].data);
    cpu.parallel_for(ceil_div(bytes, share), 1, [&](int64_t first, int64_t last) {
      const int64_t from = first * share, to = std::min(bytes, last * share);
      std::memset(y + from, 0, static_cast<size_t>(to - from));
    });
  };
}
DUET_REGISTER(fill_libc);  // cpu.libc

}  // namespace
}  // namespace duet
