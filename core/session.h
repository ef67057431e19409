// SPDX-License-Identifier: Apache-2.0
// One case, one implementation and their memory: fill, run, compare. The benchmark, the op tests, `duet op` and the
// kernel profiles all run implementations through it.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compare.h"
#include "core/context.h"
#include "core/fill.h"
#include "core/registry.h"
#include "core/stripes.h"

namespace duet {

// Where the tensors of a session lie: one value for each slot, or none at all for the usual place. For tests.
struct Placement {
  std::vector<int> memory_of;         // of an output: the slot of the input whose memory it takes; -1: its own
  std::vector<int64_t> offset_bytes;  // from an address that is a multiple of 256
};

class Session {
 public:
  // Makes the plan, then allocates tensors and workspace and uploads. After construction either supported() is true, or
  // plan().reason() says why not.
  // copies: sets of inout tensors, so that a batch of runs applies each once (inputs and outputs are shared).
  Session(const Problem& problem, const Implementation& implementation, Context& context, const HostTensors& inputs,
          int copies = 1);
  // With a plan of this problem on this context.
  Session(const Problem& problem, Plan plan, Context& context, const HostTensors& inputs, int copies = 1);

  bool supported() const { return static_cast<bool>(plan_); }
  const Plan& plan() const { return plan_; }
  Plan take_plan() && { return std::move(plan_); }
  double create_s() const { return create_s_; }
  Context& context() { return *context_; }
  bool has_inout() const { return !inouts_.empty(); }
  int copies() const { return copies_; }

  // Moves all tensors. They hold what they held after construction, and the plan stays the same. Throws Error where the
  // contract does not allow an output to have an input's memory.
  void place(const Placement& placement);
  void restore();  // sets the inout tensors of every copy back to their inputs, and inputs with an output's memory
  void poison_outputs();  // sets pure outputs to 0xFF, but for those with an input's memory
  // Both enqueue; inside enter(). A run counts on what the plan prepared from the inputs that were placed or loaded.
  void run(int copy = 0) { plan_.run_prepared(args(copy)); }
  void prepare() { plan_.prepare(args(0)); }  // again: the same inputs were uploaded once more
  // Replaces the contents of inputs and inouts; the shapes must be those of the inputs given at first. Outputs keep
  // theirs.
  void load(const HostTensors& inputs);
  // The name of an input that no longer holds what was loaded, "" where all do. Reads all but those with an output's
  // memory.
  std::string changed_input();
  // What the stripes hold; and other bytes for those of pure outputs, which depend on the key.
  std::vector<unsigned char> read(const std::vector<Stripe>& stripes, int copy = 0);
  void overwrite(const std::vector<Stripe>& stripes, uint64_t key);
  void evict();  // removes every tensor from the caches

  // Downloads outputs and inouts of one copy and compares; also checks all guard bands, and those between the pieces of
  // the workspace.
  Check check(const Expected& expected, bool bitwise, int copy = 0);
  std::string guard_failure();  // which memory around a tensor or a piece of the workspace was overwritten; "" for none
  HostTensors download(int copy = 0);
  // Of the tensors that lie on the device.
  std::vector<std::pair<void*, int64_t>> device_inputs(int copy = 0) const;   // in and inout: what a user would upload
  std::vector<std::pair<void*, int64_t>> device_outputs(int copy = 0) const;  // out and inout

 private:
  void allocate(int copies);
  void prepare_now();
  void require_inputs_left() const;
  Args args(int copy) {
    return Args(arguments_[static_cast<size_t>(copy)].data(), workspace_.data(), workspace_.bytes());
  }

  Problem problem_;
  Context* context_;
  const HostTensors* inputs_;
  Plan plan_;
  double create_s_ = 0;
  int copies_ = 1;
  // Where a slot's memory comes from: host memory of a kind where the contract of a transfer says so, else the device.
  Context& home_of(size_t slot) { return homes_[slot] ? *homes_[slot] : *context_; }
  std::vector<std::unique_ptr<Context>> homes_;  // per slot; null: the device. Destroyed after the buffers
  std::vector<TensorSpec> specs_;
  std::vector<size_t> inouts_;
  std::vector<size_t> overwritten_;             // inputs with an output's memory
  std::vector<Buffer> pristine_;                // per inout
  std::vector<std::vector<Buffer>> buffers_;    // [copy][slot]; shared slots live in copy 0
  std::vector<std::vector<Tensor>> arguments_;  // [copy][slot]
  Buffer workspace_;                            // of the plan, shared by the copies: runs follow each other
};

// The outputs as the reference computes them: every element, rounded to its dtype.
HostTensors run_reference(const Problem& problem, const HostTensors& inputs);

}  // namespace duet
