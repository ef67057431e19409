// SPDX-License-Identifier: Apache-2.0
// The part of Tape that plans: which implementation runs each op, and where each tensor lies.
#include <algorithm>

#include "core/gpu.h"
#include "models/arena.h"
#include "models/reference_plan.h"
#include "models/tape.h"

namespace duet {
namespace {
// The number of steps after which a counter's place in pinned memory is used again. The host is never that far ahead of
// the device: a device queues about 1000 launches, and a step has several.
constexpr int64_t kStagedSteps = 1024;
}  // namespace

// Leaves out what recompute() added and no op reads: backwards, so that what only such an op reads is left out too.
void Tape::drop_unread() {
  std::vector<bool> read(values_.size()), kept(nodes_.size());
  const auto root_of = [&](Var var) {
    const int parent = values_[index(var)].parent;
    return parent < 0 ? index(var) : static_cast<size_t>(parent);
  };
  for (size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    const std::vector<TensorSpec> specs = node.problem.tensors();
    kept[i] = !node.again;
    for (size_t s = 0; s < specs.size(); ++s) {
      const size_t whole = root_of(node.slots[s]);
      const bool temporary = values_[whole].home == Home::temporary && !values_[whole].output;
      if (specs[s].role != Role::in && (!temporary || read[whole])) kept[i] = true;
    }
    if (!kept[i]) continue;
    for (size_t s = 0; s < specs.size(); ++s)
      if (specs[s].role != Role::out) read[root_of(node.slots[s])] = true;
  }
  std::vector<Node> left;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (kept[i]) left.push_back(std::move(nodes_[i]));
  nodes_ = std::move(left);
  find_phase_ends();
}

void Tape::find_phase_ends() {
  for (size_t p = 0; p < phases_.size(); ++p)
    phase_end_[p] =
        static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(), [p](const Node& n) { return n.phase <= p; }));
}

void Tape::find_lifetimes() {
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (const Var var : nodes_[i].slots) {
      Value& whole = root(values_[index(var)]);
      if (whole.first < 0) whole.first = static_cast<int>(i);
      whole.last = whole.output ? INT32_MAX : static_cast<int>(i);
    }
}

int64_t Tape::pack_temporaries() {
  std::vector<Lifetime> lives;
  std::vector<int64_t*> offsets;
  for (Value& v : values_)
    if (v.home == Home::temporary && v.parent < 0 && v.first >= 0) {
      lives.push_back({stored_bytes(v), v.first, v.last});
      offsets.push_back(&v.offset);
    }
  for (Node& node : nodes_)
    if (node.plan && node.plan->workspace_bytes() > 0) {
      const int at = static_cast<int>(&node - nodes_.data());
      lives.push_back({node.plan->workspace_bytes(), at, at});
      offsets.push_back(&node.workspace_offset);
    }
  const int64_t bytes = pack(lives);
  for (size_t i = 0; i < lives.size(); ++i) *offsets[i] = lives[i].offset;
  return bytes;
}

int64_t Tape::gradient_bytes() const {
  for (const Node& node : nodes_)
    for (const Var var : node.slots)
      if (values_[index(var)].home == Home::gradients) return parameter_elements_ * size_of(stored(parameter_dtype_));
  return 0;
}

// A step that is refused here becomes a row with its reason. Without the check, the machine could run out of memory
// while the arenas are allocated.
void Tape::require_bytes(int64_t temporary) const {
  const int64_t flat = parameter_elements_ * size_of(stored(parameter_dtype_));
  const int64_t gradients = gradient_bytes();
  const double needed = static_cast<double>(flat) + static_cast<double>(gradients) + static_cast<double>(kept_bytes_) +
                        static_cast<double>(temporary);
  const int64_t available = available_bytes(*context_);
  if (!(needed <= static_cast<double>(available)))
    throw NotServed(
        "the step needs {:.0f} bytes ({} parameters, {} gradients, {} inputs and states, {} between ops and for "
        "their workspaces); {} are available on {}",
        needed, flat, gradients, kept_bytes_, temporary, available, context_->describe());
}

void Tape::require_room() {
  require_planned(false, "require_room");
  drop_unread();
  find_lifetimes();
  require_bytes(pack_temporaries());
}

namespace {
std::string key_of(const Problem& problem) { return problem.name() + " " + problem.label(); }
}  // namespace

Chosen Tape::choose_for(const Problem& problem) {
  const auto known = known_.find(key_of(problem));
  if (known != known_.end() && known->second.starts_with(std::string(name_of(context_->device())) + ".")) {
    const Implementation* implementation = find_implementation(problem.name(), known->second);
    if (Plan plan = implementation ? implementation->plan(problem, *context_) : Unsupported{""})
      return {known->second, std::move(plan)};
  }
  return choose(problem, *context_, preferences_, choice_);
}

Tape::Choices Tape::choices() const {
  Choices all;
  for (const Node& node : nodes_) all[key_of(node.problem)] = node.implementation;
  return all;
}

void Tape::plan() {
  require_planned(false, "plan");
  const int64_t flat = parameter_elements_ * size_of(stored(parameter_dtype_)), held = context_->held_bytes();
  require_room();  // before plans search for algorithms, which takes minutes
  // A plan keeps nothing of a run, and nodes follow each other: layers of one shape share a plan.
  std::map<std::string, const Node*> planned;  // the first node of each problem
  context_->enter([&] {
    for (Node& node : nodes_) {
      const auto [same, is_first] = planned.emplace(key_of(node.problem), &node);
      if (is_first) {
        Chosen chosen = reference_ ? Chosen{"reference", reference_plan(node.problem)} : choose_for(node.problem);
        node.implementation = std::move(chosen.implementation);
        node.plan = std::make_shared<Plan>(std::move(chosen.plan));
      } else {
        node.implementation = same->second->implementation;
        node.plan = same->second->plan;
      }
    }
  });
  const int64_t temporary = pack_temporaries();
  require_bytes(temporary);
  parameters_ = Buffer(*context_, flat);
  if (const int64_t bytes = gradient_bytes(); bytes > 0) gradients_ = Buffer(*context_, bytes);
  kept_ = Buffer(*context_, kept_bytes_);
  temporary_ = Buffer(*context_, temporary);
  for (Node& node : nodes_) {
    node.first_argument = arguments_.size();
    node.range.emplace(node.job(), NvtxWork{.category = find_op(node.problem.name()).family,
                                            .bytes = node.problem.bytes(),
                                            .flops = node.problem.flops()});
    const std::vector<TensorSpec> specs = node.problem.tensors();
    for (size_t s = 0; s < specs.size(); ++s) {
      arguments_.push_back(tensor(node.slots[s]));
      arguments_.back().role = specs[s].role;
    }
  }
  step_range_.emplace("step");
  for (const std::string& name : phases_) phase_ranges_.emplace_back(name);
  if (!counters_.empty() && context_->device() != Device::cpu)
    staged_ = PinnedBuffer(*context_, kStagedSteps * static_cast<int64_t>(counters_.size() * sizeof(int32_t)));
  held_bytes_ = context_->held_bytes() - held + staged_.bytes();
  planned_ = true;
  reset();
}

Tensor Tape::tensor(Var var) const {
  const Value& v = values_[index(var)];
  const Buffer& home = v.home == Home::parameters  ? parameters_
                       : v.home == Home::gradients ? gradients_
                       : v.home == Home::kept      ? kept_
                                                   : temporary_;
  const int64_t from = v.parent < 0 ? 0 : values_[static_cast<size_t>(v.parent)].offset;
  return {static_cast<char*>(home.data()) + from + v.offset, stored(v.dtype), Role::inout};
}

int64_t Tape::bytes(Var var) const { return stored_bytes(values_[index(var)]); }

std::vector<std::pair<void*, int64_t>> Tape::memory() const {
  std::vector<std::pair<void*, int64_t>> list;
  for (const Buffer* home : {&parameters_, &gradients_, &kept_, &temporary_})
    list.emplace_back(home->data(), home->bytes());
  return list;
}

std::vector<std::pair<void*, int64_t>> Tape::persistent_memory() const {
  auto list = memory();
  list.pop_back();  // the temporaries
  return list;
}

bool Tape::guards_intact() const {
  for (const Buffer* home : {&parameters_, &gradients_, &kept_, &temporary_})
    if (!home->guards_intact()) return false;
  return true;
}

}  // namespace duet
