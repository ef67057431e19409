// SPDX-License-Identifier: Apache-2.0
#include "cli/predict.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "cli/exit_status.h"
#include "cli/npy.h"
#include "cli/training_plan.h"
#include "cli/training_setup.h"
#include "core/command_line.h"
#include "models/data/dice.h"
#include "models/data/image_file.h"
#include "models/data/text.h"
#include "models/predictor.h"

namespace duet {
namespace {
using Json = nlohmann::ordered_json;

// One sample, and what to call it.
struct Input {
  std::string name;
  std::vector<float> x;
  std::vector<int32_t> token, label;  // label: empty where it is not known
};

uint64_t seed_of(const Checkpoint& checkpoint) {
  const auto found = checkpoint.metadata.find("seed");
  uint64_t seed = 1;
  if (found != checkpoint.metadata.end() && !CLI::detail::lexical_cast(found->second, seed))
    throw Error("the checkpoint's metadata seed is '{}', which is no whole number", found->second);
  return seed;
}

// The names of the classes: those of the samples, or those with which the checkpoint was trained.
std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  const auto found = checkpoint.metadata.find(kClassesKey);
  if (found == checkpoint.metadata.end()) return {};
  try {
    return Json::parse(found->second).get<std::vector<std::string>>();
  } catch (const Json::exception&) {
    throw Error("the checkpoint's metadata classes are '{}'; a list of names in JSON is allowed", found->second);
  }
}

// --- reading inputs --------------------------------------------------------------------------------------------------

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

// --- answers ---------------------------------------------------------------------------------------------------------

std::string class_text(int64_t label, const std::vector<std::string>& names) {
  return static_cast<size_t>(label) < names.size() ? fmt::format("{} ({})", label, names[static_cast<size_t>(label)])
                                                   : std::to_string(label);
}

// Probabilities of the classes; of a binary decision those of 0 and 1.
std::vector<double> probabilities(const SampleForm& form, std::vector<double> logits) {
  if (!form.binary) return softmax_of(std::move(logits));
  const double one = 1 / (1 + std::exp(-logits.at(0)));
  return {1 - one, one};
}

Json classify(Predictor& predictor, const Input& input, const std::vector<std::string>& names, int64_t top) {
  const std::vector<double> p = probabilities(predictor.form(), predictor.logits(input.x, input.token));
  std::vector<int64_t> order(p.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return p[static_cast<size_t>(a)] > p[static_cast<size_t>(b)]; });
  order.resize(std::min(order.size(), static_cast<size_t>(top)));
  const auto entry = [&](int64_t label) {
    Json json{{"class", label}};
    if (static_cast<size_t>(label) < names.size()) json["name"] = names[static_cast<size_t>(label)];
    json["probability"] = p[static_cast<size_t>(label)];
    return json;
  };
  Json answer{{"input", input.name}};
  answer.update(entry(order.front()));
  if (!input.label.empty()) answer["label"] = input.label.front();
  for (const int64_t label : order) answer["top"].push_back(entry(label));
  return answer;
}

void print_class(const Json& answer, const std::vector<std::string>& names) {
  const auto percent = [](const Json& entry) { return 100 * entry["probability"].get<double>(); };
  const auto label = [&](const Json& entry) { return class_text(entry["class"].get<int64_t>(), names); };
  fmt::print("{}: class {}, {:.2f} %", one_line(answer["input"].get<std::string>()), label(answer), percent(answer));
  if (answer.contains("label")) fmt::print("; its label is {}", class_text(answer["label"].get<int64_t>(), names));
  fmt::print("\n");
  for (const Json& entry : answer["top"]) fmt::print("  {:6.2f} %  {}\n", percent(entry), label(entry));
}

// The most likely token, or with a temperature one drawn by its probability.
int32_t next_token(std::span<const double> logits, double temperature, Dice& dice) {
  if (temperature == 0) return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<double> scaled(logits.begin(), logits.end());
  const double max = *std::max_element(scaled.begin(), scaled.end());
  for (double& v : scaled) v = (v - max) / temperature;  // a small temperature would make infinities of them
  const std::vector<double> p = softmax_of(std::move(scaled));
  double left = dice.uniform(0, 1);
  for (size_t i = 0; i < p.size(); ++i)
    if ((left -= p[i]) < 0) return static_cast<int32_t>(i);
  return static_cast<int32_t>(p.size()) - 1;
}

// The beginning of a text that a language model continues: bytes, or the tokens of a file.
struct Prompt {
  std::vector<int32_t> tokens;
  bool bytes;
};

void require_one_prompt(const PredictOptions& options) {
  if (!options.indices.empty() || options.inputs.size() + (options.prompt ? 1 : 0) != 1)
    throw Error(
        "model {} continues a text: give its beginning by either --prompt or one file of 16-bit tokens (.bin), and no "
        "other input",
        options.model);
  if (!options.prompt && !options.inputs[0].ends_with(".bin"))
    throw Error("{}: for model {} a file of 16-bit tokens (.bin) is allowed; a text is given by --prompt",
                options.inputs[0], options.model);
}

Prompt prompt_of(const PredictOptions& options, const TextPredictor& predictor) {
  if (!options.prompt) {
    const std::string& file = options.inputs[0];
    Prompt prompt{read_tokens(file, predictor.vocabulary()), false};
    auto& tokens = prompt.tokens;
    if (tokens.empty()) throw Error("{}: 1 token or more is allowed", file);
    // The model reads no more than its window; a file may be that of a training.
    tokens.erase(tokens.begin(), tokens.end() - std::min(std::ssize(tokens), predictor.window()));
    return prompt;
  }
  Prompt prompt{{}, true};
  for (const char c : *options.prompt) {
    prompt.tokens.push_back(static_cast<unsigned char>(c));
    if (prompt.tokens.back() >= predictor.vocabulary())
      throw Error("--prompt: byte {} is not below the model's vocabulary of {}; a file of 16-bit tokens is allowed",
                  prompt.tokens.back(), predictor.vocabulary());
  }
  if (prompt.tokens.empty()) throw Error("--prompt '': a text of 1 byte or more is allowed");
  return prompt;
}

// Tokens that follow the prompt.
std::vector<int32_t> continuation(TextPredictor& predictor, const Prompt& prompt, const PredictOptions& options) {
  std::vector<int32_t> tokens = prompt.tokens;
  Dice dice(options.seed, 0);
  for (int64_t i = 0; i < options.tokens; ++i) {
    tokens.push_back(next_token(predictor.next(tokens), options.temperature, dice));
    if (prompt.bytes && tokens.back() > 255)
      throw Error(
          "the model answers with token {}: its tokens are no bytes; a file of 16-bit tokens (.bin) can be continued",
          tokens.back());
  }
  return {tokens.begin() + std::ssize(prompt.tokens), tokens.end()};
}

// If the prompt is bytes, the answer is also a text.
int continue_text(const PredictOptions& options, TextPredictor& predictor, Json document) {
  const Prompt prompt = prompt_of(options, predictor);
  const std::vector<int32_t> tokens = continuation(predictor, prompt, options);
  const std::string text = prompt.bytes ? std::string(tokens.begin(), tokens.end()) : std::string();
  if (prompt.bytes) {
    document["prompt"] = *options.prompt;
    document["text"] = text;
  } else {
    document["input"] = options.inputs[0];
  }
  document["tokens"] = tokens;
  if (options.json)
    fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
  else if (prompt.bytes)
    fmt::print("{}{}\n", *options.prompt, text);
  else
    fmt::print("{}\n", fmt::join(tokens, " "));
  return 0;
}

// The decoder reads what it has answered so far, and answers one more token.
std::vector<int32_t> decoded(Predictor& predictor, const std::vector<int32_t>& source) {
  const auto length = static_cast<size_t>(predictor.form().targets),
             classes = static_cast<size_t>(predictor.form().classes);
  std::vector<int32_t> target(length, 0), answer;
  target[0] = kFirstToken;
  Dice dice(0, 0);
  for (size_t t = 0; t < length; ++t) {
    const std::vector<double> logits = predictor.logits({}, source, target);
    answer.push_back(next_token(std::span(logits).subspan(t * classes, classes), 0, dice));
    if (t + 1 < length) target[t + 1] = answer.back();
  }
  return answer;
}

PairTask task_of(const PredictOptions& options, const Checkpoint& checkpoint) {
  const auto found = checkpoint.metadata.find(kTaskKey);
  return parse_pair_task(options.task.value_or(found == checkpoint.metadata.end() ? "reverse" : found->second));
}

Json translate(Predictor& predictor, const Input& input, PairTask task) {
  const std::vector<int32_t> tokens = decoded(predictor, input.token);
  Json answer{{"input", input.name},
              {"source", text_of(task, input.token)},
              {"text", text_of(task, tokens)},
              {"tokens", tokens}};
  if (!input.label.empty()) answer["label"] = text_of(task, input.label);
  return answer;
}

void print_pair(const Json& answer) {
  fmt::print("{}: {} -> {}", one_line(answer["input"].get<std::string>()), answer["source"].get<std::string>(),
             answer["text"].get<std::string>());
  if (answer.contains("label")) fmt::print("; expected {}", answer["label"].get<std::string>());
  fmt::print("\n");
}

// A user who is asked for, and the items that are not to be offered: those that the user has rated, and those of the
// model that the file does not have.
struct AskedUser {
  int64_t number;
  int32_t row;  // of the model
  std::set<int32_t> withheld;
};

// How users and items of a model of ratings are numbered: from 0, or as in the file of its training.
class Numbering {
 public:
  Numbering(const SampleForm& form, const std::string& file, const Checkpoint& checkpoint) : form_(form), file_(file) {
    if (file.empty()) return;
    const auto trained = checkpoint.metadata.find(kDataKey);
    if (trained == checkpoint.metadata.end())
      throw Error("--data {}: the checkpoint was trained on drawn ratings, not on a file", file);
    ratings_ = ratings_for(form, file);
    if (trained->second != std::filesystem::absolute(file).string())
      fmt::print(stderr, "duet predict: the checkpoint was trained on {}; users and items are numbered as in {}\n",
                 trained->second, file);
  }
  // Throws Error where there is no such user.
  AskedUser user(int64_t number) const {
    if (file_.empty()) {
      if (number < form_.users) return {number, static_cast<int32_t>(number), {}};
      throw Error("--user {}: the model has users 0 to {}", number, form_.users - 1);
    }
    const auto& numbers = ratings_.user_numbers;
    const auto at = std::lower_bound(numbers.begin(), numbers.end(), number);
    if (at == numbers.end() || *at != number)
      throw Error("--user {}: {} has no rating of that user; its users are {} to {}", number, file_, numbers.front(),
                  numbers.back());
    AskedUser user{number, static_cast<int32_t>(at - numbers.begin()), {}};
    for (size_t i = 0; i < ratings_.rating.size(); ++i)
      if (ratings_.user[i] == user.row) user.withheld.insert(ratings_.item[i]);
    for (int64_t i = ratings_.items; i < form_.items; ++i) user.withheld.insert(static_cast<int32_t>(i));
    return user;
  }
  int64_t item(int32_t item) const { return file_.empty() ? item : ratings_.item_numbers[static_cast<size_t>(item)]; }

 private:
  const SampleForm& form_;
  const std::string& file_;
  Ratings ratings_;
};

// The items that each user would rate highest, of those that are not withheld.
int recommend(const PredictOptions& options, const std::vector<AskedUser>& users, const Numbering& numbering,
              ItemPredictor& predictor, Json document) {
  for (const AskedUser& user : users) {
    Json answer{{"user", user.number}, {"top", Json::array()}};
    for (const auto& [item, rating] : predictor.of(user.row)) {
      if (static_cast<int64_t>(answer["top"].size()) == options.top) break;
      if (!user.withheld.contains(item)) answer["top"].push_back({{"item", numbering.item(item)}, {"rating", rating}});
    }
    document["predictions"].push_back(answer);
    if (options.json) continue;
    fmt::print("user {}:\n", user.number);
    for (const Json& entry : answer["top"])
      fmt::print("  {:.2f}  item {}\n", entry["rating"].get<double>(), entry["item"].get<int64_t>());
  }
  if (options.json) fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
  return 0;
}

// --- the command -----------------------------------------------------------------------------------------------------

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

int predict(const PredictOptions& options, Checkpoint checkpoint, Context& context) {
  const auto of_checkpoint = [&](const auto& work) {
    try {
      return work();
    } catch (const NotServed&) {
      throw;
    } catch (const Error& e) {
      throw Error("{}: {}", options.checkpoint, e.what());
    }
  };
  const Model trained = of_checkpoint([&] {
    require_made_by(checkpoint, model_by_name(options.model), false);
    return trained_model(checkpoint, model_by_name(options.model)).with("batch", "1");
  });
  const Model model = served_model(checkpoint, trained).with(parse_attributes(options.attributes));
  for (const Attribute& a : model.attributes())
    if (a.name == kReplicas && !a.is_default)
      throw Error("replicas {}: only a training step has it; 1 is allowed", a.text());
  const SampleForm form = sample_form(trained, context);
  const auto make = [&]<class P>(const Model& served) {
    return of_checkpoint([&] {
      return std::make_unique<P>(served, context, Tape::preferences_for(context.device()), std::move(checkpoint));
    });
  };
  Json document{{"model", model.name()}, {"case", model.label()}, {"checkpoint", options.checkpoint}};
  if (form.users == 0 && !options.users.empty()) throw Error("--user: model {} has no users", options.model);
  if (form.users > 0) {
    if (options.users.empty() || !options.indices.empty() || !options.inputs.empty() || options.prompt)
      throw Error("model {} finds items for users: give --user, {}, and no other input", options.model,
                  options.data.empty() ? fmt::format("0 to {}", form.users - 1) : "a number of " + options.data);
    if (!options.attributes.empty()) throw Error("--attr: model {} is served as it was trained", options.model);
    const Numbering numbering(form, options.data, checkpoint);
    std::vector<AskedUser> users;
    size_t withheld = 0;  // at most, of a user
    for (const int64_t number : options.users) {
      users.push_back(numbering.user(number));
      withheld = std::max(withheld, users.back().withheld.size());
    }
    const Model ranking =
        model.with("top", std::to_string(std::min(options.top + static_cast<int64_t>(withheld), form.items)));
    document["case"] = ranking.label();
    return recommend(options, users, numbering, *make.operator()<ItemPredictor>(ranking), std::move(document));
  }
  if (options.prompt && !form.label_for_each_token) throw Error("--prompt: model {} continues no text", options.model);
  if (form.label_for_each_token && !form.pairs) {
    require_one_prompt(options);
    return continue_text(options, *make.operator()<TextPredictor>(model), std::move(document));
  }
  const PairTask task = task_of(options, checkpoint);
  std::vector<std::string> names = names_of(checkpoint);
  const std::vector<Input> inputs = samples_of(options, checkpoint, form, task, names);
  if (inputs.empty())
    throw Error("nothing to predict: --index, an image, a .npy file or, for transformer_small, --prompt is needed");
  const std::unique_ptr<Predictor> predictor = make.operator()<Predictor>(model);
  for (const Input& input : inputs) {
    const Json answer =
        form.pairs ? translate(*predictor, input, task) : classify(*predictor, input, names, options.top);
    document["predictions"].push_back(answer);
    if (!options.json) form.pairs ? print_pair(answer) : print_class(answer, names);
  }
  if (options.json) fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
  return 0;
}

}  // namespace

int run_predict(const PredictOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    throw Error("--temperature {}; a finite number from 0 is allowed", options.temperature);
  Checkpoint checkpoint = read_checkpoint(options.checkpoint);
  std::string reason;
  const std::unique_ptr<Context> context = open_device(options.device, options.threads, reason);
  try {
    if (context) return predict(options, std::move(checkpoint), *context);
  } catch (const NotServed& e) {
    reason = e.what();
  }
  fmt::print(stderr, "duet predict: --device {}: {}\n", options.device, one_line(reason));
  return kUnsupported;
}

void add_predict(CLI::App& app) {
  const auto o = std::make_shared<PredictOptions>();
  const auto whole_number = [](int64_t min, int64_t max = INT64_MAX) -> CLI::Validator {
    return {[min, max](std::string& text) { return check_whole_number(text, min, max); }, "INT"};
  };
  CLI::App* predict =
      app.add_subcommand("predict", "serve a checkpoint of train: classes of samples, items for users, or a text");
  predict->add_option("model", o->model, "the model that was trained")->required();
  predict->add_option("checkpoint", o->checkpoint, "file that train wrote")->required();
  predict->add_option(
      "input", o->inputs,
      "images (.png .jpg .ppm; the middle square is used) or .npy files, one sample each; for a "
      "language model, one file of 16-bit tokens (.bin) to continue, of which it reads the last window");
  predict->add_option("--index", o->indices, "sample of the test, from 0; repeatable")
      ->expected(1)
      ->take_all()
      ->transform(whole_number(0));
  predict
      ->add_option(
          "--user", o->users,
          "of a model of ratings (recommender): a user, from 0, or with --data by the file's number; repeatable")
      ->expected(1)
      ->take_all()
      ->transform(whole_number(0));
  predict
      ->add_option("--attr", o->attributes,
                   "attribute=value of the inference, repeatable; int8=1 of mlp, folded=0 of resnet50")
      ->expected(1)
      ->take_all();
  predict->add_option("--data", o->data,
                      "where --index looks, as of train; without it in the samples that train draws. With --user: the "
                      "file of ratings of the training; items that the user has rated are left out");
  predict->add_option("--task", o->task, "of pairs: reverse, add or grammar; by default as trained")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kPairTasks), std::end(kPairTasks))));
  predict->add_option("--prompt", o->prompt,
                      "beginning of a text to continue (gpt2, llama), or a sequence to answer (transformer_small)");
  predict->add_option("--tokens", o->tokens, "tokens that follow the prompt or the file")
      ->transform(whole_number(1, 1000000))
      ->capture_default_str();
  predict->add_option("--temperature", o->temperature, "0: always the most likely token; 1: drawn by its probability")
      ->capture_default_str();
  predict->add_option("--seed", o->seed, "of the tokens that are drawn")
      ->transform(whole_number(0))
      ->capture_default_str();
  predict->add_option("--top", o->top, "classes, or items for a user, that are printed, the best first")
      ->transform(whole_number(1, 100000))
      ->capture_default_str();
  predict->add_flag("--json", o->json, "as JSON");
  predict->add_option("--device", o->device, "cpu or gpu")->check(CLI::IsMember({"cpu", "gpu"}))->capture_default_str();
  predict->add_option("--threads", o->threads, "number of CPU threads; all by default")
      ->transform(whole_number(1, INT_MAX));
  predict->callback([o] {
    if (const int status = run_predict(*o)) throw CLI::RuntimeError(status);
  });
}

}  // namespace duet
