// SPDX-License-Identifier: Apache-2.0
// bench_all with implementations of relu that crash, hang or exhaust something: each is to cost its own row alone.
// tests/faults/faults.py runs this program; bench_all has none of them.
#include <sys/resource.h>
#include <unistd.h>

#include <barrier>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/cpu_context.h"
#include "core/error.h"
#include "core/gpu.h"
#include "core/machine.h"
#include "core/registry.h"
#include "ops/elementwise/relu.h"

namespace duet {
namespace {

// A relu that calls fault() in each application, before it has written anything. Its name goes to the file that
// DUET_FAULT_LOG names, so that faults.py sees which ones ran.
Plan faulty(const Relu& p, const std::string& name, const std::function<void()>& fault) {
  return [p, name, fault](Args t) {
    if (const char* log = std::getenv("DUET_FAULT_LOG")) std::ofstream(log, std::ios::app) << name + "\n" << std::flush;
    fault();
    const auto* x = t[Relu::x].as<const float>();
    auto* y = t[Relu::y].as<float>();
    for (int64_t i = 0; i < p.n; ++i) y[i] = std::max(x[i], 0.0F);
  };
}

volatile int* volatile nowhere = nullptr;
volatile bool always = true;

int overflow(int depth) {  // NOLINT(misc-no-recursion)
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return always ? overflow(depth + 1) + frame[0] : 0;
}

Plan relu_fault_segv(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_segv", [] { *nowhere = 1; });
}
DUET_REGISTER(relu_fault_segv);

// Crashes in the measurement, not before: outputs are poisoned when a repetition begins.
Plan relu_fault_late(const Relu& p, CpuContext&) {
  return [p, poisoned = 0](Args t) mutable {
    const auto* x = t[Relu::x].as<const float>();
    auto* y = t[Relu::y].as<float>();
    if (std::isnan(y[0]) && ++poisoned == 2) *nowhere = 1;
    for (int64_t i = 0; i < p.n; ++i) y[i] = std::max(x[i], 0.0F);
  };
}
DUET_REGISTER(relu_fault_late);

Plan relu_fault_plan(const Relu&, CpuContext&) { std::abort(); }
DUET_REGISTER(relu_fault_plan);

Plan relu_fault_abort(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_abort", [] { std::abort(); });
}
DUET_REGISTER(relu_fault_abort);

Plan relu_fault_stack_overflow(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_stack_overflow", [] { overflow(0); });
}
DUET_REGISTER(relu_fault_stack_overflow);

Plan relu_fault_throw_int(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_throw_int", [] { throw 1; });
}
DUET_REGISTER(relu_fault_throw_int);

Plan relu_fault_throw_in_thread(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_throw_in_thread",
                [] { std::thread([] { throw std::runtime_error("in a thread"); }).join(); });
}
DUET_REGISTER(relu_fault_throw_in_thread);

Plan relu_fault_exit0(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_exit0", [] { std::exit(0); });
}
DUET_REGISTER(relu_fault_exit0);

Plan relu_fault_killed(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_killed", [] { raise(SIGKILL); });
}
DUET_REGISTER(relu_fault_killed);

Plan relu_fault_hang(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_hang", [] {
    while (always) usleep(1000);
  });
}
DUET_REGISTER(relu_fault_hang);

// Hangs in the measurement: from then on the limit comes from the job's own calibration.
Plan relu_fault_hang_late(const Relu& p, CpuContext&) {
  return [p, poisoned = 0](Args t) mutable {
    const auto* x = t[Relu::x].as<const float>();
    auto* y = t[Relu::y].as<float>();
    if (std::isnan(y[0]) && ++poisoned == 2)
      while (always) usleep(1000);
    for (int64_t i = 0; i < p.n; ++i) y[i] = std::max(x[i], 0.0F);
  };
}
DUET_REGISTER(relu_fault_hang_late);

Plan relu_fault_deadlock(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_deadlock", [] {
    std::mutex a, b;
    std::barrier both(2);
    const auto lock = [&](std::mutex& first, std::mutex& second) {
      const std::scoped_lock hold(first);
      both.arrive_and_wait();
      const std::scoped_lock wait(second);
    };
    std::thread other([&] { lock(b, a); });
    lock(a, b);
    other.join();
  });
}
DUET_REGISTER(relu_fault_deadlock);

// Under a limit, so that the machine's memory stays for others.
Plan relu_fault_eat_memory(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_eat_memory", [] {
    constexpr rlim_t kLimit = rlim_t{8} << 30;
    constexpr size_t kPiece = size_t{64} << 20;
    const rlimit limit{kLimit, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    const auto eat = []() noexcept {
      std::vector<std::vector<char>> eaten;
      for (;;) eaten.emplace_back().reserve(kPiece);
    };
    eat();
  });
}
DUET_REGISTER(relu_fault_eat_memory);

// As the CUDA layer reports an error from which a process does not recover: its own row fails. Implementations that
// need the GPU afterwards, such as the next one, are measured by a fresh process.
Plan relu_fault_gpu_lost(const Relu& p, CpuContext&) {
  return faulty(p, "cpu.fault_gpu_lost", [] {
    report_lost_gpu("cudaStreamSynchronize(stream): an illegal memory access was encountered");
    throw Error(lost_gpu());
  });
}
DUET_REGISTER(relu_fault_gpu_lost);

Plan relu_victim_of_gpu(const Relu& p, CpuContext&) { return faulty(p, "cpu.victim_of_gpu", require_usable_gpu); }
DUET_REGISTER(relu_victim_of_gpu);

// Until the kernel kills the process, where the test gave it a control group with little memory.
Plan relu_fault_out_of_memory(const Relu& p, CpuContext&) {
  static constexpr int64_t kLittle = int64_t{2} << 30;
  static constexpr size_t kPiece = size_t{16} << 20;
  if (read_machine_state().memory_limit_bytes.value_or(INT64_MAX) > kLittle)
    return Unsupported{"no limit of the memory that this process may use"};
  return faulty(p, "cpu.fault_out_of_memory", [] {
    std::vector<std::vector<char>> eaten;
    for (;;) eaten.emplace_back(kPiece, 'x');
  });
}
DUET_REGISTER(relu_fault_out_of_memory);

}  // namespace
}  // namespace duet
