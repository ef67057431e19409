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

namespace {

void fold_batchnorm(Checkpoint& checkpoint, const std::string& layer, double eps) {
  std::vector<double> w = values_of(checkpoint, layer + ".weight"), bias = values_of(checkpoint, layer + ".beta");
  const std::vector<double> gamma = values_of(checkpoint, layer + ".gamma"),
                            mean = values_of(checkpoint, layer + ".running_mean"),
                            var = values_of(checkpoint, layer + ".running_var");
  const size_t channels = bias.size(), terms = channels == 0 ? 0 : w.size() / channels;
  for (const size_t size : {gamma.size(), mean.size(), var.size(), terms == 0 ? 0 : w.size() / terms})
    if (size != channels)
      throw Error("the checkpoint's tensors of {} are of {} and {} channels", layer, channels, size);
  for (size_t k = 0; k < channels; ++k) {
    if (!(var[k] + eps > 0))
      throw Error("the checkpoint's tensor {}.running_var has {}, which is no variance", layer, var[k]);
    const double scale = gamma[k] / std::sqrt(var[k] + eps);
    for (size_t t = 0; t < terms; ++t) w[k * terms + t] *= scale;
    bias[k] -= mean[k] * scale;
  }
  const Checkpoint::Entry weight = checkpoint.tensors.at(layer + ".weight"),
                          beta = checkpoint.tensors.at(layer + ".beta");
  set_values(checkpoint, layer + ".weight", weight.dtype, weight.shape, w);
  set_values(checkpoint, layer + ".bias", beta.dtype, beta.shape, bias);
  for (const char* gone : {".gamma", ".beta", ".running_mean", ".running_var"}) checkpoint.tensors.erase(layer + gone);
}

}  // namespace

void fold_batchnorms(Checkpoint& checkpoint, double eps) {
  constexpr std::string_view kStatistic = ".running_var";
  std::vector<std::string> layers;
  for (const auto& [name, entry] : checkpoint.tensors)
    if (name.ends_with(kStatistic)) layers.push_back(name.substr(0, name.size() - kStatistic.size()));
  for (const std::string& layer : layers) fold_batchnorm(checkpoint, layer, eps);
}

}  // namespace duet
