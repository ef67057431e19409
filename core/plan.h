// SPDX-License-Identifier: Apache-2.0
// What an implementation returns: a Plan that only enqueues work when run, or the reason why it does not serve this case.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/dtype.h"
#include "core/problem.h"

namespace duet {

// A tensor as a plan sees it: memory on the context's device, dense, row-major, shape known from the problem.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Role role = Role::in;

  // Refuses another element type, and a mutable view of an input.
  template <class T>
  T* as() const {
    if (dtype_of<std::remove_const_t<T>> != dtype || (role == Role::in && !std::is_const_v<T>))
      refuse(dtype_of<std::remove_const_t<T>>, std::is_const_v<T>);
    return static_cast<T*>(data);
  }

 private:
  [[noreturn]] void refuse(DType wanted, bool constant) const;
};

class Args {
 public:
  explicit Args(const Tensor* tensors) : tensors_(tensors) {}
  const Tensor& operator[](Slot s) const { return tensors_[s.index]; }

 private:
  const Tensor* tensors_;
};

struct Unsupported {
  std::string reason;
};

// Move-only. Everything that costs (descriptors, algorithm search, packing, workspace) happened before it was made.
class Plan {
 public:
  Plan(Unsupported u) : reason_(std::move(u.reason)) {}
  template <std::invocable<Args> F>
  Plan(F f) : run_(std::make_unique<Holder<F>>(std::move(f))) {}

  explicit operator bool() const { return run_ != nullptr; }
  const std::string& reason() const { return reason_; }  // of an unsupported case
  void operator()(Args args) { run_->call(args); }

  // What was chosen, for the report's row.
  std::string algorithm;
  int64_t workspace_bytes = 0;
  Plan&& with(std::string chosen, int64_t workspace = 0) && {
    algorithm = std::move(chosen);
    workspace_bytes = workspace;
    return std::move(*this);
  }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual void call(Args) = 0;
  };
  template <class F>
  struct Holder final : Callable {
    explicit Holder(F f) : f(std::move(f)) {}
    void call(Args args) override { f(args); }
    F f;
  };
  std::unique_ptr<Callable> run_;
  std::string reason_;
};

}  // namespace duet
