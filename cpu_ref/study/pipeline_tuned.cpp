// SPDX-License-Identifier: Apache-2.0
// study/pipeline on the CPU: a loader copies chunks to buffers, the threads of the arena work on them. With one buffer
// both are the same threads, one after the other; with more, the loader is a thread of its own, which the plan keeps.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/study/pipeline.h"

namespace duet {
namespace {

// y = x + rounds by as many multiply-adds. Eight vectors of the compiler's choice are in flight.
void work(const float* x, float* y, int64_t n, int64_t rounds) {
  constexpr int64_t kBlock = 64;
  const volatile float unknown = 1;
  const float one = unknown;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    float v[kBlock] = {};
    std::memcpy(v, x + first, static_cast<size_t>(count) * sizeof(float));
    for (int64_t r = 0; r < rounds; ++r)
      for (int64_t i = 0; i < kBlock; ++i) v[i] = v[i] * one + one;
    std::memcpy(y + first, v, static_cast<size_t>(count) * sizeof(float));
  }
}

// A thread that fills buffers ahead of its consumer. It sleeps between runs.
class Loader {
 public:
  explicit Loader(int64_t buffers) : buffers_(buffers), thread_([this] { serve(); }) {}
  Loader(const Loader&) = delete;
  ~Loader() {
    stop_ = true;
    begun_.fetch_add(1);
    begun_.notify_all();
    thread_.join();
  }

  // Begins to copy `chunks` chunks of x, of `length` elements each but the last, to the buffers in turn.
  void begin(const float* x, float* buffers, int64_t n, int64_t length) {
    x_ = x;
    to_ = buffers;
    n_ = n;
    length_ = length;
    loaded_ = 0;
    used_ = 0;
    begun_.fetch_add(1);
    begun_.notify_all();
  }
  const float* wait_for(int64_t chunk) const {
    while (loaded_.load(std::memory_order_acquire) <= chunk) pause();
    return to_ + chunk % buffers_ * length_;
  }
  void release(int64_t chunk) { used_.store(chunk + 1, std::memory_order_release); }

 private:
  static void pause() { std::this_thread::yield(); }
  void serve() {
    for (int64_t seen = 0;;) {
      begun_.wait(seen);
      ++seen;
      if (stop_) return;
      const float* const x = x_;
      float* const to = to_;
      const int64_t n = n_, length = length_;
      for (int64_t chunk = 0, first = 0; first < n; ++chunk, first += length) {
        while (used_.load(std::memory_order_acquire) + buffers_ <= chunk) pause();
        std::memcpy(to + chunk % buffers_ * length, x + first,
                    static_cast<size_t>(std::min(length, n - first)) * sizeof(float));
        loaded_.store(chunk + 1, std::memory_order_release);
      }
    }
  }

  const int64_t buffers_;
  const float* x_ = nullptr;
  float* to_ = nullptr;
  int64_t n_ = 0, length_ = 0;
  std::atomic<int64_t> begun_ = 0, loaded_ = 0, used_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

Plan study_pipeline_tuned(const Pipeline& p, CpuContext& cpu) {
  constexpr int64_t kGrain = 4096;  // elements
  const int64_t length = p.chunk_length();
  const int64_t buffers = std::min(p.streams, std::max<int64_t>(1, ceil_div(p.n, std::max<int64_t>(1, length))));
  if (p.streams > 1 && cpu.threads() == 1) return Unsupported{"a loader beside the only thread"};
  WorkspaceLayout workspace;
  const auto memory = workspace.add<float>(buffers * length);
  const int64_t workers = p.streams > 1 ? cpu.threads() - 1 : cpu.threads();  // beside the loader
  const std::shared_ptr<Loader> loader = p.streams > 1 ? std::make_shared<Loader>(buffers) : nullptr;
  return Plan([=, &cpu](Args t) {
           const auto* x = t[Pipeline::x].as<const float>();
           auto* y = t[Pipeline::y].as<float>();
           float* const to = t.workspace(memory);
           if (p.n > 0 && loader) loader->begin(x, to, p.n, length);
           for (int64_t chunk = 0, first = 0; first < p.n; ++chunk, first += length) {
             const int64_t count = std::min(length, p.n - first);
             const float* from = to;
             if (loader)
               from = loader->wait_for(chunk);
             else
               cpu.parallel_for(count, kGrain, [&](int64_t a, int64_t b) {
                 std::memcpy(to + a, x + first + a, static_cast<size_t>(b - a) * sizeof(float));
               });
             const int64_t part = ceil_div(count, workers);
             cpu.parallel_for(workers, 1, [&](int64_t a, int64_t b) {
               const int64_t begin = std::min(count, a * part), end = std::min(count, b * part);
               work(from + begin, y + first + begin, end - begin, p.rounds);
             });
             if (loader) loader->release(chunk);
           }
         })
      .with(loader ? "a loader thread" : "the loader and the work take turns", workspace);
}
DUET_REGISTER(study_pipeline_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
