// SPDX-License-Identifier: Apache-2.0
// The part of Tape that runs steps and transfers tensors.
#include <fmt/ranges.h>

#include <cstring>

#include "core/device_scope.h"
#include "core/digest.h"
#include "core/fill.h"
#include "core/philox.h"
#include "models/tape.h"

namespace duet {
namespace {
// While it exists, the software GPU reports accesses to the arenas outside of the node's tensors and its workspace. On
// other devices it does nothing.
class NodeScope {
 public:
  NodeScope(const Tape& tape, const Tape::Node& node)
      : active_(duet_softgpu_scope && tape.context().device() == Device::cuda) {
    if (!active_) return;
    using Access = ScopedTensor::Access;
    std::vector<ScopedTensor> all;
    const auto add = [&](const void* memory, int64_t bytes, const char* name, Access access) {
      all.push_back({memory, static_cast<size_t>(bytes), name, access});
    };
    for (const auto& [memory, bytes] : tape.memory()) add(memory, bytes, "an arena", Access::none);
    const std::vector<TensorSpec> specs = node.problem.tensors();
    for (size_t s = 0; s < specs.size(); ++s)
      add(tape.tensor(node.slots[s]).data, tape.bytes(node.slots[s]), specs[s].name,
          specs[s].role == Role::in ? Access::read : Access::write);
    add(tape.workspace(node), node.plan->workspace_bytes(), "the workspace", Access::write);
    duet_softgpu_scope(node.job().c_str(), all.data(), all.size());
  }
  ~NodeScope() {
    if (active_) duet_softgpu_scope(nullptr, nullptr, 0);
  }
  NodeScope(const NodeScope&) = delete;

 private:
  bool active_;
};
}  // namespace

void Tape::run_node(size_t node) {
  Node& n = nodes_[node];
  const NodeScope scope(*this, n);
  (*n.plan)(Args(arguments_.data() + n.first_argument, workspace(n), n.plan->workspace_bytes()));
}

void Tape::begin_step() {
  const uint64_t step = steps_++;
  for (size_t i = 0; i < counters_.size(); ++i) {
    // A multiple of 4 begins a Philox block. The starts lie 6 million elements apart, with more than 256 dropouts 370
    // thousand, so that two small dropouts of a step do not share a part of a mask.
    const uint64_t start = (seed_ * 4 + 4) * 0x9E3779B1u + i * 0x3C6EF370u;
    const auto value = static_cast<int32_t>((start + step * static_cast<uint64_t>(counters_[i].stride)) & 0x7fffffffu);
    void* to = tensor(counters_[i].var).data;
    if (!staged_.data()) {
      *static_cast<int32_t*>(to) = value;
      continue;
    }
    const uint64_t places = static_cast<uint64_t>(staged_.bytes()) / sizeof value;
    const uint64_t place = (step * counters_.size() + i) % places;
    static_cast<int32_t*>(staged_.data())[place] = value;
    staged_.upload(to, static_cast<int64_t>(place * sizeof value), sizeof value);
  }
}

void Tape::run_phase(size_t phase) {
  const NvtxRange range(phase_ranges_[phase]);
  for (size_t i = phase ? phase_end_[phase - 1] : 0; i < phase_end_[phase]; ++i) {
    const NvtxRange op(*nodes_[i].range);
    run_node(i);
  }
}

void Tape::run() {
  const NvtxRange range(*step_range_);
  begin_step();
  for (size_t p = 0; p < phases_.size(); ++p) run_phase(p);
}

void Tape::upload(Var var, const void* values, DType dtype, int64_t count) {
  require_planned(true, "upload");
  const Value& v = values_[index(var)];
  if (dtype != v.dtype || count != elements(v))
    throw Error("{} is {} [{}]; {} values of {} were given", v.name, name_of(v.dtype), fmt::join(v.shape, ", "), count,
                name_of(dtype));
  if (stored(dtype) == dtype) return context_->upload(tensor(var).data, values, count * size_of(dtype));
  std::vector<double> wide(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) wide[static_cast<size_t>(i)] = load_as_double(values, dtype, i);
  context_->upload(tensor(var).data, wide.data(), count * size_of(DType::f64));
}

std::vector<double> Tape::download(Var var) const {
  require_planned(true, "download");
  const Value& v = values_[index(var)];
  const int64_t count = elements(v);
  std::vector<char> bytes(static_cast<size_t>(stored_bytes(v)));
  context_->synchronize();
  context_->download(bytes.data(), tensor(var).data, stored_bytes(v));
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = load_as_double(bytes.data(), stored(v.dtype), i);
  return values;
}

void Tape::draw(Var var, uint64_t key) {
  const Value& v = values_[index(var)];
  HugeVector<char> bytes(static_cast<size_t>(elements(v) * size_of(v.dtype)));  // parameters of 10^8 elements, too
  if (v.drawn)
    for (int64_t i = 0; i < elements(v); ++i)
      store_double(bytes.data(), v.dtype, i, v.drawn(i, philox_bits(static_cast<uint64_t>(i), key)));
  else
    fill_values(bytes.data(), v.dtype, elements(v), v.fill, FillMode::values, key);
  upload(var, bytes.data(), v.dtype, elements(v));
}

// Each tensor has a key of its own, so that two layers of the same shape start differently. Replicas start alike, with
// different inputs.
uint64_t Tape::initial_key(size_t value) const {
  const int original = values_[value].original;
  return fill_key(seed_, original < 0 ? value : static_cast<uint64_t>(original));
}

void Tape::fill_inputs(uint64_t seed) {
  for (const auto& [name, var] : named_inputs_) draw(var, fill_key(seed, static_cast<uint64_t>(var.id)));
}

void Tape::reset() {
  require_planned(true, "reset");
  context_->synchronize();
  // Gaps between parameters hold zeros and have zero gradients: an optimiser over the flat arena leaves them so.
  context_->fill_bytes(parameters_.data(), 0, parameters_.bytes());
  if (has_gradients()) {
    context_->fill_bytes(gradients_.data(), 0, gradients_.bytes());
    for (const auto& [name, var] : named_parameters_)
      context_->fill_bytes(static_cast<char*>(gradients_.data()) + values_[index(var)].offset, 0xFF, bytes(var));
  }
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].initial) draw({static_cast<int>(i)}, initial_key(i));
  if (master_ >= 0) {
    std::vector<float> values(static_cast<size_t>(parameter_elements_));
    for (const auto& [name, var] : named_parameters_) {
      const Value& v = values_[index(var)];
      fill_values(values.data() + v.offset / size_of(stored(v.dtype)), DType::f32, elements(v), v.fill,
                  FillMode::values, initial_key(index(var)));
    }
    upload({master_}, values.data(), DType::f32, parameter_elements_);
  }
  steps_ = 0;
  context_->synchronize();
}

void Tape::renew_master() {
  if (master_ < 0) return;
  std::vector<float> values(static_cast<size_t>(parameter_elements_));
  for (const auto& [name, var] : named_parameters_) {
    const Value& v = values_[index(var)];
    std::ranges::copy(download(var), values.begin() + v.offset / size_of(stored(v.dtype)));
  }
  upload({master_}, values.data(), DType::f32, parameter_elements_);
}

bool Tape::finite(Var var) const {
  const Tensor t = tensor(var);
  return digest(*context_, t.data, t.dtype, elements(values_[index(var)])).finite;
}

void Tape::copy_state_from(Tape& from) {
  if (from.context_ != context_ || from.parameter_elements_ != parameter_elements_ ||
      from.parameters_.bytes() != parameters_.bytes())
    throw Error("copy_state_from: the tapes differ in context or parameters");
  context_->copy_within(parameters_.data(), from.parameters_.data(), parameters_.bytes());
  for (const auto& [name, var] : named_states_)
    for (const auto& [other, source] : from.named_states_)
      if (other == name) {
        if (from.bytes(source) != bytes(var)) throw Error("copy_state_from: state {} differs in size", name);
        context_->copy_within(tensor(var).data, from.tensor(source).data, bytes(var));
      }
}

}  // namespace duet
