// SPDX-License-Identifier: Apache-2.0
#include "cli/predict.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cmath>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "cli/exit_status.h"
#include "cli/predict_inputs.h"
#include "cli/predict_items.h"
#include "cli/predict_text.h"
#include "cli/text_output.h"
#include "cli/training_plan.h"
#include "cli/training_setup.h"
#include "core/command_line.h"
#include "models/predictor.h"

namespace duet {
namespace {
using Json = nlohmann::ordered_json;

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

// --- classes ---------------------------------------------------------------------------------------------------------

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

// --- the command -----------------------------------------------------------------------------------------------------

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
  if (options.json) print_json(document);
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
