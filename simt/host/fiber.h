// SPDX-License-Identifier: Apache-2.0
// Stacks that one OS thread switches between: what the executor runs a CUDA thread on. On x86-64 a switch is about
// twenty instructions; elsewhere it is ucontext, which makes two system calls for a switch.
#pragma once
#include <cstddef>
#include <cstdint>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace duet::simt::host {

struct Fiber {
  char* base = nullptr;  // lowest usable byte
  size_t size = 0;
#ifdef __x86_64__
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

#ifdef __x86_64__
extern "C" void duet_switch_stack(void** save, void* to);
// Callee-saved registers are pushed on the stack that is left. endbr64 is a no-op where the CPU does not track
// branches.
asm(R"(
.pushsection .text
.local duet_switch_stack
.type duet_switch_stack,@function
duet_switch_stack:
  endbr64
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size duet_switch_stack,.-duet_switch_stack
.popsection
)");
inline void switch_fiber(Fiber& from, Fiber& to) { duet_switch_stack(&from.stack_pointer, to.stack_pointer); }
// The first switch to `fiber` calls entry, which never returns.
inline void prepare(Fiber& fiber, void (*entry)()) {
  auto** top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(fiber.base) + fiber.size) & ~uintptr_t{15});
  *--top = nullptr;  // in place of a return address of entry: gives entry the stack alignment of the ABI
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  fiber.stack_pointer = top;
}
#else
inline void switch_fiber(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }
inline void prepare(Fiber& fiber, void (*entry)()) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.base;
  fiber.context.uc_stack.ss_size = fiber.size;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
}
#endif

}  // namespace duet::simt::host
