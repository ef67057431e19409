// SPDX-License-Identifier: Apache-2.0
// The functions that the compiler calls from kernel files: before each load and store (-fsanitize=thread), where a rule
// of C++ is broken (-fsanitize=alignment,bounds and others, see simt/CMakeLists.txt), and in each basic block
// (-fsanitize-coverage=trace-pc). No sanitizer library is linked: the calls end here, and only kernel files make them.
#include <cstdint>

#include "simt/host/checker.h"
#include "simt/host/executor.h"
#include "simt/host/profile.h"

using namespace duet::simt::host;

#define DUET_CALLER __builtin_return_address(0)

// Most accesses are to these, and need no check.
static bool is_of_thread(const void* address) { return on_fiber_stack(address) || is_argument(address); }

extern "C" {

void __sanitizer_cov_trace_pc();
void __sanitizer_cov_trace_pc() {
  if (!running) return;
  if (--steps_left < 0) out_of_steps(DUET_CALLER);
  if (profile) profile->basic_block(current_thread, pc_of(DUET_CALLER));
}

void __tsan_init() {}
void __tsan_func_entry(void*) {
  if (running) check_stack(__builtin_frame_address(0), DUET_CALLER);
}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define DUET_ACCESS(name, bytes, kind, aligned)                                                            \
  void name(void* p) {                                                                                     \
    if (running && !is_of_thread(p)) Checker::access(p, bytes, Access::kind, pc_of(DUET_CALLER), aligned); \
  }                                                                                                        \
  static_assert(bytes <= 16)
#define DUET_ACCESSES(bytes)                                            \
  DUET_ACCESS(__tsan_read##bytes, bytes, load, true);                   \
  DUET_ACCESS(__tsan_write##bytes, bytes, store, true);                 \
  DUET_ACCESS(__tsan_unaligned_read##bytes, bytes, load, false);        \
  DUET_ACCESS(__tsan_unaligned_write##bytes, bytes, store, false);      \
  DUET_ACCESS(__tsan_volatile_read##bytes, bytes, volatile_load, true); \
  DUET_ACCESS(__tsan_volatile_write##bytes, bytes, volatile_store, true)
DUET_ACCESSES(1);
DUET_ACCESSES(2);
DUET_ACCESSES(4);
DUET_ACCESSES(8);
DUET_ACCESSES(16);
void __tsan_read_range(void* p, size_t n) {
  if (running && n > 0) Checker::access(p, n, Access::load, pc_of(DUET_CALLER));
}
void __tsan_write_range(void* p, size_t n) {
  if (running && n > 0) Checker::access(p, n, Access::store, pc_of(DUET_CALLER));
}

// C++ atomics occur in the host code of kernel files only (shared pointers, function-local statics); device code uses
// CUDA's atomics.
#define DUET_ATOMICS(bits, T)                                                                                       \
  T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }           \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }           \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_or(volatile T* p, T v, int) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }   \
  T __tsan_atomic##bits##_fetch_and(volatile T* p, T v, int) { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); } \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* c, T v, int, int) {                           \
    return __atomic_compare_exchange_n(p, c, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                         \
  }                                                                                                                 \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* c, T v, int, int) {                             \
    return __atomic_compare_exchange_n(p, c, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                          \
  }                                                                                                                 \
  static_assert(8 * sizeof(T) == bits)
DUET_ATOMICS(8, uint8_t);
DUET_ATOMICS(16, uint16_t);
DUET_ATOMICS(32, uint32_t);
DUET_ATOMICS(64, uint64_t);
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

// Each record that the compiler passes for a broken rule begins with a place in the source.
struct DuetBrokenRule {
  const char* file;
  uint32_t line, column;
};
}

static void broken(const DuetBrokenRule* rule, const char* what) {
  if (running) stop(std::string(what) + " at " + rule->file + ":" + std::to_string(rule->line));
}

extern "C" {
void __ubsan_handle_type_mismatch_v1(DuetBrokenRule* r, uintptr_t) { broken(r, "misaligned address"); }
void __ubsan_handle_out_of_bounds(DuetBrokenRule* r, uintptr_t) { broken(r, "index past the end of an array"); }
void __ubsan_handle_add_overflow(DuetBrokenRule* r, uintptr_t, uintptr_t) { broken(r, "integer overflow"); }
void __ubsan_handle_sub_overflow(DuetBrokenRule* r, uintptr_t, uintptr_t) { broken(r, "integer overflow"); }
void __ubsan_handle_mul_overflow(DuetBrokenRule* r, uintptr_t, uintptr_t) { broken(r, "integer overflow"); }
void __ubsan_handle_divrem_overflow(DuetBrokenRule* r, uintptr_t, uintptr_t) {
  broken(r, "division by zero or overflow");
}
void __ubsan_handle_shift_out_of_bounds(DuetBrokenRule* r, uintptr_t, uintptr_t) { broken(r, "shift by too much"); }
void __ubsan_handle_negate_overflow(DuetBrokenRule* r, uintptr_t) { broken(r, "integer overflow"); }
}
