// SPDX-License-Identifier: Apache-2.0
// fill with 0 by the C library's memset, one call for each thread: a baseline for fill_tuned.cpp.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/memory/fill.h"

namespace duet {
namespace {

Plan fill_libc(const FillValue& p, CpuContext& cpu) {
  if (round_to(p.dtype, p.value) != 0) return Unsupported{"a value other than 0: memset writes bytes"};
  const int64_t bytes = p.n * size_of(p.dtype);
  const int64_t bytes_per_task =
      std::max<int64_t>(64 << 10, ceil_div(bytes, 64 * cpu.threads()) * 64);  // see copy_libc.cpp
  return [bytes, bytes_per_task, &cpu](Args t) {
    auto* y = static_cast<char*>(t[FillValue::y].data);
    cpu.parallel_for(ceil_div(bytes, bytes_per_task), 1, [&](int64_t first, int64_t last) {
      const int64_t from = first * bytes_per_task, to = std::min(bytes, last * bytes_per_task);
      std::memset(y + from, 0, static_cast<size_t>(to - from));
    });
  };
}
DUET_REGISTER(fill_libc);  // cpu.libc

}  // namespace
}  // namespace duet
