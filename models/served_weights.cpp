// SPDX-License-Identifier: Apache-2.0
#include "models/served_weights.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace duet {

std::vector<double> values_of(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.tensors.find(name);
  if (found == checkpoint.tensors.end()) throw Error("the checkpoint has no tensor {}", name);
  const Checkpoint::Entry& entry = found->second;
  std::vector<double> values(entry.bytes.size() / static_cast<size_t>(size_of(entry.dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = load_as_double(entry.bytes.data(), entry.dtype, static_cast<int64_t>(i));
  return values;
}

void set_values(Checkpoint& checkpoint, const std::string& name, DType dtype, Shape shape,
                const std::vector<double>& values) {
  std::vector<unsigned char> bytes(values.size() * static_cast<size_t>(size_of(dtype)));
  for (size_t i = 0; i < values.size(); ++i) store_double(bytes.data(), dtype, static_cast<int64_t>(i), values[i]);
  checkpoint.tensors[name] = {dtype, std::move(shape), std::move(bytes)};
}

void quantise_rows(Checkpoint& checkpoint, const std::string& layer) {
  const std::string name = layer + ".weight";
  std::vector<double> w = values_of(checkpoint, name);
  const Shape shape = checkpoint.tensors.at(name).shape;
  if (shape.size() != 2) throw Error("the checkpoint's tensor {} has {} axes; 2 are allowed", name, shape.size());
  const auto rows = static_cast<size_t>(shape[0]), cols = rows == 0 ? 0 : w.size() / rows;
  std::vector<double> scales(rows);
  for (size_t r = 0; r < rows; ++r) {
    double max = 0;
    for (size_t c = 0; c < cols; ++c) max = std::max(max, std::abs(w[r * cols + c]));
    scales[r] = max > 0 ? max / 127 : 1;
    for (size_t c = 0; c < cols; ++c) w[r * cols + c] = std::nearbyint(w[r * cols + c] / scales[r]);
  }
  set_values(checkpoint, name, DType::i8, shape, w);
  set_values(checkpoint, layer + ".scale", DType::f32, {static_cast<int64_t>(rows)}, scales);
}

}  // namespace duet
