// SPDX-License-Identifier: Apache-2.0
// study/transfer by the C library's memcpy, one call for each thread.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/study/transfer.h"

namespace duet {
namespace {

Plan study_transfer_libc(const Transfer& p, CpuContext& cpu) {
  if (const char* reason = not_of_the_cpu(p)) return Unsupported{reason};
  return in_parts(p, cpu,
                  [](char* to, const char* from, int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); });
}
DUET_REGISTER(study_transfer_libc);  // cpu.libc

}  // namespace
}  // namespace duet
