// SPDX-License-Identifier: Apache-2.0
#include "cli/training_setup.h"

#include <algorithm>

#include "core/cpu_context.h"
#include "core/gpu.h"
#include "core/machine.h"
#include "models/data/cifar.h"
#include "models/data/digits.h"
#include "models/data/idx.h"
#include "models/data/image_folder.h"
#include "models/data/images.h"
#include "models/data/measurements.h"
#include "models/data/points.h"
#include "models/data/ratings.h"
#include "models/data/reviews.h"
#include "models/data/text.h"

namespace duet {
namespace {

constexpr int64_t kDrawnTest = 2000, kDrawnTokens = 300000;
constexpr int64_t kDrawnPixels = 100000000;  // of all samples of large images

// Where samples with this number of features come from.
struct SampleSource {
  int64_t features;
  const char* drawn_name;
  Dataset (*draw)(int64_t count, uint64_t seed);
  Dataset (*read)(const std::string& folder, bool training);  // null: there is no reader of files
};
constexpr SampleSource kSources[] = {{kDigitPixels, "drawn digits", draw_digits, read_mnist},
                                     {kColours * kImagePixels, "drawn images", draw_images, read_cifar},
                                     {kPointFeatures, "drawn points", draw_points, nullptr}};

// Two streams of one seed, so that no test sample is also a training sample.
template <class Draw>
Split draw_split(const DataOptions& options, const char* source, const Draw& draw) {
  return {draw(options.drawn, options.seed << 1), {}, draw(kDrawnTest, options.seed << 1 | 1), source};
}

Split text_for(const DataOptions& options, const SampleForm& form) {
  const int64_t features = form.features, vocabulary = form.classes;
  if (!options.data.empty()) {
    Text text = read_text(options.data, features, vocabulary);
    return {std::move(text.training), {}, std::move(text.test), options.data};
  }
  if (vocabulary < 256) throw Error("drawn text is bytes: a vocabulary of 256 is needed, the model has {}", vocabulary);
  const int64_t count = std::max<int64_t>(3, kDrawnTokens / features);
  return {draw_text(count, features, options.seed << 1),
          {},
          draw_text(std::max<int64_t>(1, count / 8), features, options.seed << 1 | 1),
          "drawn text"};
}

}  // namespace

const TrainingDefaults& training_defaults(const std::string& name) {
  const std::string model = name == "transformer" ? "transformer_small" : name;
  static const TrainingDefaults kAll[] = {
      {.model = "bilstm", .attributes = {{"batch", "64"}}, .learning_rate = 3e-3},  // 512 makes 15 steps of an epoch
      {.model = "lenet", .attributes = {{"batch", "16"}}, .learning_rate = 1e-2},
      {.model = "gpt2",  // bytes as tokens, four layers: it learns in minutes
       .attributes = {{"tokens", "64"},
                      {"context", "64"},
                      {"layers", "4"},
                      {"heads", "4"},
                      {"width", "128"},
                      {"vocabulary", "256"},
                      {"batch", "16"}},
       .learning_rate = 1e-3},
      {.model = "image_cnn", .attributes = {{"side", "64"}, {"width", "8"}, {"batch", "32"}}, .samples = 4000},
      {.model = "llama",
       .attributes = {{"tokens", "64"},
                      {"layers", "4"},
                      {"heads", "4"},
                      {"kv_heads", "2"},
                      {"width", "128"},
                      {"inner", "256"},
                      {"vocabulary", "256"},
                      {"batch", "16"}},
       .learning_rate = 1e-3},
      {.model = "recommender",  // fewer users and films than MovieLens, so that drawn ratings say enough of each
       .attributes = {{"users", "1000"}, {"items", "500"}, {"factors", "16"}, {"batch", "512"}},
       .learning_rate = 2e-2,
       .samples = 100000},
      {.model = "resnet50",
       .attributes = {{"side", "64"}, {"classes", "10"}, {"width", "8"}, {"batch", "32"}},
       .learning_rate = 2e-2,
       .samples = 4000},
      {.model = "transformer_small",  // letters as tokens, two layers
       .attributes = {{"tokens", "8"},
                      {"layers", "2"},
                      {"heads", "4"},
                      {"width", "64"},
                      {"inner", "128"},
                      {"vocabulary", "32"},
                      {"dropout", "0"},
                      {"batch", "32"}},
       .learning_rate = 2e-3,
       .schedule = Schedule::Kind::inverse_sqrt,
       .warm_up = 100,
       .samples = 20000}};
  static const TrainingDefaults kNone;
  for (const TrainingDefaults& d : kAll)
    if (d.model == model) return d;
  return kNone;
}

const Model& model_by_name(const std::string& name) { return find_model(name == "imdb_bilstm" ? "bilstm" : name); }

Attributes parse_attributes(const std::vector<std::string>& words) {
  Attributes all;
  for (const std::string& a : words) {
    const size_t equals = a.find('=');
    if (equals == a.npos) throw Error("--attr '{}' does not read name=value", a);
    all.emplace_back(a.substr(0, equals), a.substr(equals + 1));
  }
  return all;
}

std::unique_ptr<Context> open_device(const std::string& device, std::optional<int> threads, std::string& reason) {
  if (device == "gpu") return open_gpu(reason);
  return std::make_unique<CpuContext>(threads.value_or(usable_threads()));
}

Ratings ratings_for(const SampleForm& form, const std::string& path) {
  Ratings ratings = read_ratings(path);
  if (ratings.users > form.users || ratings.items > form.items)
    throw Error("{}: {} users and {} items; the model has {} and {} (train --attr users=, --attr items=)", path,
                ratings.users, ratings.items, form.users, form.items);
  return ratings;
}

Split read_or_draw(const DataOptions& options, const SampleForm& form) {
  const Error no_reader("--data {}: there is no reader of files for model {}", options.data, options.model);
  const int64_t features = form.features;
  if (form.users > 0) {
    const Ratings ratings = options.data.empty()
                                ? draw_ratings(form.users, form.items, options.drawn, options.seed << 1)
                                : ratings_for(form, options.data);
    Dataset all = samples_of(ratings), test = split_off(all, .1, options.seed);
    return {std::move(all), {}, std::move(test), options.data.empty() ? "drawn ratings" : options.data};
  }
  if (form.pairs) {
    if (!options.data.empty()) throw no_reader;
    if (form.targets != features)
      throw Error("model {} takes {} tokens and {} labels a sample, for which there are no data", options.model,
                  features, form.targets);
    return draw_split(
        options,
        options.task == PairTask::add       ? "drawn sums"
        : options.task == PairTask::grammar ? "drawn sentences"
                                            : "drawn sequences to reverse",
        [&](int64_t count, uint64_t seed) { return draw_pairs(options.task, count, features, form.classes, seed); });
  }
  if (form.label_for_each_token) return text_for(options, form);
  if (form.tokens) {
    if (!options.data.empty()) throw no_reader;
    return draw_split(options, "drawn reviews",
                      [&](int64_t count, uint64_t seed) { return draw_reviews(count, features, seed); });
  }
  if (form.channels == kColours && !options.data.empty() && is_image_folder(options.data)) {
    ImageFolder folder = read_image_folder(options.data, form.side);
    if (folder.training.classes > std::max<int64_t>(2, form.classes))
      throw Error("{}: {} classes; the model has {}", options.data, folder.training.classes,
                  std::max<int64_t>(2, form.classes));
    return {std::move(folder.training), {}, std::move(folder.test), options.data};
  }
  for (const SampleSource& source : kSources) {
    if (source.features != features) continue;
    if (options.data.empty()) return draw_split(options, source.drawn_name, source.draw);
    if (!source.read) throw no_reader;
    return {source.read(options.data, true), {}, source.read(options.data, false), options.data};
  }
  if (form.steps > 0 && form.binary && options.data.empty())
    return draw_split(options, "drawn measurements", [&](int64_t count, uint64_t seed) {
      return draw_measurements(count, form.steps, features / form.steps, seed);
    });
  if (form.channels == kColours && !options.data.empty())
    throw Error("--data {}: not a folder with a folder of images for each class", options.data);
  if (form.channels == kColours)
    return draw_split(options, "drawn images", [&](int64_t count, uint64_t seed) {
      return draw_images_of(std::min(count, kDrawnPixels / features), form.side, form.binary, seed);
    });
  throw Error("model {} takes {} features a sample, for which there are no data", options.model, features);
}

}  // namespace duet
