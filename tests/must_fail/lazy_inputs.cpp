// SPDX-License-Identifier: Apache-2.0
#include "tests/must_fail/lazy_inputs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include "core/error.h"

namespace duet::must_fail {
namespace {

constexpr int64_t kGranule = int64_t{64} << 10;  // bytes: of any dtype, no more elements than are drawn serially
static_assert(kGranule / 4 <= kDrawnSerially);

}  // namespace

class LazyInputs::Tensor {
 public:
  Tensor(const Problem& problem, const TensorSpec& spec, size_t slot, uint64_t seed)
      : problem_(problem), spec_(spec), slot_(slot), seed_(seed) {
    bytes_ = std::max<int64_t>(1, (spec.bytes() + kGranule - 1) / kGranule) * kGranule;
    drawn_.resize(static_cast<size_t>(bytes_ / kGranule));
    const int file = memfd_create("inputs", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, bytes_) != 0) throw Error("no memory for {}: {}", spec.name, std::strerror(errno));
    write_ = map(file, PROT_READ | PROT_WRITE);
    read_ = map(file, PROT_NONE);
    close(file);
    // Tensors with a function of their own are small or cheap, and the function is made once.
    if (problem.drawn(static_cast<int>(slot))) {
      draw_part(problem_, spec_, slot_, FillMode::values, seed_, 0, spec_.elements(), write_);
      std::fill(drawn_.begin(), drawn_.end(), true);
      mprotect(read_, static_cast<size_t>(bytes_), PROT_READ);
    }
    const std::lock_guard lock(mutex_);
    all_.push_back(this);
  }
  ~Tensor() {
    {
      const std::lock_guard lock(mutex_);
      all_.erase(std::find(all_.begin(), all_.end(), this));
    }
    munmap(write_, static_cast<size_t>(bytes_));
    munmap(read_, static_cast<size_t>(bytes_));
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  const void* data() const { return read_; }
  int64_t drawn_bytes() const { return std::count(drawn_.begin(), drawn_.end(), true) * kGranule; }

  // Draws what a fault at this address needs. False: the address is in no tensor.
  static bool serve(const char* address) {
    const std::lock_guard lock(mutex_);
    for (Tensor* t : all_)
      if (address >= t->read_ && address < t->read_ + t->bytes_) {
        t->draw((address - t->read_) / kGranule);
        return true;
      }
    return false;
  }

 private:
  char* map(int file, int access) const {
    void* const memory = mmap(nullptr, static_cast<size_t>(bytes_), access, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) throw Error("no memory for {}: {}", spec_.name, std::strerror(errno));
    return static_cast<char*>(memory);
  }
  void draw(int64_t granule) {
    if (drawn_[static_cast<size_t>(granule)]) return;  // by another thread, since the fault
    const int64_t element_bytes = size_of(spec_.dtype), first = granule * kGranule / element_bytes;
    const int64_t count = std::min(kGranule / element_bytes, spec_.elements() - first);
    for (int64_t done = 0; done < count; done += kDrawnSerially)
      draw_part(problem_, spec_, slot_, FillMode::values, seed_, first + done, std::min(kDrawnSerially, count - done),
                write_ + (first + done) * element_bytes);
    mprotect(read_ + granule * kGranule, static_cast<size_t>(kGranule), PROT_READ);
    drawn_[static_cast<size_t>(granule)] = true;
  }

  static std::mutex mutex_;
  static std::vector<Tensor*> all_;
  Problem problem_;
  TensorSpec spec_;
  size_t slot_;
  uint64_t seed_;
  int64_t bytes_ = 0;
  char *write_ = nullptr, *read_ = nullptr;
  std::vector<bool> drawn_;
};

std::mutex LazyInputs::Tensor::mutex_;
std::vector<LazyInputs::Tensor*> LazyInputs::Tensor::all_;

LazyInputs::LazyInputs(const Problem& problem, uint64_t seed) : specs_(problem.tensors()), values_(specs_.size()) {
  static const bool handled = [] {
    struct sigaction action {};
    action.sa_sigaction = [](int signal, siginfo_t* info, void*) {
      const int error = errno;
      if (!Tensor::serve(static_cast<const char*>(info->si_addr))) std::signal(signal, SIG_DFL);  // it faults again
      errno = error;
    };
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGSEGV, &action, nullptr) == 0;
  }();
  if (!handled) throw Error("faults cannot be handled: {}", std::strerror(errno));
  for (size_t s = 0; s < specs_.size(); ++s) {
    values_[s] = {nullptr, specs_[s].dtype};
    if (specs_[s].role == Role::out) continue;
    tensors_.push_back(std::make_unique<Tensor>(problem, specs_[s], s, seed));
    values_[s].data = tensors_.back()->data();
  }
}

LazyInputs::~LazyInputs() = default;

int64_t LazyInputs::drawn_bytes() const {
  int64_t sum = 0;
  for (const auto& t : tensors_) sum += t->drawn_bytes();
  return sum;
}

}  // namespace duet::must_fail
