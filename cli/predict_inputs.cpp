// SPDX-License-Identifier: Apache-2.0
#include "cli/predict_inputs.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <numeric>

#include "cli/npy.h"
#include "cli/training_setup.h"
#include "models/data/image_file.h"

namespace duet {
namespace {

uint64_t seed_of(const Checkpoint& checkpoint) {
  const auto found = checkpoint.metadata.find("seed");
  uint64_t seed = 1;
  if (found != checkpoint.metadata.end() && !CLI::detail::lexical_cast(found->second, seed))
    throw Error("the checkpoint's metadata seed is '{}', which is no whole number", found->second);
  return seed;
}

Input from_npy(const std::string& path, const SampleForm& form, int64_t sample_elements) {
  NpyReader file(path);
  const auto elements = std::accumulate(file.shape().begin(), file.shape().end(), int64_t{1}, std::multiplies<>());
  if (elements != sample_elements)
    throw Error("{}: {} elements; a sample of the model has {}", path, elements, sample_elements);
  if (form.side > 0) {  // an image: its channels come first
    Shape given;
    for (const int64_t extent : file.shape())
      if (extent != 1) given.push_back(extent);
    const Shape flat{elements}, grey{form.side, form.side}, colour{form.channels, form.side, form.side};
    if (given != flat && given != (form.channels == 1 ? grey : colour))
      throw Error("{}: shape ({}); {} numbers, or ({}, {}, {}), channels first, are allowed", path,
                  fmt::join(file.shape(), ", "), elements, form.channels, form.side, form.side);
  }
  const DType dtype = form.tokens ? DType::i32 : DType::f32;
  if (!file.convertible(dtype))
    throw Error("{}: {} elements; {} are allowed", path, file.type(), NpyReader::accepted_for(dtype));
  Input input{.name = path, .x = {}, .token = {}, .label = {}};
  const auto count = static_cast<size_t>(elements);
  if (form.tokens) {
    input.token.resize(count);
    file.read(dtype, input.token.data());
  } else {
    input.x.resize(count);
    file.read(dtype, input.x.data());
    for (size_t i = 0; i < count; ++i)
      if (!std::isfinite(input.x[i]))
        throw Error("{}: element {} is {}; finite numbers are allowed", path, i, input.x[i]);
  }
  return input;
}

// Digits are read as MNIST has them: light on dark.
Input from_image(const std::string& path, const SampleForm& form) {
  const int64_t pixels = form.side > 0 ? form.side * form.side : kDigitPixels;
  const bool digit = form.features == kDigitPixels;
  if (form.tokens || (form.features != 3 * pixels && !digit))
    throw Error("{}: the model takes {} {} a sample, which are no image", path, form.features,
                form.tokens ? "tokens" : "numbers");
  std::vector<float> colour = square_of(read_image(path), digit ? kDigitSide : form.side);
  if (digit) {
    const auto plane = static_cast<size_t>(kDigitPixels);
    for (size_t i = 0; i < plane; ++i)
      colour[i] = .299f * colour[i] + .587f * colour[i + plane] + .114f * colour[i + 2 * plane];
    colour.resize(plane);
  }
  return {.name = path, .x = std::move(colour), .token = {}, .label = {}};
}

Input from_set(const Dataset& test, const std::string& source, int64_t index) {
  if (index >= test.size())
    throw Error("--index {}: {} has {} samples to test; 0 to {} are allowed", index, source, test.size(),
                test.size() - 1);
  Input input{.name = fmt::format("sample {} of {}", index, source), .x = {}, .token = {}, .label = {}};
  const auto take = [&](auto& to, const auto& from, int64_t width) {
    if (!from.empty()) to.assign(from.begin() + index * width, from.begin() + (index + 1) * width);
  };
  take(input.x, test.x, test.features);
  take(input.token, test.token, test.features);
  take(input.label, test.label, test.targets);
  return input;
}

}  // namespace

std::vector<Input> samples_of(const PredictOptions& options, const Checkpoint& checkpoint, const SampleForm& form,
                              PairTask task, std::vector<std::string>& names) {
  std::vector<Input> all;
  if (!options.indices.empty()) {
    const Split split = read_or_draw(
        {.model = options.model, .data = options.data, .task = task, .seed = seed_of(checkpoint), .drawn = 1}, form);
    if (names.empty()) names = split.test.class_names;
    for (const int64_t index : options.indices) all.push_back(from_set(split.test, split.source, index));
  }
  for (const std::string& path : options.inputs)
    all.push_back(path.ends_with(".npy") ? from_npy(path, form, form.features) : from_image(path, form));
  if (options.prompt && form.pairs) {
    all.push_back({.name = "--prompt", .x = {}, .token = tokens_of(task, *options.prompt), .label = {}});
    if (static_cast<int64_t>(all.back().token.size()) > form.features)
      throw Error("--prompt: {} tokens; the model takes up to {}", all.back().token.size(), form.features);
    if (task == PairTask::reverse && static_cast<int64_t>(all.back().token.size()) < form.features)
      fmt::print(stderr,
                 "duet predict: a model that reverses is trained on sequences of {} letters; the prompt has {}\n",
                 form.features, all.back().token.size());
    all.back().token.resize(static_cast<size_t>(form.features), 0);
  }
  return all;
}

}  // namespace duet
