// SPDX-License-Identifier: Apache-2.0
#include "cpu_ref/onednn.h"

#include <algorithm>
#include <memory>

#include "core/error.h"

namespace duet::onednn {

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

bool has_vnni() {
  using Isa = dnnl::cpu_isa;
  const Isa isa = dnnl::get_effective_cpu_isa();
  return isa != Isa::sse41 && isa != Isa::avx && isa != Isa::avx2 && isa != Isa::avx512_core;
}

dnnl::memory::data_type type_of(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::f32:
      return Type::f32;
    case DType::bf16:
      return Type::bf16;
    case DType::f16:
      return Type::f16;
    case DType::i32:
      return Type::s32;
    case DType::i8:
      return Type::s8;
    case DType::u8:
      return Type::u8;
    case DType::f64:
    case DType::f8e4m3:
      break;
  }
  throw Refused{std::string("oneDNN is not used for ") + name_of(dtype)};
}

Desc dense(DType dtype, const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(1, dims[i]);
  return {dims, type_of(dtype), strides};
}

Desc any(DType dtype, const Dims& dims) { return {dims, type_of(dtype), dnnl::memory::format_tag::any}; }

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr all;
  all.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return all;
}

Value Program::tensor(Slot slot, const Desc& desc) {
  const Dims dims = desc.get_dims();
  if (std::count(dims.begin(), dims.end(), 0) > 0) throw Refused{std::string(slot.name) + " has no elements"};
  values_.push_back({dnnl::memory(desc, engine(), nullptr), slot, {}});
  return {values_.size() - 1, desc};
}

Value Program::temporary(const Desc& desc) {
  values_.push_back({dnnl::memory(desc, engine(), nullptr),
                     {-1, "", Role::out},
                     layout_.add_bytes(static_cast<int64_t>(desc.get_size()))});
  return {values_.size() - 1, desc};
}

void Program::reorder(const Value& from, const Value& to, const char* name) {
  const dnnl::reorder::primitive_desc chosen(engine(), from.desc, engine(), to.desc, attributes());
  append(dnnl::reorder(chosen), chosen.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  copies_ += (copies_.empty() ? "" : ", ") + std::string(name);
}

Value Program::copied(const Value& value, const Desc& wanted, const char* name) {
  if (value.desc == wanted) return value;
  const Value copy = temporary(wanted);
  reorder(value, copy, name);
  return copy;
}

Value Program::packed(Slot slot, const Value& weights, const Desc& wanted, Packing packing) {
  if (packing == Packing::in_each_run || weights.desc == wanted) return copied(weights, wanted, slot.name);
  const Value copy = temporary(wanted);
  const dnnl::reorder::primitive_desc chosen(engine(), weights.desc, engine(), wanted, attributes());
  append(dnnl::reorder(chosen), chosen.scratchpad_desc(), {{DNNL_ARG_FROM, weights}, {DNNL_ARG_TO, copy}});
  before_.push_back(std::move(steps_.back()));
  steps_.pop_back();
  packed_before_.push_back(slot);
  return copy;
}

Value Program::staged(const Value& to, const Desc& wanted) { return to.desc == wanted ? to : temporary(wanted); }

void Program::unstage(const Value& staged, const Value& to, const char* name) {
  if (staged.index != to.index) reorder(staged, to, name);
}

void Program::check(const std::string& implementation) {
  if (implementation.starts_with("ref"))
    throw Refused{"oneDNN has only its reference code for this case on this CPU (" + implementation + ")"};
  note(implementation);
}

void Program::note(const std::string& implementation) {
  if (chosen_.ends_with(implementation)) return;
  chosen_ += (chosen_.empty() ? "" : ", ") + implementation;
}

void Program::append(dnnl::primitive primitive, const Desc& scratchpad, const Arguments& arguments) {
  Step step{std::move(primitive), {}, {}};
  for (const auto& [argument, value] : arguments)
    step.arguments.push_back({argument, values_[value.index].memory.get()});
  if (scratchpad.get_size() > 0)
    step.arguments.push_back({DNNL_ARG_SCRATCHPAD, values_[temporary(scratchpad).index].memory.get()});
  steps_.push_back(std::move(step));
}

void Program::add(std::function<void(const Args&)> step) { steps_.push_back({{}, {}, std::move(step)}); }

void Program::run(const std::vector<Step>& steps, const Args& args) {
  for (const Bound& value : values_)
    value.memory.set_data_handle(value.slot.index < 0 ? args.workspace(value.piece) : args[value.slot].data);
  for (const Step& step : steps) {
    if (step.own) {
      step.own(args);
      continue;
    }
    const dnnl_status_t status = dnnl_primitive_execute(step.primitive.get(), stream_.get(),
                                                        static_cast<int>(step.arguments.size()), step.arguments.data());
    if (status != dnnl_success) throw Error("oneDNN: status {} of a primitive", static_cast<int>(status));
  }
}

Plan Program::plan() && {
  WorkspaceLayout layout = layout_;
  std::string algorithm = chosen_;
  if (!copies_.empty()) algorithm += "; copied into its layout and back in each run: " + copies_;
  const auto all = std::make_shared<Program>(std::move(*this));
  Plan plan =
      Plan([all](const Args& args) { all->run(all->steps_, args); }).with(std::move(algorithm), std::move(layout));
  if (all->before_.empty()) return plan;
  return std::move(plan).prepared(all->packed_before_, [all](const Args& args) { all->run(all->before_, args); });
}

Plan planned(const std::function<void(Program&)>& build) {
  try {
    Program program;
    build(program);
    return std::move(program).plan();
  } catch (const Refused& refused) {
    return Unsupported{refused.reason};
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) {
      const dnnl_version_t& version = *dnnl::version();
      return Unsupported{
          fmt::format("oneDNN {}.{} has no code for this case on this CPU", version.major, version.minor)};
    }
    throw Error("oneDNN: {}", error.what());
  }
}

Plan planned(Packing packing, const std::function<void(Program&)>& build) {
  Plan plan = planned(build);
  if (packing == Packing::before && plan && !plan.is_prepared())
    return Unsupported{"oneDNN takes the weights as they are on this CPU: cpu.onednn is the same"};
  return plan;
}

}  // namespace duet::onednn
