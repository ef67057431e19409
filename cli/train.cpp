// SPDX-License-Identifier: Apache-2.0
#include "cli/train.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/exit_status.h"
#include "cli/training_log.h"
#include "cli/training_plan.h"
#include "cli/training_setup.h"
#include "core/atomic_file.h"
#include "core/command_line.h"
#include "models/choice.h"
#include "models/predictor.h"
#include "models/trainer.h"

namespace duet {
namespace {
using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t interrupted = 0;

// While it lives, the first SIGINT asks the training to stop after its step, and a second one ends the program.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

// Whether two options name one file. An option without a path names none.
bool same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code missing;
  return a == b || std::filesystem::equivalent(a, b, missing);
}

// Whether one of the names, such as cuda.tuned, is of this device: a training may be resumed on the other one.
bool serves(const Tape::Preferences& preferences, Device device) {
  const std::string side = std::string(name_of(device)) + ".";
  return std::ranges::any_of(preferences, [&](const std::string& name) { return name.starts_with(side); });
}

// A checkpoint that is resumed, or that a training begins with, says how its model was made; options change that.
Model chosen_model(const TrainOptions& options, const Checkpoint* from) {
  Model model = model_by_name(options.model);
  Attributes all;
  if (from)
    model = trained_model(*from, model);
  else
    all = training_defaults(model.name()).attributes;
  for (auto& given : parse_attributes(options.attributes)) all.push_back(std::move(given));
  if (options.batch) all.emplace_back("batch", std::to_string(*options.batch));
  return model.with(all);
}

// --- the training ----------------------------------------------------------------------------------------------------

Split load(const TrainOptions& options, const TrainingPlan& plan, const Model& model, const SampleForm& form) {
  if (options.task && (!form.pairs || !plan.data.empty()))
    throw Error("--task {}: only a model of drawn pairs, such as transformer_small, has a task", *options.task);
  Split all = read_or_draw({.model = options.model,
                            .data = plan.data,
                            .task = parse_pair_task(plan.task),
                            .seed = options.seed,
                            .drawn = training_defaults(model.name()).samples},
                           form);
  all.validation = split_off(all.training, plan.validation, options.seed);
  if (all.training.size() < form.batch)
    throw Error("{} samples are fewer than the batch of {}", all.training.size(), form.batch);
  return all;
}

// Trains epoch by epoch, writes a checkpoint after each better one, and stops as --epochs and --patience say.
class TrainingLoop {
 public:
  TrainingLoop(const TrainOptions& options, const TrainingPlan& plan, Trainer& trainer, const Split& data,
               TrainingLog& log)
      : options_(options),
        plan_(plan),
        trainer_(trainer),
        data_(data),
        log_(log),
        best_score_(trainer.evaluate(data.validation).score()),
        best_checkpoint_(checkpoint()) {}

  // Returns the exit status.
  int run() {
    const InterruptGuard guard;
    int64_t epochs_without_better = 0;
    while (trainer_.epochs() < plan_.epochs && (options_.patience == 0 || epochs_without_better < options_.patience)) {
      try {
        epochs_without_better = train_epoch() ? 0 : epochs_without_better + 1;
      } catch (const TrainingStopped& stop) {
        return finish_interrupted(stop.what());
      }
      if (interrupted != 0 && trainer_.epochs() < plan_.epochs)
        return finish_interrupted(fmt::format("stopped after epoch {}", trainer_.epochs()));
    }
    if (trainer_.epochs() < plan_.epochs) fmt::print("no better for {} epoch(s): stopped\n", epochs_without_better);
    trainer_.restore(best_checkpoint_);
    if (!options_.checkpoint.empty() && !written_) {
      write_checkpoint(options_.checkpoint, best_checkpoint_);
      fmt::print("no epoch was better than the parameters of epoch {}, which {} holds\n", trainer_.epochs(),
                 options_.checkpoint);
    }
    const Metrics test = trainer_.evaluate(data_.test);
    fmt::print("test {} with the parameters of epoch {}\n", text_of(test), trainer_.epochs());
    return 0;
  }

 private:
  Checkpoint checkpoint() const {
    Checkpoint made = trainer_.checkpoint();
    describe(plan_, data_.training, trainer_.form().pairs, made);
    return made;
  }

  // A file that was there before holds another training, or the epochs that this one began with: where no epoch was
  // better since, it stays as it is.
  int finish_interrupted(const std::string& where) {
    std::string file;
    if (!options_.checkpoint.empty() && !written_ && std::filesystem::exists(options_.checkpoint)) {
      file = fmt::format("; no epoch was better, {} is left as it was{}", options_.checkpoint,
                         same_file(options_.checkpoint, options_.resume) ? ", --resume goes on" : "");
    } else if (!options_.checkpoint.empty()) {
      if (!written_) write_checkpoint(options_.checkpoint, best_checkpoint_);
      trainer_.restore(best_checkpoint_);
      file = fmt::format("; {} holds epoch {}, --resume goes on", options_.checkpoint, trainer_.epochs());
    }
    fmt::print(stderr, "duet train: interrupted: {}{}\n", where, file);
    return kInterrupted;
  }

  // Returns whether the epoch was the best so far.
  bool train_epoch() {
    const bool of_tokens = trainer_.form().label_for_each_token;
    const auto labels = static_cast<double>(trainer_.form().targets);
    const char* unit = of_tokens ? "tokens" : "samples";
    const double each = static_cast<double>(trainer_.form().batch) * labels;
    EpochRecord record;
    naming_the_checkpoint([&] {
      const auto start = Clock::now();
      {
        ProgressLine line(trainer_.epochs() + 1, each, unit);
        record.loss = trainer_.epoch(data_.training, [&](const Progress& p) {
          line.show(p);
          return interrupted == 0 || p.batch == p.batches;
        });
      }
      record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      record.validation = trainer_.evaluate(data_.validation);
    });
    const auto batches = static_cast<double>(trainer_.updates_of_epoch(data_.training.size()) * plan_.accumulate);
    record.epoch = trainer_.epochs();
    record.updates = trainer_.updates();
    record.learning_rate = trainer_.learning_rate();
    record.per_s = batches * each / std::max(record.seconds, 1e-9);
    fmt::print("epoch {:2}  loss {:.4f}  validation {}  {:.2f} s  {:.0f} {}/s\n", record.epoch, record.loss,
               text_of(record.validation), record.seconds, record.per_s, unit);
    std::fflush(stdout);
    log_.add(record);
    if (!(record.validation.score() > best_score_)) return false;
    best_score_ = record.validation.score();
    best_checkpoint_ = checkpoint();
    if (!options_.checkpoint.empty()) {
      write_checkpoint(options_.checkpoint, best_checkpoint_);
      written_ = true;
    }
    return true;
  }
  // Adds to an error which epoch the checkpoint file holds.
  void naming_the_checkpoint(const std::function<void()>& train) {
    try {
      train();
    } catch (const TrainingStopped&) {
      throw;
    } catch (const Error& e) {
      if (!written_) throw;
      const auto epochs = best_checkpoint_.metadata.find("epochs");
      throw Error("{}; {} holds epoch {}", e.what(), options_.checkpoint, epochs->second);
    }
  }

  const TrainOptions& options_;
  const TrainingPlan& plan_;
  Trainer& trainer_;
  const Split& data_;
  TrainingLog& log_;
  double best_score_;
  Checkpoint best_checkpoint_;
  bool written_ = false;  // whether the file of this training holds best_checkpoint_
};

// A checkpoint's metadata are JSON.
void require_utf8(const std::string& data) {
  try {
    static_cast<void>(nlohmann::json(data).dump());
  } catch (const nlohmann::json::exception&) {
    throw Error("--data {}: a path in UTF-8 is allowed, because --checkpoint names it", data);
  }
}

// Puts an option and its file in front of an error of `work`.
void with_option_in_errors(const char* option, const std::string& path, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    throw Error("{} {}: {}", option, path, e.what());
  }
}

int train_model(const TrainOptions& options, const Model& model, const Checkpoint* resumed, const Checkpoint* init,
                const Checkpoint* teacher, Context& context) {
  if (!options.checkpoint.empty())
    AtomicFile(options.checkpoint);  // throws now, not after an epoch, where the folder cannot be written
  TrainingPlan plan;
  const auto make_plan = [&] { plan = plan_of(options, training_defaults(model.name()), resumed); };
  resumed ? with_option_in_errors("--resume", options.resume, make_plan) : make_plan();
  if (!options.checkpoint.empty() && !plan.data.empty()) require_utf8(std::filesystem::absolute(plan.data).string());
  const bool given = !options.preferences.empty() || serves(plan.preferences, context.device());
  const Tape::Preferences preferences = given ? plan.preferences : Tape::preferences_for(context.device());
  const SampleForm form = sample_form(model, context);
  require_memory_to_train(model, context);
  const Split data = load(options, plan, model, form);  // before the trainer, which takes long to plan
  TrainingLog log(options.log);
  TrainingOptions how{.accumulate = plan.accumulate, .max_norm = plan.clip};
  if (resumed && options.choose != name_of(Choice::order))
    with_option_in_errors("--resume", options.resume, [&] { how.chosen = recorded_choices(*resumed); });
  if (!options.preferences.empty() && !how.chosen.empty())
    throw Error("--impl-preference goes with --choose order: the checkpoint keeps what was measured");
  how.choice = options.choose ? parse_choice(*options.choose) : how.chosen.empty() ? Choice::order : Choice::measured;
  if (plan.augment) how.augmentation = Augmentation{.flip = form.channels == kColours};  // a digit has a left and right
  Trainer trainer(model, context, preferences, options.seed, how);
  if (resumed) with_option_in_errors("--resume", options.resume, [&] { trainer.restore(*resumed); });
  if (init)
    with_option_in_errors("--init", options.init, [&] {
      if (const std::vector<std::string> initial = trainer.begin_with(*init); !initial.empty())
        fmt::print("{} begin with initial values: those of {} have another shape\n", fmt::join(initial, ", "),
                   options.init);
    });
  if (teacher) with_option_in_errors("--teacher", options.teacher, [&] { trainer.load_teacher(*teacher); });
  if (trainer.epochs() >= plan.epochs)
    throw Error("--epochs {}: the checkpoint has {} already{}", plan.epochs, trainer.epochs(),
                options.epochs ? "" : ", as planned; a larger number goes on");
  if (plan.learning_rate) trainer.learning_rate(*plan.learning_rate);
  if (plan.schedule != Schedule::Kind::constant || plan.warm_up > 0) {
    const int64_t updates = plan.epochs * trainer.updates_of_epoch(data.training.size());
    if (!options.warm_up && !resumed && plan.warm_up >= updates) plan.warm_up = updates / 10;  // a model's default
    if (plan.warm_up >= updates)
      throw Error("--warm-up {}: the training has {} updates; fewer are allowed", plan.warm_up, updates);
    // The checkpoint keeps the rate that the schedule is made of; its state has that of the last update.
    if (!plan.learning_rate) plan.learning_rate = trainer.learning_rate();
    trainer.schedule({.kind = plan.schedule, .base = *plan.learning_rate, .warm_up = plan.warm_up, .updates = updates});
  }
  log.begin(resumed ? std::optional(trainer.epochs()) : std::nullopt);
  fmt::print("{} {} on {}; {}: {} samples to train on, {} to validate, {} to test\n", model.name(), model.label(),
             context.describe(), data.source, data.training.size(), data.validation.size(), data.test.size());
  std::fflush(stdout);
  return TrainingLoop(options, plan, trainer, data, log).run();
}

void require_positive(const char* option, const std::optional<double>& value) {
  if (value && !is_positive_f32(*value))
    throw Error("{} {}; a finite number above 0 is allowed (in f32)", option, *value);
}

}  // namespace

int run_train(const TrainOptions& options) {
  if (same_file(options.log, options.checkpoint))
    throw Error("--log and --checkpoint name one file, '{}': a file of its own for each", options.log);
  if (same_file(options.teacher, options.checkpoint))
    throw Error("--teacher and --checkpoint name one file, '{}': a file of its own for each", options.teacher);
  if (!options.preferences.empty() && options.choose == name_of(Choice::measured))
    throw Error("--impl-preference goes with --choose order: measured takes the fastest of all");
  if (!options.init.empty() && !options.resume.empty())
    throw Error("--init begins a training, --resume goes on with one: either is allowed");
  if (same_file(options.init, options.checkpoint))
    throw Error("--init and --checkpoint name one file, '{}': a file of its own for each", options.init);
  std::optional<Checkpoint> resumed, init;
  const auto read = [&](const char* option, const std::string& path, std::optional<Checkpoint>& checkpoint) {
    if (path.empty()) return;
    with_option_in_errors(option, path, [&] {
      checkpoint = read_checkpoint(path);
      require_made_by(*checkpoint, model_by_name(options.model), false);
    });
  };
  read("--resume", options.resume, resumed);
  read("--init", options.init, init);
  const Checkpoint* from = resumed ? &*resumed : nullptr;
  const Model model = chosen_model(options, init ? &*init : from);
  std::optional<Checkpoint> teacher;
  if (!options.teacher.empty())
    with_option_in_errors("--teacher", options.teacher, [&] {
      teacher = read_checkpoint(options.teacher);
      require_teacher(*teacher, model);
      if (from) throw Error("a training that is resumed has the teacher of its checkpoint");
    });
  require_positive("--lr", options.learning_rate);
  require_positive("--clip", options.clip);
  std::string reason;
  const std::unique_ptr<Context> context = open_device(options.device, options.threads, reason);
  try {
    if (context)
      return train_model(options, model, from, init ? &*init : nullptr, teacher ? &*teacher : nullptr, *context);
  } catch (const NotServed& e) {
    reason = e.what();
  }
  fmt::print(stderr, "duet train: --device {}: {}\n", options.device, one_line(reason));
  return kUnsupported;
}

void add_train(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  const auto whole_number = [](int64_t min, int64_t max = INT64_MAX) -> CLI::Validator {
    return {[min, max](std::string& text) { return check_whole_number(text, min, max); }, "INT"};
  };
  CLI::App* train =
      app.add_subcommand("train", "train a model; print loss and validation accuracy by epoch, then test accuracy");
  train
      ->add_option(
          "model", options->model,
          "mlp, mnist_cnn (28x28 digits), lenet, cifar_cnn (32x32 colour images), image_cnn, resnet50 (images), "
          "imdb_bilstm (reviews), lstm_scorer (measurements), toy (points), gpt2, llama (text), "
          "transformer_small, transformer (pairs of sequences) or recommender (ratings); the large ones are made "
          "small, which --attr changes")
      ->required();
  train->add_option(
      "--data", options->data,
      "folder with MNIST's IDX files, CIFAR-10's binary files or a folder of images for each class, or a text file "
      "(.bin: tokens of 16 bits), or MovieLens' ratings, depending on the model; by default that of the checkpoint, "
      "else, and where it is empty, samples are drawn");
  train
      ->add_option("--task", options->task,
                   "what drawn pairs of sequences are to teach: reverse, add numbers, or grammar, the word order of "
                   "another language; by default that of the checkpoint, else reverse")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kPairTasks), std::end(kPairTasks))));
  train
      ->add_option("--epochs", options->epochs,
                   "passes over the data, including those of a resumed checkpoint; by default as many as were planned "
                   "for the checkpoint, else 3")
      ->transform(whole_number(1, INT_MAX));
  train->add_option("--validation", options->validation,
                    "fraction of the training samples held out to validate each epoch; by default that of the "
                    "checkpoint, else 0.1");
  train
      ->add_option("--patience", options->patience,
                   "stop after so many epochs that are no better in validation: by RMSE for ratings, loss for "
                   "sequences, accuracy else; 0: never")
      ->transform(whole_number(0))
      ->capture_default_str();
  train->add_option(
      "--checkpoint", options->checkpoint,
      "file (safetensors) for the parameters and the optimiser's state, written after each better epoch, or at the end "
      "if no epoch was better");
  train->add_option(
      "--resume", options->resume,
      "checkpoint to continue from, of the same model and seed; with its data, schedule and number of epochs it "
      "goes on as it was trained, but for what options change");
  train->add_option(
      "--init", options->init,
      "checkpoint of the same model whose parameters and running statistics the training begins with, and whose "
      "attributes the model has, but for what options change; the optimiser begins anew. resnet50 with "
      "--attr head_only=1 trains its last layer alone, which may have other classes");
  train->add_option(
      "--teacher", options->teacher,
      "checkpoint of the teacher of cifar_cnn with --attr compress=distilled: of a cifar_cnn of twice the "
      "width (--attr width=64), of the same dtype and layout; without it the teacher keeps random initial values. "
      "--checkpoint holds the teacher too, so that --resume needs no --teacher and refuses it");
  train->add_option("--attr", options->attributes, "attribute=value of the model, repeatable")->expected(1)->take_all();
  train->add_option("--batch", options->batch, "samples in a step")->transform(whole_number(1));
  train->add_option("--lr", options->learning_rate, "learning rate; by default that of the checkpoint or of the model");
  train
      ->add_option("--schedule", options->schedule,
                   "how the learning rate goes on after the warm-up: constant; cosine, towards 0 at the end; "
                   "step, a tenth after each third; inverse_sqrt; by default that of the checkpoint or of the model")
      ->check(CLI::IsMember({"constant", "cosine", "step", "inverse_sqrt"}));
  train->add_option("--warm-up", options->warm_up, "updates during which the learning rate rises from 0")
      ->transform(whole_number(0, INT_MAX));
  train->add_option("--accumulate", options->accumulate, "batches whose mean gradient makes an update")
      ->transform(whole_number(1, INT_MAX));
  train->add_option("--clip", options->clip, "norm to which gradients are clipped, beyond what the model does itself");
  train->add_flag_function(
      "--augment,!--no-augment", [options](int64_t given) { options->augment = given > 0; },
      "change images at random: shear and zoom by up to 0.2, shift by up to a tenth, flip those in colour; "
      "by default as the checkpoint says");
  train->add_option("--log", options->log,
                    "file for a line of each epoch: .csv, or .json or .jsonl with an object a line");
  train->add_option("--device", options->device, "cpu or gpu")
      ->check(CLI::IsMember({"cpu", "gpu"}))
      ->capture_default_str();
  train->add_option("--threads", options->threads, "number of CPU threads; all by default")
      ->transform(whole_number(1, INT_MAX));
  train
      ->add_option("--seed", options->seed,
                   "seed of initial parameters, dropout, order of samples, validation samples and drawn samples")
      ->capture_default_str()
      ->transform(whole_number(0));
  train
      ->add_option("--impl-preference", options->preferences,
                   "comma-separated implementations; the first that serves an op runs it")
      ->delimiter(',');
  train
      ->add_option("--choose", options->choose,
                   "how an op's implementation is chosen: by the order of preference, or the fastest of all, "
                   "measured, which a checkpoint keeps; by default as in the checkpoint, else order")
      ->check(CLI::IsMember({"order", "measured"}));
  train->footer(
      "After SIGINT the program ends with status 130; the checkpoint holds the best complete epoch. "
      "A file that was there stays as it was until an epoch is better.");
  train->callback([options] {
    if (const int status = run_train(*options)) throw CLI::RuntimeError(status);
  });
}

}  // namespace duet
