// SPDX-License-Identifier: Apache-2.0
// One training step as bench_all times it: a model's case on one side of the pair, with synthetic data.
//   Step step(model, context, Tape::preferences_for(context.device()));
//   if (!step.supported()) skip with step.reason();
//   context.enter([&] { step.run(); });  // timed; data resident
//   context.enter([&] { for (p) step.run_phase(p); });  // timed one by one, in order: together one step
//   context.enter([&] { step.run_node(i); });           // timed alone, to hold the sum against the whole
//   const Check check = step.replay();   // after timing: the same plans, every op judged
// The rate is small enough that parameters hardly move while it is timed, whatever the number of runs.
// A step is a job of its own: step/<model>/<side>/<dtype>/batch:N.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compare.h"
#include "core/gpu.h"
#include "models/model.h"
#include "models/tape.h"

namespace duet {

// side: cpu, gpu or gpu.graph. "step/mlp/cpu/f32/batch:32"
std::string step_job_name(const Model& model, const std::string& side);

class Step {
 public:
  struct Node {
    std::string job, implementation;  // "linear/cpu.tuned/f32/n:32/...", "cpu.tuned"
    std::string phase;
    double flops;
    int64_t bytes;  // compulsory traffic
  };

  // eager: the host launches op by op. graph: recorded once, replayed with one launch a step.
  enum class Form : uint8_t { eager, graph };

  // Builds, plans and allocates; draws inputs and parameters from `seed`. Throws Error on a preference that makes no
  // sense.
  Step(const Model& model, Context& context, Tape::Preferences preferences, uint64_t seed = 1, Form form = Form::eager);

  bool supported() const { return reason_.empty(); }
  // Some op is served by none of the preferences, there is too little memory, or no graph can be recorded.
  const std::string& reason() const { return reason_; }
  double create_s() const { return create_s_; }

  // Each enqueues; inside context.enter(). run() is a whole step: counters (dropout's offset) move on by themselves.
  void run() {
    if (!graph_) return tape_->run();
    tape_->begin_step();
    graph_->replay();
  }
  void run_phase(size_t phase) {
    if (phase == 0) tape_->begin_step();
    tape_->run_phase(phase);
  }
  void run_node(size_t node) { tape_->run_node(node); }

  const std::vector<std::string>& phases() const { return tape_->phases(); }
  const std::vector<Node>& nodes() const { return nodes_; }  // in the order they run; a job may occur more than once
  double flops() const;
  int64_t bytes() const;  // sum over the nodes
  int64_t memory_bytes() const { return tape_->memory_bytes(); }
  std::vector<std::pair<std::string, std::string>> implementations()
      const;  // op -> what was chosen, several joined by ", "

  void evict();  // everything out of the caches

  // Runs one step op by op and judges each: its inputs are downloaded before it, its outputs are poisoned
  // where they are not inputs too, and compared with the reference on sampled slices as they appear. Inputs must still be
  // what the op that wrote them left, which finds tensors that overlap and writes out of bounds. A failure names
  // the op. Steps that only bring a loss scale down come before it. A graph is then held against a step without
  // it: both start anew, and their outputs must agree.
  Check replay(uint64_t seed = 1);

  // Memory that a node both reads and writes, in place or as an inout: run again, it goes on from its own result.
  std::vector<std::pair<void*, int64_t>> rewritten(size_t node) const;

  // For the end-to-end scope: what a step takes from the host and gives back.
  std::vector<std::pair<void*, int64_t>> device_inputs() const;
  std::vector<std::pair<void*, int64_t>> device_outputs() const;
  Tape& tape() { return *tape_; }

 private:
  void start_anew();
  void wait_for_loss_scale();
  std::string graph_failure();
  std::unique_ptr<Tape> tape_;
  std::unique_ptr<RecordedGraph> graph_;  // goes before the memory that it uses
  std::vector<Node> nodes_;
  std::string reason_;
  double create_s_ = 0;
};

// The same for any planned tape. run: how a node is run, where a test plants a fault; none: Tape::run_node.
Check replay(Tape& tape, uint64_t seed, std::function<void(size_t node)> run = {});

}  // namespace duet
