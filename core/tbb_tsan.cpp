// SPDX-License-Identifier: Apache-2.0
// oneTBB in a build for ThreadSanitizer. The system's libtbb is not instrumented, so ThreadSanitizer does not see that
// a task runs after its spawn, nor that the caller of a loop goes on after all of its tasks: every loop's body would
// seem to race with its caller. Suppressing reports from oneTBB would hide the races of bodies, which it calls.
//
// The functions of namespace tbb here take the place of oneTBB's in the whole program: a program's own symbols come
// before a library's. They call oneTBB's and tell ThreadSanitizer the order that these guarantee, and no more: two
// tasks of one loop stay unordered, so that a race between them is found. They are all that parallel_for,
// parallel_reduce and task_arena::execute call and that hands work or memory from thread to thread. Other parts of
// oneTBB (task_group, flow graphs, task_arena::enqueue) need more functions here.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {
namespace d1 = tbb::detail::d1;

// The function of libtbb that has this name, by which the compiler knows it.
template <class Function>
Function* next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found) return reinterpret_cast<Function*>(found);
  std::fprintf(stderr, "libtbb has no %s\n", name);
  std::abort();
}

// Memory of tasks comes from ThreadSanitizer's allocator, since oneTBB's pools hand it from thread to thread unseen.
// oneTBB may also release in one thread what it has allocated in another. No `new`: tests count the program's own.
void* allocate_task(size_t bytes) {
  constexpr size_t unit = d1::task_alignment;
  void* const memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (!memory) std::abort();
  __tsan_release(memory);
  return memory;
}
void release_task(void* memory) {
  __tsan_acquire(memory);
  std::free(memory);
}

// Runs a task of the program, behind the thread that spawned it.
class Spawned final : public d1::task {
 public:
  explicit Spawned(d1::task& task) : task_(task) { __tsan_release(this); }
  d1::task* execute(d1::execution_data& data) override {
    __tsan_acquire(this);
    d1::task* const other = task_.execute(data);
    delete this;  // not where a body has thrown: then oneTBB calls cancel() next
    return other;
  }
  d1::task* cancel(d1::execution_data& data) override {
    __tsan_acquire(this);
    d1::task* const other = task_.cancel(data);
    delete this;
    return other;
  }
  static void* operator new(size_t bytes) { return allocate_task(bytes); }
  static void operator delete(void* memory) { release_task(memory); }

 private:
  d1::task& task_;
};

// The work of task_arena::execute. Where the arena has no room for the caller, another thread does it.
class Executed final : public d1::delegate_base {
 public:
  explicit Executed(d1::delegate_base& work) : work_(work) { __tsan_release(this); }
  ~Executed() override { __tsan_acquire(this); }
  Executed(const Executed&) = delete;
  Executed& operator=(const Executed&) = delete;
  bool operator()() const override {
    const Released at_end{*this};
    __tsan_acquire(const_cast<Executed*>(this));
    return work_();
  }

 private:
  struct Released {  // also where the work throws
    ~Released() { __tsan_release(const_cast<Executed*>(&executed)); }
    const Executed& executed;
  };
  d1::delegate_base& work_;
};

// Every task of a loop lowers the loop's count when it has ended, by an atomic operation that stands in a header and is
// therefore seen. Within oneTBB the caller waits until the count is zero; that is the read which is made up for here.
struct Waited {
  static_assert(sizeof(d1::wait_context) == 16);  // traits, then the count
  ~Waited() { __tsan_acquire(reinterpret_cast<char*>(&context) + sizeof(uint64_t)); }
  d1::wait_context& context;
};

d1::small_object_pool* no_pool() {
  static struct : d1::small_object_pool {
  } pool;
  return &pool;
}
}  // namespace

namespace tbb::detail::r1 {

void spawn(d1::task& task, d1::task_group_context& context) {
  static const auto original = next<void(d1::task&, d1::task_group_context&)>(
      "_ZN3tbb6detail2r15spawnERNS0_2d14taskERNS2_18task_group_contextE");
  original(*new Spawned(task), context);
}

void spawn(d1::task& task, d1::task_group_context& context, d1::slot_id slot) {
  static const auto original = next<void(d1::task&, d1::task_group_context&, d1::slot_id)>(
      "_ZN3tbb6detail2r15spawnERNS0_2d14taskERNS2_18task_group_contextEt");
  original(*new Spawned(task), context, slot);
}

// The task runs in the calling thread, so that it needs no order.
void execute_and_wait(d1::task& task, d1::task_group_context& of_task, d1::wait_context& wait,
                      d1::task_group_context& of_wait) {
  static const auto original =
      next<void(d1::task&, d1::task_group_context&, d1::wait_context&, d1::task_group_context&)>(
          "_ZN3tbb6detail2r116execute_and_waitERNS0_2d14taskERNS2_18task_group_contextERNS2_12wait_contextES6_");
  const Waited at_end{wait};
  original(task, of_task, wait, of_wait);
}

void execute(d1::task_arena_base& arena, d1::delegate_base& work) {
  static const auto original = next<void(d1::task_arena_base&, d1::delegate_base&)>(
      "_ZN3tbb6detail2r17executeERNS0_2d115task_arena_baseERNS2_13delegate_baseE");
  Executed executed(work);
  original(arena, executed);
}

void* allocate(d1::small_object_pool*& pool, size_t bytes, const d1::execution_data&) {
  pool = no_pool();
  return allocate_task(bytes);
}
void* allocate(d1::small_object_pool*& pool, size_t bytes) {
  pool = no_pool();
  return allocate_task(bytes);
}
void deallocate(d1::small_object_pool&, void* memory, size_t, const d1::execution_data&) { release_task(memory); }
void deallocate(d1::small_object_pool&, void* memory, size_t) { release_task(memory); }

}  // namespace tbb::detail::r1

// OpenBLAS's threads are not instrumented either, but the memset that they call is seen, without the order of their
// hand-over. It never calls the program's code; what this hides is a race of the program with such a memset.
extern "C" const char* __tsan_default_suppressions() { return "race:libopenblas\n"; }
