// SPDX-License-Identifier: Apache-2.0
// Models: training steps, each written once as ops on a Tape and registered in its own file by DUET_MODEL.
// A model is a plain struct like a problem: attributes, cases, and two functions that write it on a tape.
//   struct Mlp {
//     static constexpr const char* name = "mlp";
//     int64_t batch = 32;
//     DType dtype = DType::f32;
//     void attributes(auto&& field);
//     std::string invalid() const;           // why these attributes are not allowed; "" where they are
//     void train(Tape& tape) const;          // forward, loss, backward, optimiser, as phases
//     void evaluate(Tape& tape) const;       // forward only: the same parameters, without dropout
//     static Cases cases(Scale scale);       // core/cases.h
//     std::string untrained() const;         // optional: why no training step has these attributes; "" where it may
//     static Cases served();                 // optional: the forms of its inference, where there are several
//     void adapt(Checkpoint&) const;         // optional: what training left becomes what evaluate() takes
//     std::optional<Mlp> teacher() const;    // optional: the model whose parameters are this one's frozen teacher
//   };
// Names on the tape that tools rely on: inputs "x" (samples first), "label"; states "lr" and, of a teacher, its
// parameters' names behind kTeacher; outputs "loss", "logits" (of language models in evaluate() alone); phase
// kOptimiser.
// Where a model has the attribute kLayout, 16 bits mean channels last unless a layout is given with the dtype: tensor
// cores read neighbouring channels. It goes by the dtype alone, since both sides of a case compute one problem.
// The attribute kFolded, of models with batch normalisation, is set where a checkpoint is served.
// Every model has the attribute kReplicas: its training step as data-parallel replicas, which all lie on one device
// (Tape::replicate()). train() throws Error for models whose optimiser is not elementwise.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/attributes.h"
#include "core/cases.h"
#include "core/problem.h"

namespace duet {

class Tape;
struct Checkpoint;

inline constexpr const char *kFolded = "folded", *kLayout = "layout", *kReplicas = "replicas";
inline constexpr const char* kTeacher = "teacher.";

// One model with its type erased. Cheap to copy, immutable.
class Model {
 public:
  template <class M>
  static Model of(const M& model) {
    return Model(std::make_shared<Holder<M>>(model));
  }
  std::string name() const { return self_->name(); }
  std::vector<Attribute> attributes() const;
  std::string label() const;  // "f32/batch:32"
  // Copies with one attribute, several, or several words of a case (core/cases.h), set from text. Whether the
  // attributes go together is asked once, after the last. Throw Error naming attribute, value and what is allowed.
  Model with(std::string_view attribute, std::string_view text) const;
  Model with(const std::vector<std::pair<std::string, std::string>>& attributes) const;
  Model with_words(std::string_view words) const;
  void require_trained() const;  // throws Error that says why no training step has these attributes
  // Throws Error where an attribute is set that an inference takes no notice of, and where it answers nothing.
  void require_served() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const { self_->evaluate(tape); }
  void adapt(Checkpoint& checkpoint) const { self_->adapt(checkpoint); }
  std::optional<Model> teacher() const {
    auto teacher = self_->teacher();
    return teacher ? std::optional(Model(std::move(teacher))) : std::nullopt;
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual const char* name() const = 0;
    virtual std::vector<Attribute> attributes() const = 0;
    virtual std::shared_ptr<const Interface> with(std::string_view, std::string_view, bool& found) const = 0;
    virtual std::string invalid() const = 0;
    virtual std::string untrained() const = 0;
    virtual void train(Tape&) const = 0;
    virtual void evaluate(Tape&) const = 0;
    virtual void adapt(Checkpoint&) const = 0;
    virtual std::shared_ptr<const Interface> teacher() const = 0;
  };
  template <class M>
  struct Holder;
  explicit Model(std::shared_ptr<const Interface> self) : self_(std::move(self)) {}
  Model changed(std::string_view attribute, std::string_view text) const;
  Model with_layout_of_dtype(const std::vector<std::string>& given) const;
  void validate() const;
  std::shared_ptr<const Interface> self_;
  int64_t replicas_ = 1;
};

struct ModelCase {
  std::string why;
  Model model;
};

const std::map<std::string, Model>& models();     // by name, with default attributes
const Model& find_model(std::string_view name);   // throws Error that lists the names
std::vector<ModelCase> model_cases(Scale scale);  // of every model, in order of name
const Cases& served_forms(const Model& model);    // how it is served, as words; one without words by default

namespace registration {
bool add_model(Model model, Cases (*cases)(Scale), Cases served);

template <class M>
bool add_model() {
  Cases served{{"", ""}};
  if constexpr (requires { M::served(); }) served = M::served();
  return add_model(Model::of(M{}), M::cases, std::move(served));
}
}  // namespace registration

#define DUET_MODEL(M) [[maybe_unused]] static const bool duet_model_##M = ::duet::registration::add_model<M>()

template <class M>
struct Model::Holder final : Model::Interface {
  explicit Holder(const M& m) : model(m) {}
  const char* name() const override { return M::name; }
  std::vector<Attribute> attributes() const override {
    attribute::Reader mine, defaults;
    M copy = model, plain{};
    copy.attributes(mine);
    plain.attributes(defaults);
    for (size_t i = 0; i < mine.list.size(); ++i)
      mine.list[i].is_default = mine.list[i].value == defaults.list[i].value;
    return std::move(mine.list);
  }
  std::shared_ptr<const Interface> with(std::string_view name, std::string_view text, bool& found) const override {
    M copy = model;
    attribute::Writer writer{name, text};
    copy.attributes(writer);
    found = writer.found;
    return std::make_shared<Holder>(copy);
  }
  std::string invalid() const override { return model.invalid(); }
  std::string untrained() const override {
    if constexpr (requires { model.untrained(); }) return model.untrained();
    return "";
  }
  void train(Tape& tape) const override { model.train(tape); }
  void evaluate(Tape& tape) const override { model.evaluate(tape); }
  void adapt(Checkpoint& checkpoint) const override {
    if constexpr (requires { model.adapt(checkpoint); }) model.adapt(checkpoint);
  }
  std::shared_ptr<const Interface> teacher() const override {
    if constexpr (requires { model.teacher(); })
      if (const std::optional<M> teacher = model.teacher()) return std::make_shared<Holder>(*teacher);
    return nullptr;
  }
  M model;
};

}  // namespace duet
