// SPDX-License-Identifier: Apache-2.0
// The golden files, tests/golden/<name>.json: training steps of each model, some of them with other attributes as well,
// by PyTorch in double, which tools/golden/make_golden.py wrote from the inputs and parameters that a tape of the same
// seed draws.
// golden_step_test.cpp compares the CPU's implementations with them, golden_reference_step_test.cpp the reference.
#pragma once
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "models/model.h"
#include "models/tape.h"

namespace duet::golden {

using Json = nlohmann::ordered_json;  // attributes are set in the order of the file

struct Tensor64 {
  Shape shape;
  std::vector<double> values;
};
using Tensors = std::map<std::string, Tensor64>;

// How far a tensor may be from the file: its element i, its norm, its dot product with the cosines.
struct Bound {
  std::vector<double> element;  // one for all elements, or one each
  double norm, dot;
  double of(size_t i) const { return element.size() == 1 ? element[0] : element[i]; }
};

inline const std::string kFolder = std::string(DUET_SOURCE_DIR) + "/tests/golden/";

inline Json read(const std::string& name) {
  const std::string path = kFolder + name + ".json";
  std::ifstream file(path);
  if (!file) throw Error("{}: cannot be read; tools/golden/make_golden.py {} writes it", path, name);
  return Json::parse(file);
}

inline std::string where(const Json& file) {
  const Json& made = file.at("made");
  return "tests/golden: " + made.at("by").get<std::string>() + " with torch " + made.at("torch").get<std::string>() +
         " on " + made.at("date").get<std::string>();
}

inline Model model_of(const Json& file) {
  std::string words;
  for (const auto& [name, text] : file.at("attributes").items()) words += name + ":" + text.get<std::string>() + " ";
  return find_model(file.at("model").get<std::string>()).with_words(words);
}

// Every model, and every further file.
inline std::vector<std::string> names() {
  std::set<std::string> all;
  for (const auto& [name, model] : models()) all.insert(name);
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) all.insert(file.path().stem().string());
  return {all.begin(), all.end()};
}

// Which elements of a tensor the file has. A gradient and an optimiser's state have those of their parameter.
inline const Json& samples_of(const Json& file, const std::string& tensor) {
  const Json& samples = file.at("samples");
  return samples.contains(tensor) ? samples.at(tensor) : samples.at(tensor.substr(0, tensor.rfind('.')));
}

inline Shape without_ones(Shape shape) {  // (1, m, n) of a batched product is a matrix here
  std::erase(shape, 1);
  return shape;
}

// "" where `got` is within the bound of what the file has under `want`: shape, sampled elements, norm, dot product.
inline std::string difference(const Json& want, const Json& samples, const Tensor64& got, const Bound& bound) {
  if (without_ones(want.at("shape")) != without_ones(got.shape))
    return "has another shape than " + want.at("shape").dump();
  const auto wrong = [](const std::string& what, double is, double should, double by) {
    char text[160];
    std::snprintf(text, sizeof text, ": %.12g, not %.12g within %.2g", is, should, by);
    return what + text;
  };
  for (size_t s = 0; s < samples.size(); ++s) {
    const auto i = samples[s].get<size_t>();
    const double should = want.at("value")[s].get<double>();
    if (!(std::abs(got.values.at(i) - should) <= bound.of(i)))
      return wrong("element " + std::to_string(i), got.values[i], should, bound.of(i));
  }
  double squares = 0, dot = 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    squares += got.values[i] * got.values[i];
    dot += got.values[i] * std::cos(static_cast<double>(i));
  }
  const double norm_wanted = want.at("norm").get<double>(), dot_wanted = want.at("dot").get<double>();
  if (!(std::abs(std::sqrt(squares) - norm_wanted) <= bound.norm))
    return wrong("norm", std::sqrt(squares), norm_wanted, bound.norm);
  if (!(std::abs(dot - dot_wanted) <= bound.dot)) return wrong("dot product", dot, dot_wanted, bound.dot);
  return "";
}

// Whether an op writes the gradient: one that updates a parameter itself has none.
inline bool has_gradient(const Tape& tape, Var parameter) {
  const void* gradient = tape.tensor(tape.gradient(parameter)).data;
  for (const Tape::Node& node : tape.nodes())
    for (const Var var : node.slots)
      if (tape.tensor(var).data == gradient) return true;
  return false;
}

inline Tensor64 download(const Tape& tape, Var var) { return {tape.shape(var), tape.download(var)}; }

// Outputs, parameters, gradients and states other than the optimiser's.
inline std::map<std::string, Var> compared_tensors(const Tape& tape) {
  std::map<std::string, Var> all;
  for (const auto& [name, var] : tape.outputs()) all[name] = var;
  for (const auto& [name, var] : tape.named_parameters()) {
    all[name] = var;
    if (has_gradient(tape, var)) all[name + ".gradient"] = tape.gradient(var);
  }
  static const std::set<std::string> kOptimiser{"lr", "step", "m", "v", "velocity"};
  for (const auto& [name, var] : tape.states())
    if (!kOptimiser.contains(name) && is_float(tape.dtype(var))) all[name] = var;
  return all;
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

}  // namespace duet::golden
