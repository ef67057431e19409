// SPDX-License-Identifier: Apache-2.0
#include "cli/op_inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/csr.h"
#include "core/error.h"
#include "core/machine.h"

namespace duet {
namespace {

std::string tensor_names(const std::vector<TensorSpec>& specs, Role excluded) {
  std::vector<std::string> names;
  for (const TensorSpec& s : specs)
    if (s.role != excluded) names.emplace_back(s.name);
  return fmt::format("{}", fmt::join(names, " "));
}

std::map<size_t, NpyReader> open_files(const Problem& problem, const std::vector<std::string>& inputs) {
  std::map<size_t, NpyReader> files;
  const std::vector<TensorSpec> specs = problem.tensors();
  for (const auto& [name, path] : split_pairs("--in", inputs)) {
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&, &name = name](const TensorSpec& s) { return name == s.name; });
    if (spec == specs.end() || spec->role == Role::out)
      throw Error("--in {}: {} has no input of this name; it has {}", name, problem.name(),
                  tensor_names(specs, Role::out));
    files.emplace(static_cast<size_t>(spec - specs.begin()), NpyReader(path));
  }
  return files;
}

// Takes the dimensions that no attribute gives from the shapes of the files. Those that were given must agree.
Problem infer(const Problem& problem, const std::map<size_t, NpyReader>& files,
              const std::map<std::string, std::string>& given) {
  const std::vector<Attribute> before = problem.attributes();
  const bool all_given = std::all_of(before.begin(), before.end(),
                                     [&](const Attribute& a) { return !a.dimension || given.contains(a.name); });
  if (files.empty() || all_given) return problem;
  std::vector<const Shape*> shapes(problem.tensors().size());
  for (const auto& [slot, file] : files) shapes[slot] = &file.shape();
  const Problem inferred = problem.inferred(Shapes(std::move(shapes)));
  const std::vector<Attribute> after = inferred.attributes();
  for (size_t i = 0; i < after.size(); ++i)
    if (given.contains(after[i].name) && after[i].value != before[i].value)
      throw Error("{}={}, but the inputs make it {}", after[i].name, before[i].text(), after[i].text());
  return inferred;
}

// Values of the studies: their arithmetic is exact on whole numbers, and results are compared without a tolerance.
void require_whole(const HostTensors& host, size_t slot, const std::string& path) {
  const TensorSpec& spec = host.specs()[slot];
  for (int64_t i = 0, n = spec.elements(); i < n; ++i)
    if (const double value = load_as_double(host.data(slot), spec.dtype, i);
        !(std::abs(value) <= spec.fill.a) || value != std::floor(value))
      throw Error("tensor {}: element {} is {:g}; whole numbers from {:.0f} to {:.0f} are allowed ({})", spec.name, i,
                  value, -spec.fill.a, spec.fill.a, path);
}

// Whole numbers that index an axis of another tensor, such as labels: an index out of range would make kernels read
// outside that tensor. A contract gives them Fill::below(extent); whole numbers of any size have no such fill, but are
// drawn by its drawn().
void require_in_range(const HostTensors& host, size_t slot, const std::string& path) {
  const TensorSpec& spec = host.specs()[slot];
  if (spec.fill.kind != Fill::Kind::below) return;
  if (is_float(spec.dtype)) return require_whole(host, slot, path);
  const auto limit = static_cast<int64_t>(spec.fill.a);
  const bool indexes = std::any_of(host.specs().begin(), host.specs().end(), [&](const TensorSpec& other) {
    return &other != &spec && std::find(other.shape.begin(), other.shape.end(), limit) != other.shape.end();
  });
  if (!indexes) return;
  for (int64_t i = 0, n = spec.elements(); i < n; ++i)
    if (const double value = load_as_double(host.data(slot), spec.dtype, i);
        !(value >= 0 && value < static_cast<double>(limit)))
      throw Error("tensor {}: element {} is {:.0f}; 0 .. {} is allowed ({})", spec.name, i, value, limit - 1, path);
}

}  // namespace

std::map<std::string, std::string> split_pairs(const char* flag, const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> split;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == pair.npos || equals == 0 || equals + 1 == pair.size())
      throw Error("{} '{}' does not read name=value", flag, pair);
    if (!split.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second)
      throw Error("{} {}: given twice", flag, pair.substr(0, equals));
  }
  return split;
}

OpInputs OpInputs::prepare(const OpOptions& options) {
  Problem problem = find_op(options.op).make().with_words(options.case_text);
  std::map<std::string, std::string> given = split_pairs("--attr", options.attributes);
  for (const auto& [name, text] : given) problem = problem.with(name, text);
  const std::map<std::string, std::string> inputs = split_pairs("--in", options.inputs);
  for (const CaseWord& w : words_of(options.case_text)) {
    const std::string name(w.name);
    const bool filled = w.kind == CaseWord::Kind::fill;
    if (filled ? inputs.contains(name) : given.contains(name))
      throw Error("{}: given by --case and by {}", name, filled ? "--in" : "--attr");
    if (!filled) given.emplace(name, w.value);
  }
  // Checked before inferring: a negative dimension is an error even where an input gives the right one.
  for (const Attribute& a : problem.attributes())
    if (const auto* value = std::get_if<int64_t>(&a.value); value && a.dimension && *value < 0)
      throw Error("{}={}: zero or more is allowed", a.name, *value);

  std::map<size_t, NpyReader> files = open_files(problem, options.inputs);
  if (files.empty() && !options.describe)
    for (const Attribute& a : problem.attributes())
      if (a.dimension && a.is_default && !given.contains(a.name))
        throw Error("{}: expected --attr {}=N, {}:N in --case or inputs that fix it; got none", problem.name(), a.name,
                    a.name);
  problem = infer(problem, files, given);
  if (!options.describe || !given.empty() || !files.empty())
    problem.validate();  // the defaults alone need not be a valid problem
  return {std::move(problem), std::move(files)};
}

HostTensors OpInputs::read(const OpOptions& options) {
  const bool draws = options.seed || (options.inputs.empty() && options.outputs.empty());
  HostTensors host(problem.tensors());
  for (size_t slot = 0; slot < host.size(); ++slot) {  // check all files before reading the first element
    const TensorSpec& spec = host.specs()[slot];
    if (spec.role == Role::out) continue;
    const auto file = files.find(slot);
    if (file == files.end()) {
      if (!draws)
        throw Error("tensor {}: expected --in {}=FILE with {} {}, or --seed N to draw it; got nothing", spec.name,
                    spec.name, name_of(spec.dtype), to_text(spec.shape));
      continue;
    }
    const NpyReader& reader = file->second;
    if (reader.shape() != spec.shape)
      throw Error("tensor {}: expected shape {}, got {} from {}", spec.name, to_text(spec.shape),
                  to_text(reader.shape()), reader.path());
    if (!reader.convertible(spec.dtype))
      throw Error("tensor {}: expected {} ({} in the file), got {} from {}", spec.name, name_of(spec.dtype),
                  NpyReader::accepted_for(spec.dtype), reader.type(), reader.path());
  }
  if (draws) host = draw_inputs(problem, FillMode::values, options.seed.value_or(1));
  for (auto& [slot, reader] : files) {
    if (!draws) host.allocate(slot);
    reader.read(host.specs()[slot].dtype, host.data(slot));
    require_in_range(host, slot, reader.path());
  }
  require_csr(problem, host);
  return host;
}

void require_memory(const Problem& problem, int copies) {
  const MachineState state = read_machine_state();
  const double available = static_cast<double>(allocatable_bytes(state));
  const double needed = static_cast<double>(problem.footprint_bytes()) * copies;
  if (needed <= available) return;
  std::vector<std::string> sizes;
  for (const TensorSpec& t : problem.tensors())
    sizes.push_back(
        fmt::format("{} {} takes {:.4g} GB", t.name, to_text(t.shape), static_cast<double>(t.bytes()) * 1e-9));
  throw Error("{} {}: {}; {:.4g} GB are needed and {:.4g} GB of memory are available", problem.name(), problem.label(),
              fmt::join(sizes, ", "), needed * 1e-9, available * 1e-9);
}

}  // namespace duet
