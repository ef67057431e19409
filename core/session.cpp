// SPDX-License-Identifier: Apache-2.0
#include "core/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/checksum.h"
#include "core/error.h"
#include "core/op_traits.h"

namespace duet {

Session::Session(const Problem& problem, const Implementation& implementation, Context& context,
                 const HostTensors& inputs, int copies)
    : problem_(problem),
      context_(&context),
      inputs_(&inputs),
      plan_(Unsupported{"not planned"}),
      specs_(problem.tensors()) {
  const auto start = std::chrono::steady_clock::now();
  context.enter([&] { plan_ = implementation.plan(problem, context); });
  context.synchronize();
  create_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (plan_) allocate(copies);
}

Session::Session(const Problem& problem, Plan plan, Context& context, const HostTensors& inputs, int copies)
    : problem_(problem), context_(&context), inputs_(&inputs), plan_(std::move(plan)), specs_(problem.tensors()) {
  if (plan_) allocate(copies);
}

// Where all inputs could be prepared, the whole answer could be computed before the clock.
void Session::require_inputs_left() const {
  if (!plan_.is_prepared()) return;
  std::vector<bool> left(specs_.size());
  for (size_t s = 0; s < specs_.size(); ++s) left[s] = specs_[s].role == Role::in;
  for (const Slot& s : plan_.prepared_inputs()) {
    if (specs_.at(static_cast<size_t>(s.index)).role != Role::in)
      throw Error("a plan prepares {}, which is no input", s.name);
    left[static_cast<size_t>(s.index)] = false;
  }
  if (std::count(left.begin(), left.end(), true) == 0) throw Error("a plan prepares every input");
}

void Session::allocate(int copies) {
  require_inputs_left();
  homes_.resize(specs_.size());
  for (size_t s = 0; s < specs_.size(); ++s) {
    if (specs_[s].role == Role::inout) inouts_.push_back(s);
    const HostMemory kind = host_memory_of(problem_, s);
    if (kind != HostMemory::none && context_->device() == Device::cuda) homes_[s] = open_host_memory(*context_, kind);
  }
  copies_ = inouts_.empty() ? 1 : copies;
  for (const size_t s : inouts_) {
    pristine_.emplace_back(home_of(s), specs_[s].bytes());
    home_of(s).upload(pristine_.back().data(), inputs_->data(s), specs_[s].bytes());
  }
  if (plan_.workspace_bytes() > 0) workspace_ = Buffer(*context_, plan_.workspace_bytes());
  for (const auto& [first, last] : plan_.workspace.gaps()) workspace_.add_guard(first, last);
  place({});
}

void Session::prepare_now() {
  if (!plan_.is_prepared()) return;
  context_->enter([&] { prepare(); });
  context_->synchronize();
}

void Session::place(const Placement& placement) {
  context_->synchronize();
  buffers_.clear();
  buffers_.resize(static_cast<size_t>(copies_));
  arguments_.assign(buffers_.size(), std::vector<Tensor>(specs_.size()));
  overwritten_.clear();

  // Tensors with memory of their own: an inout tensor in every copy, the others in the first.
  const auto input_of = [&](size_t s) { return placement.memory_of.empty() ? -1 : placement.memory_of.at(s); };
  for (size_t c = 0; c < buffers_.size(); ++c) {
    buffers_[c].resize(specs_.size());
    for (size_t s = 0; s < specs_.size(); ++s) {
      const TensorSpec& spec = specs_[s];
      if (input_of(s) < 0 && (c == 0 || spec.role == Role::inout)) {
        const int64_t offset = placement.offset_bytes.empty() ? 0 : placement.offset_bytes.at(s);
        buffers_[c][s] = Buffer(home_of(s), spec.bytes(), spec.name, size_of(spec.dtype), offset);
        if (spec.role != Role::out) home_of(s).upload(buffers_[c][s].data(), inputs_->data(s), spec.bytes());
      }
      const size_t owner = spec.role == Role::inout ? c : 0;
      arguments_[c][s] = {buffers_[owner][s].data(), spec.dtype, spec.role};
    }
  }

  // Outputs with an input's memory.
  for (size_t s = 0; s < specs_.size(); ++s) {
    if (input_of(s) < 0) continue;
    const auto input = static_cast<size_t>(input_of(s));
    if (!specs_[s].may_be(specs_.at(input), input))
      throw Error("{} may not have the memory of {}", specs_[s].name, specs_[input].name);
    overwritten_.push_back(input);
    for (auto& arguments : arguments_) arguments[s].data = buffers_[0][input].data();
  }
  prepare_now();
}

void Session::restore() {
  for (const size_t s : overwritten_) home_of(s).upload(buffers_[0][s].data(), inputs_->data(s), specs_[s].bytes());
  for (auto& set : buffers_)
    for (size_t i = 0; i < inouts_.size(); ++i)
      home_of(inouts_[i]).copy_within(set[inouts_[i]].data(), pristine_[i].data(), specs_[inouts_[i]].bytes());
}

void Session::poison_outputs() {
  for (size_t s = 0; s < specs_.size(); ++s)
    if (specs_[s].role == Role::out) buffers_[0][s].poison();
}

void Session::evict() {
  if (context_->device() != Device::cpu) return context_->evict(nullptr, 0);  // empties a GPU's caches as a whole
  for (const auto& set : buffers_)
    for (const Buffer& b : set)
      if (b.bytes() > 0) context_->evict(b.data(), b.bytes());
  if (plan_.is_prepared()) context_->evict(workspace_.data(), workspace_.bytes());  // it holds inputs in another form
}

HostTensors Session::download(int copy) {
  HostTensors got(specs_);
  context_->synchronize();
  for (size_t s = 0; s < specs_.size(); ++s) {
    if (specs_[s].role == Role::in) continue;
    got.reserve(s);
    home_of(s).download(got.data(s), arguments_[static_cast<size_t>(copy)][s].data, specs_[s].bytes());
  }
  return got;
}

Check Session::check(const Expected& expected, bool bitwise, int copy) {
  Check check = compare(problem_, expected, download(copy), bitwise);
  if (const std::string failure = guard_failure(); !failure.empty()) check.failure = failure;
  return check;
}

std::string Session::guard_failure() {
  context_->synchronize();
  for (const auto& set : buffers_)
    for (size_t s = 0; s < set.size(); ++s)
      if (const std::string failure = set[s].guard_failure(); !failure.empty())
        return fmt::format("memory around {} was overwritten: {}", specs_[s].name, failure);
  if (const std::string failure = workspace_.guard_failure(); !failure.empty())
    return "memory around a piece of the workspace was overwritten: " + failure;
  return "";
}

void Session::load(const HostTensors& inputs) {
  inputs_ = &inputs;
  for (size_t i = 0; i < inouts_.size(); ++i)
    home_of(inouts_[i]).upload(pristine_[i].data(), inputs.data(inouts_[i]), specs_[inouts_[i]].bytes());
  const auto upload = [&](size_t s) { home_of(s).upload(buffers_[0][s].data(), inputs.data(s), specs_[s].bytes()); };
  // First those that are prepared, and a run with the others as they were: prepare() must not be the news that all
  // inputs have changed, for which a faulty plan could wait.
  if (plan_.is_prepared()) {
    for (const Slot& s : plan_.prepared_inputs()) upload(static_cast<size_t>(s.index));
    context_->enter([&] {
      prepare();
      run();
    });
    context_->synchronize();
  }
  for (size_t s = 0; s < specs_.size(); ++s)
    if (specs_[s].role == Role::in) upload(s);
  restore();
}

std::string Session::changed_input() {
  context_->synchronize();
  HugeVector<unsigned char> host;
  for (size_t s = 0; s < specs_.size(); ++s) {
    if (specs_[s].role != Role::in || std::count(overwritten_.begin(), overwritten_.end(), s) > 0) continue;
    const void* data = buffers_[0][s].data();
    if (home_of(s).device() != Device::cpu) {
      host.clear();
      host.resize(static_cast<size_t>(specs_[s].bytes()));
      context_->download(host.data(), data, specs_[s].bytes());
      data = host.data();
    }
    if (parallel_checksum(data, specs_[s].bytes()) != inputs_->checksum(s)) return specs_[s].name;
  }
  return "";
}

std::vector<unsigned char> Session::read(const std::vector<Stripe>& stripes, int copy) {
  int64_t bytes = 0;
  for (const Stripe& s : stripes) bytes += s.bytes;
  std::vector<unsigned char> all(static_cast<size_t>(bytes));
  context_->synchronize();
  unsigned char* to = all.data();
  for (const Stripe& s : stripes) {
    const void* from = static_cast<char*>(arguments_[static_cast<size_t>(copy)][s.slot].data) + s.first;
    if (home_of(s.slot).device() == Device::cpu)
      std::memcpy(to, from, static_cast<size_t>(s.bytes));
    else
      context_->download(to, from, s.bytes);
    to += s.bytes;
  }
  return all;
}

void Session::overwrite(const std::vector<Stripe>& stripes, uint64_t key) {
  context_->synchronize();
  for (const Stripe& s : stripes) {
    if (specs_[s.slot].role != Role::out || !buffers_[0][s.slot].data()) continue;
    std::vector<uint32_t> words(static_cast<size_t>(s.bytes + 3) / 4);
    for (size_t i = 0; i < words.size(); ++i)
      words[i] = static_cast<uint32_t>((key + i) * 0x9E3779B97F4A7C15u >> 32);  // cheap, and never the same twice
    void* to = static_cast<char*>(buffers_[0][s.slot].data()) + s.first;
    if (home_of(s.slot).device() == Device::cpu)
      std::memcpy(to, words.data(), static_cast<size_t>(s.bytes));
    else
      context_->upload(to, words.data(), s.bytes);
  }
}

std::vector<std::pair<void*, int64_t>> Session::device_inputs(int copy) const {
  std::vector<std::pair<void*, int64_t>> list;
  for (size_t s = 0; s < specs_.size(); ++s)
    if (specs_[s].role != Role::out && !homes_[s])
      list.emplace_back(arguments_[static_cast<size_t>(copy)][s].data, specs_[s].bytes());
  return list;
}
std::vector<std::pair<void*, int64_t>> Session::device_outputs(int copy) const {
  std::vector<std::pair<void*, int64_t>> list;
  for (size_t s = 0; s < specs_.size(); ++s)
    if (specs_[s].role != Role::in && !homes_[s])
      list.emplace_back(arguments_[static_cast<size_t>(copy)][s].data, specs_[s].bytes());
  return list;
}

namespace {
class StoringExpect final : public Expect {
 public:
  explicit StoringExpect(HostTensors& out) : out_(out) {}

 private:
  void claim(int slot, int64_t index, double want, double) override {
    const auto s = static_cast<size_t>(slot);
    store_double(out_.data(s), out_.specs()[s].dtype, index, want);
  }
  HostTensors& out_;
};
}  // namespace

HostTensors run_reference(const Problem& problem, const HostTensors& inputs) {
  HostTensors out(problem.tensors());
  for (size_t s = 0; s < out.size(); ++s)
    if (out.specs()[s].role != Role::in) out.allocate(s);
  StoringExpect expect(out);
  const auto values = inputs.values();
  for (int64_t s = 0; s < problem.slices(); ++s) problem.reference(Inputs(values), s, expect);
  return out;
}

}  // namespace duet
