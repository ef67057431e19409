// SPDX-License-Identifier: Apache-2.0
#include "core/csr.h"

#include <string_view>
#include <variant>

#include "core/error.h"

namespace duet {
namespace {

void require_rows(const HostTensors& inputs, size_t slot, int64_t entries) {
  const TensorSpec& spec = inputs.specs()[slot];
  int64_t least = 0, most = 0;  // of the next element: the first is 0, the last the number of entries
  for (int64_t i = 0, n = spec.elements(); i < n; ++i) {
    if (i > 0) most = entries;
    if (i > 0 && i + 1 == n) least = entries;
    const auto value = static_cast<int64_t>(load_as_double(inputs.data(slot), spec.dtype, i));
    if (value < least || value > most)
      throw Error("tensor {}: element {} is {}; with checked:0, {} .. {} is allowed", spec.name, i, value, least, most);
    least = value;
  }
}

void require_columns(const HostTensors& inputs, size_t slot, int64_t columns) {
  const TensorSpec& spec = inputs.specs()[slot];
  for (int64_t i = 0, n = spec.elements(); i < n; ++i)
    if (const auto value = static_cast<int64_t>(load_as_double(inputs.data(slot), spec.dtype, i));
        value < 0 || value >= columns)
      throw Error("tensor {}: element {} is {}; with checked:0, 0 .. {} is allowed", spec.name, i, value, columns - 1);
}

}  // namespace

void require_csr(const Problem& problem, const HostTensors& inputs) {
  int64_t columns = 0;
  bool checked = true;
  for (const Attribute& a : problem.attributes()) {
    if (a.name == "checked") checked = a.text() != "0";
    if (const auto* value = std::get_if<int64_t>(&a.value); value && a.name == "k") columns = *value;
  }
  if (checked) return;
  int64_t entries = 0;
  for (const TensorSpec& spec : inputs.specs())
    if (std::string_view(spec.name) == "col") entries = spec.elements();
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    const std::string_view name = inputs.specs()[slot].name;
    if (name == "row") require_rows(inputs, slot, entries);
    if (name == "col") require_columns(inputs, slot, columns);
  }
}

}  // namespace duet
