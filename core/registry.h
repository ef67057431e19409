// SPDX-License-Identifier: Apache-2.0
// The registry: every op and every implementation. The file of an op's reference enters the op by DUET_PROBLEM, the
// file of an implementation enters that by DUET_REGISTER. What is registered is tested, benchmarked, listed and
// reported without a further list.
//   Op              what is computed, with its cases; find_op("softmax")
//   Problem         an op with its attributes set, type erased: labels, tensors, reference
//   Implementation  makes a Plan of a Problem on a device
//   JobName         op, implementation and case in one text
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "core/attributes.h"
#include "core/context.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/registration.h"

namespace duet {

class Problem;
struct ProblemCase;

struct Op {
  std::string name, formula, family;  // family: the folder in ops/
  const std::type_info* type;
  bool exact_on_integers;
  Problem (*make)();      // with default attributes
  Cases (*lines)(Scale);  // as the contract writes them

  // The contract's cases, parsed. Published lists overlap: a case counts once, with its first reason.
  // Throws Error naming op, case and word.
  std::vector<ProblemCase> cases(Scale scale) const;
};

// One problem with its type erased. Cheap to copy, immutable.
class Problem {
 public:
  template <class P>
  static Problem of(const P& problem);

  const Op& op() const;  // throws when the problem's type was never registered
  const std::string& name() const { return op().name; }
  std::vector<Attribute> attributes() const;
  std::string label() const;  // "f32/rows:64/cols:1000"; with fills that were named: "f32/rows:64/cols:1000/x=edges"
  DType dtype() const;
  std::vector<TensorSpec> tensors() const;
  int64_t bytes() const;            // compulsory traffic, from the tensors
  int64_t footprint_bytes() const;  // memory of all tensors
  double flops() const { return self_->flops(); }
  Tolerance tolerance(int slot) const { return self_->tolerance(slot); }
  int64_t slices() const { return self_->slices(); }
  // Slices of each kind, which follow each other: the rows of one output, then those of the next. Contracts whose
  // slices are of several kinds have such a function; those of all others are of one kind.
  std::vector<int64_t> parts() const { return self_->parts(); }
  // How the elements of an input are drawn from random bits, where no Fill can say it: an index that depends on its
  // place, for instance. Empty: as its Fill says. Contracts that need it have such a function.
  std::function<double(int64_t element, uint32_t bits)> drawn(int slot) const;
  std::optional<LinearAxis> linear_axis() const { return self_->linear_axis(); }  // of a product
  void reference(Inputs in, int64_t slice, Expect& expect) const { self_->reference(in, slice, expect); }

  // Copies with one attribute, or several words of a case, set from text. Throw Error naming word, value and what is
  // allowed.
  Problem with(std::string_view attribute, std::string_view text) const;
  Problem with_words(std::string_view words) const;
  Problem inferred(const Shapes& shapes) const;  // dimensions from the shapes of inputs
  // Throws Error: negative dimensions, sizes that overflow, fills that do not fit, the problem's own rules.
  void validate() const;
  bool has_named_fills() const { return !fills_.empty(); }

  template <class P>
  const P& as() const {
    return *static_cast<const P*>(address());
  }
  const void* address() const { return self_->address(); }  // of the struct, such as a Softmax
  const std::type_info& type() const { return self_->type(); }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual const void* address() const = 0;
    virtual const std::type_info& type() const = 0;
    virtual std::vector<Attribute> attributes() const = 0;
    virtual std::vector<TensorSpec> tensors() const = 0;
    virtual double flops() const = 0;
    virtual Tolerance tolerance(int slot) const = 0;
    virtual int64_t slices() const = 0;
    virtual std::vector<int64_t> parts() const = 0;
    virtual std::function<double(int64_t, uint32_t)> drawn(int slot) const = 0;
    virtual std::optional<LinearAxis> linear_axis() const = 0;
    virtual void reference(Inputs, int64_t, Expect&) const = 0;
    virtual std::shared_ptr<const Interface> with(std::string_view, std::string_view, bool& found) const = 0;
    virtual std::shared_ptr<const Interface> inferred(const Shapes&) const = 0;
    virtual std::string invalid() const = 0;
  };
  template <class P>
  struct Holder;
  struct NamedFill {
    std::string tensor, text;
  };
  explicit Problem(std::shared_ptr<const Interface> self, std::vector<NamedFill> fills = {})
      : self_(std::move(self)), fills_(std::move(fills)) {}
  std::shared_ptr<const Interface> self_;
  std::vector<NamedFill> fills_;  // of the case, instead of the contract's
};

struct ProblemCase {
  std::string why;
  Problem problem;
};

struct Implementation {
  std::string op, name;  // "softmax", "cpu.tuned"
  Device device;
  registration::PlanFunction function;
  Plan plan(const Problem& problem, Context& context) const {
    return function.call(function.function, problem.address(), context);
  }
};

// --- asking ------------------------------------------------------------------------------------------------------

const std::map<std::string, Op>& ops();                                   // by name
const Op& find_op(std::string_view name);                                 // throws Error that lists near names
std::vector<const Implementation*> implementations(std::string_view op);  // in order of name
const Implementation* find_implementation(std::string_view op, std::string_view name);  // null: not built here

// The text of ops/registry_golden.txt: "softmax cpu.tuned" a line. What it names and the registry lacks was not built.
struct GoldenLine {
  std::string op, implementation;
};
const std::vector<GoldenLine>& registry_golden();

// "softmax/cuda.tuned/f32/rows:64/cols:1000"
struct JobName {
  std::string op, implementation, label;
  std::string text() const { return op + "/" + implementation + "/" + label; }
  static JobName parse(std::string_view text);  // throws Error
};
// A problem from a case (core/cases.h), such as a label. Every dimension must be given that has no default.
// Throws Error naming op, case and word.
Problem parse_case(std::string_view op, std::string_view text);

// --- entering ----------------------------------------------------------------------------------------------------

namespace registration {

bool add_op(Op op, const char* source_file);
template <class P>
bool exact_on_integers() {
  if constexpr (requires { P::exact_on_integers; })
    return P::exact_on_integers;
  else
    return false;
}

template <class P>
bool add(const char* source_file) {
  return add_op(
      {P::name, P::formula, "", &typeid(P), exact_on_integers<P>(), [] { return Problem::of(P{}); }, P::cases},
      source_file);
}

}  // namespace registration

#define DUET_CONCAT2(a, b) a##b
#define DUET_CONCAT(a, b) DUET_CONCAT2(a, b)
// In the reference's file: makes the contract known.
#define DUET_PROBLEM(P) \
  [[maybe_unused]] static const bool DUET_CONCAT(duet_problem_, P) = ::duet::registration::add<P>(__FILE__)

// --- the erased problem ------------------------------------------------------------------------------------------

template <class P>
struct Problem::Holder final : Problem::Interface {
  explicit Holder(const P& p) : problem(p) {}
  const void* address() const override { return &problem; }
  const std::type_info& type() const override { return typeid(P); }
  std::vector<Attribute> attributes() const override {
    attribute::Reader mine, defaults;
    P copy = problem, plain{};
    copy.attributes(mine);
    plain.attributes(defaults);
    for (size_t i = 0; i < mine.list.size(); ++i)
      mine.list[i].is_default = mine.list[i].value == defaults.list[i].value;
    return std::move(mine.list);
  }
  std::vector<TensorSpec> tensors() const override { return problem.tensors(); }
  double flops() const override { return problem.flops(); }
  Tolerance tolerance(int slot) const override {
    if constexpr (requires { problem.tolerance(slot); })
      return problem.tolerance(slot);
    else
      return problem.tolerance();
  }
  int64_t slices() const override { return problem.slices(); }
  std::vector<int64_t> parts() const override {
    if constexpr (requires { problem.parts(); })
      return problem.parts();
    else
      return {problem.slices()};
  }
  std::function<double(int64_t, uint32_t)> drawn(int slot) const override {
    if constexpr (requires { problem.drawn(slot); })
      return problem.drawn(slot);
    else
      return {};
  }
  std::optional<LinearAxis> linear_axis() const override {
    if constexpr (requires { problem.linear_axis(); })
      return problem.linear_axis();
    else
      return std::nullopt;
  }
  void reference(Inputs in, int64_t slice, Expect& expect) const override { problem.reference(in, slice, expect); }
  std::shared_ptr<const Interface> with(std::string_view name, std::string_view text, bool& found) const override {
    P copy = problem;
    attribute::Writer writer{name, text};
    copy.attributes(writer);
    found = writer.found;
    return std::make_shared<Holder>(copy);
  }
  std::shared_ptr<const Interface> inferred(const Shapes& shapes) const override {
    P copy = problem;
    copy.infer(shapes);
    return std::make_shared<Holder>(copy);
  }
  std::string invalid() const override {
    if constexpr (requires { problem.invalid(); })
      return problem.invalid();
    else
      return {};
  }
  P problem;
};

template <class P>
Problem Problem::of(const P& problem) {
  return Problem(std::make_shared<Holder<P>>(problem));
}

}  // namespace duet
