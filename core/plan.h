// SPDX-License-Identifier: Apache-2.0
// What an implementation returns: a Plan that only enqueues work when it runs, or the reason why it does not support
// this case. Tensors and workspace are brought by each run: see Args.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/problem.h"
#include "core/workspace.h"

namespace duet {

// A tensor as a plan sees it: memory on the context's device, dense, row-major, shape known from the problem. It is
// aligned to its element type and no more: a slice of a larger tensor begins at any element. Each run may bring others.
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

// What a run works on: the problem's tensors in the order of tensors(), and the workspace that the plan stated, aligned
// to WorkspaceLayout::kAlignment.
class Args {
 public:
  explicit Args(const Tensor* tensors, void* workspace = nullptr, int64_t workspace_bytes = 0)
      : tensors_(tensors), workspace_(static_cast<char*>(workspace)), workspace_bytes_(workspace_bytes) {}
  const Tensor& operator[](Slot s) const { return tensors_[s.index]; }
  Args with_tensors(const Tensor* tensors) const { return Args(tensors, workspace_, workspace_bytes_); }

  // The address of a piece; null for one of no values. Throws Error where it does not lie within the workspace: the
  // plan did not state it.
  template <class T>
  T* workspace(const WorkspacePiece<T>& piece) const {
    if (piece.count == 0) return nullptr;
    if (piece.offset + piece.bytes() > workspace_bytes_) refuse(piece.offset + piece.bytes());
    return static_cast<T*>(static_cast<void*>(workspace_ + piece.offset));
  }

 private:
  [[noreturn]] void refuse(int64_t wanted_bytes) const;
  const Tensor* tensors_;
  char* workspace_;
  int64_t workspace_bytes_;
};

struct Unsupported {
  std::string reason;
};

// Move-only. Everything that costs and depends on the problem alone (descriptors, algorithm search) happened before it
// was made; it keeps no memory that only a run needs, but states it as its workspace.
class Plan {
 public:
  Plan(Unsupported u) : reason_(std::move(u.reason)) {}
  template <std::invocable<Args> F>
  Plan(F f) : run_(std::make_unique<Holder<F>>(std::move(f))) {}

  explicit operator bool() const { return run_ != nullptr; }
  const std::string& reason() const { return reason_; }  // why the case is not supported
  void operator()(Args args) {
    prepare(args);
    run_->call(args);
  }

  // Some libraries bring inputs that seldom change, such as the weights of a model in use, into a form of their own
  // first. A plan that says so with prepared() can be run in two parts: prepare() sees those inputs alone and leaves
  // its result in the workspace, and run_prepared() counts on both until they change.
  static constexpr size_t kMaxTensors = 32;  // of a problem whose plan is prepared
  bool is_prepared() const { return prepare_ != nullptr; }
  const std::vector<Slot>& prepared_inputs() const { return prepared_inputs_; }
  std::string prepared_names() const;  // "w, r"
  void prepare(Args args);
  void run_prepared(Args args) { run_->call(args); }

  // What was chosen, for the report's row, and the workspace that every run must bring.
  std::string algorithm;
  WorkspaceLayout workspace;
  // Whether two runs on the same inputs may differ by roundings: sums whose order depends on which thread comes first,
  // such as atomic additions. The outputs of such a plan are compared within their bound, those of others bit for bit.
  bool varies = false;
  int64_t workspace_bytes() const { return workspace.bytes(); }
  Plan&& with(std::string chosen, WorkspaceLayout layout = {}) && {
    algorithm = std::move(chosen);
    workspace = std::move(layout);
    return std::move(*this);
  }
  Plan&& varying(bool yes = true) && {
    varies = yes;
    return std::move(*this);
  }
  template <std::invocable<Args> F>
  Plan&& prepared(std::vector<Slot> inputs, F prepare) && {
    prepare_ = std::make_unique<Holder<F>>(std::move(prepare));
    prepared_inputs_ = std::move(inputs);
    return std::move(*this);
  }
  Plan&& with(WorkspaceLayout layout) && { return std::move(*this).with("", std::move(layout)); }

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
  std::unique_ptr<Callable> run_, prepare_;
  std::vector<Slot> prepared_inputs_;
  std::string reason_;
};

}  // namespace duet
