// SPDX-License-Identifier: Apache-2.0
// Makes a declared step one of data-parallel training: Tape::replicate().
#include <algorithm>

#include "models/tape.h"
#include "ops/reduction/all_reduce.h"
#include "ops/reduction/norm2.h"

namespace duet {
class Tape::Replication {
 public:
  Replication(Tape& tape, int64_t replicas)
      : tape_(tape), replicas_(static_cast<size_t>(replicas)), declared_(tape.values_.size()) {
    const auto& phases = tape.phases_;
    const auto found = std::find(phases.begin(), phases.end(), kOptimiser);
    if (found == phases.end()) throw Error("no optimiser updates its parameters from gradients");
    optimiser_ = static_cast<size_t>(found - phases.begin());
    find_shared();
  }

  void copy_tensors() {
    copies_.assign(replicas_, std::vector<Var>(declared_));
    for (size_t r = 0; r < replicas_; ++r)
      for (size_t i = 0; i < declared_; ++i) {
        const bool same = r == 0 || shared_[i];
        copies_[r][i] = {static_cast<int>(same ? i : tape_.values_.size())};
        if (same) continue;
        Value copy = tape_.values_[i];
        copy.name = name_in(r, copy.name);
        copy.original = static_cast<int>(i);
        tape_.values_.push_back(std::move(copy));
      }
    for (size_t r = 1; r < replicas_; ++r)
      for (size_t i = 0; i < declared_; ++i) {
        if (shared_[i]) continue;
        Value& copy = value(copies_[r][i]);
        for (int* number : {&copy.parent, &copy.gradient})
          if (*number >= 0) *number = copy_of({*number}, r).id;
      }
    for (auto* list : {&tape_.named_inputs_, &tape_.named_parameters_, &tape_.named_states_, &tape_.named_outputs_}) {
      const auto first = *list;
      for (size_t r = 1; r < replicas_; ++r)
        for (const auto& [name, var] : first)
          if (!is_shared(var)) list->emplace_back(name_in(r, name), copy_of(var, r));
    }
    const std::vector<Counter> first = tape_.counters_;
    for (size_t r = 1; r < replicas_; ++r)
      for (const Counter& c : first) tape_.counters_.push_back({copy_of(c.var, r), c.stride});
  }

  // Divides the parameters into buckets, the last ones first, as the backward pass writes their gradients. A bucket has
  // a row for each replica.
  void lay_out(int64_t bucket_bytes) {
    const int64_t size = size_of(tape_.parameter_dtype_), unit = kAlign / size, before = tape_.parameter_elements_;
    const int64_t stored = size_of(tape_.stored(tape_.parameter_dtype_));
    int64_t end = ceil_div(before, unit) * unit;
    for (size_t i = tape_.named_parameters_.size() / replicas_; i-- > 0;) {
      const Var parameter = tape_.named_parameters_[i].second;
      const int64_t begin = value(parameter).offset / stored;
      if (buckets_.empty() || (buckets_.back().end - begin) * size > bucket_bytes) buckets_.push_back({begin, end, {}});
      buckets_.back().begin = end = begin;
      buckets_.back().parameters.push_back(parameter);
    }
    int64_t at = 0;
    for (Bucket& b : buckets_) {
      const int64_t row = b.end - b.begin;
      for (const Var parameter : b.parameters) {
        const int64_t from_begin = value(parameter).offset - b.begin * stored;
        for (size_t r = 0; r < replicas_; ++r) {
          Value& copy = value(copy_of(parameter, r));
          copy.offset = (at + static_cast<int64_t>(r) * row) * stored + from_begin;
          value({copy.gradient}).offset = copy.offset;
        }
      }
      b.gradients = tape_.declare({.name = fmt::format("gradients of bucket {}", &b - buckets_.data()),
                                   .dtype = tape_.parameter_dtype_,
                                   .shape = {static_cast<int64_t>(replicas_), row},
                                   .home = Home::gradients,
                                   .offset = at * stored});
      at += static_cast<int64_t>(replicas_) * row;
    }
    // The optimiser's tensors that had the size of the arena.
    tape_.parameter_elements_ = at;
    for (size_t i = 0; i < declared_; ++i)
      if (Value& v = tape_.values_[i]; shared_[i] && v.shape == Shape{before}) v.shape = {at};
    tape_.kept_bytes_ = 0;
    for (Value& v : tape_.values_)
      if (v.home == Home::kept && v.parent < 0) tape_.keep(v);
    resized_ = {before, at};
  }

  void copy_nodes() {
    find_last_uses();
    std::vector<Node> first = std::move(tape_.nodes_);
    tape_.nodes_.clear();
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].phase >= optimiser_) {
        first[i].problem = resized(first[i].problem);
        require_equal_extents(first[i]);
        tape_.nodes_.push_back(std::move(first[i]));
        continue;
      }
      for (size_t r = 0; r < replicas_; ++r) {
        std::vector<Var> slots;
        for (const Var var : first[i].slots) slots.push_back(copy_of(var, r));
        add(first[i].problem, std::move(slots), first[i].phase, first[i].again);
      }
      for (const Bucket& b : buckets_)
        if (b.last_use == i)
          add(Problem::of(AllReduce{.replicas = static_cast<int64_t>(replicas_),
                                    .n = b.end - b.begin,
                                    .op = ReduceOp::mean,
                                    .dtype = tape_.parameter_dtype_}),
              {b.gradients, b.gradients}, first[i].phase, false);
    }
    tape_.find_phase_ends();
  }

 private:
  struct Bucket {
    int64_t begin, end;           // elements of the arena as it was declared
    std::vector<Var> parameters;  // of the first replica
    size_t last_use = 0;          // the declared node after which their gradients are complete
    Var gradients = {};           // (replicas, end - begin)
  };

  Value& value(Var var) { return tape_.values_[tape_.index(var)]; }
  bool is_shared(Var var) const { return shared_[tape_.index(var)]; }
  Var copy_of(Var var, size_t replica) const { return copies_[replica][tape_.index(var)]; }
  static std::string name_in(size_t replica, const std::string& name) {
    return fmt::format("replica{}.{}", replica, name);
  }

  // The replicas share what the optimiser works on: the arenas as a whole, its states and its results.
  void find_shared() {
    shared_.resize(declared_);
    for (size_t i = 0; i < declared_; ++i)
      shared_[i] = tape_.values_[i].home == Home::parameters || tape_.values_[i].home == Home::gradients;
    for (const auto& [name, parameter] : tape_.named_parameters_)
      shared_[tape_.index(parameter)] = shared_[tape_.index(tape_.gradient(parameter))] = false;
    for (const Node& node : tape_.nodes_) {
      if (node.phase < optimiser_) continue;
      if (node.problem.name() == Norm2::name)
        throw Error("it clips gradients to a norm, which would be formed over all replicas");
      for (const Var var : node.slots) {
        const int parent = value(var).parent;  // of a slice
        shared_[parent < 0 ? tape_.index(var) : static_cast<size_t>(parent)] = true;
      }
    }
    for (size_t i = 0; i < declared_; ++i)
      if (const int parent = tape_.values_[i].parent; parent >= 0) shared_[i] = shared_[static_cast<size_t>(parent)];
    for (const auto& [name, parameter] : tape_.named_parameters_)
      if (is_shared(parameter) || is_shared(tape_.gradient(parameter)))
        throw Error("its optimiser takes {} apart from the other parameters", name);
    for (const Node& node : tape_.nodes_) {
      const std::vector<TensorSpec> specs = node.problem.tensors();
      for (size_t s = 0; s < specs.size() && node.phase < optimiser_; ++s) {
        const Value& v = value(node.slots[s]);
        const bool belongs = is_shared(node.slots[s]) && (v.home != Home::kept || specs[s].role != Role::in);
        if (belongs || (v.home == Home::parameters && specs[s].role != Role::in))
          throw Error("{} in phase {} uses {}, which only the optimiser may", node.problem.name(),
                      tape_.phases_[node.phase], v.name);
      }
    }
  }

  void find_last_uses() {
    for (Bucket& b : buckets_)
      for (const Var parameter : b.parameters) {
        const int gradient = value(parameter).gradient;
        bool written = false;
        for (size_t i = 0; i < tape_.nodes_.size() && tape_.nodes_[i].phase < optimiser_; ++i)
          for (const Var var : tape_.nodes_[i].slots)
            if (var.id == gradient || value(var).parent == gradient) {
              b.last_use = std::max(b.last_use, i);
              written = true;
            }
        if (!written) throw Error("{} has no gradient", value(parameter).name);
      }
  }

  Problem resized(const Problem& problem) const {
    for (const Attribute& a : problem.attributes())
      if (a.name == "n" && a.text() == std::to_string(resized_.first))
        return problem.with("n", std::to_string(resized_.second));
    return problem;
  }

  // resized() and lay_out() find by its number of elements what has the size of the arena.
  void require_equal_extents(const Node& node) const {
    const std::vector<TensorSpec> specs = node.problem.tensors();
    for (size_t s = 0; s < specs.size(); ++s)
      if (const Value& v = tape_.values_[tape_.index(node.slots[s])]; tape_.elements(v) != specs[s].elements())
        throw Error("{}: {} has {} elements and {} has {}", node.problem.name(), specs[s].name, specs[s].elements(),
                    v.name, tape_.elements(v));
  }

  void add(Problem problem, std::vector<Var> slots, size_t phase, bool again) {
    tape_.nodes_.push_back({std::move(problem), std::move(slots), phase, again, "", nullptr, 0, {}});
  }

  Tape& tape_;
  size_t replicas_, declared_, optimiser_ = 0;  // declared_: tensors of the step without replicas
  std::vector<bool> shared_;                    // by number of a declared tensor
  std::vector<std::vector<Var>> copies_;        // by replica and number
  std::vector<Bucket> buckets_;
  std::pair<int64_t, int64_t> resized_;  // elements of the arena, as declared and now
};

void Tape::replicate(int64_t replicas, int64_t bucket_bytes) {
  require_planned(false, "replicate");
  if (replicas_ != 1 || replicas < 2) throw Error("replicas {}: 2 or more, once", replicas);
  Replication all(*this, replicas);
  all.copy_tensors();
  all.lay_out(bucket_bytes);
  all.copy_nodes();
  replicas_ = replicas;
  flat_ = true;
}

}  // namespace duet
