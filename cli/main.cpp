// SPDX-License-Identifier: Apache-2.0
// The program duet. The options of each subcommand are declared here (those of train and predict in train.cpp and
// predict.cpp); the work is done by run_<subcommand>() in the file of that name. CLI11 is slow to compile, so no other
// file of cli/ includes it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <climits>

#include "cli/bounds.h"
#include "cli/compare.h"
#include "cli/doctor.h"
#include "cli/exit_status.h"
#include "cli/explain.h"
#include "cli/export.h"
#include "cli/gate.h"
#include "cli/history.h"
#include "cli/kernel_profile.h"
#include "cli/list.h"
#include "cli/op.h"
#include "cli/predict.h"
#include "cli/profile.h"
#include "cli/project.h"
#include "cli/train.h"
#include "core/command_line.h"
#include "core/error.h"
#include "core/process.h"
#include "reports/report.h"
#include "results/run_file.h"

namespace duet {
namespace {

// A callback of CLI11 returns nothing: a status other than 0 leaves app.parse() as this exception.
void exit_with(int status) {
  if (status != 0) throw CLI::RuntimeError(status);
}

CLI::Validator whole_number(int64_t min = 0, int64_t max = INT64_MAX) {
  return {[min, max](std::string& text) { return check_whole_number(text, min, max); }, "INT"};
}

void add_op(CLI::App& app) {
  const auto o = std::make_shared<OpOptions>();
  CLI::App* op = app.add_subcommand("op", "run one op on .npy inputs and write .npy outputs");
  op->add_option("op", o->op, "name of the op; --list prints all of them");
  op->add_option("--impl", o->implementation,
                 "implementation, such as cpu.tuned; reference: the double-precision answer");
  op->add_option("--attr", o->attributes,
                 "attribute=value, repeatable; dimensions that are not given come from the inputs")
      ->expected(1)
      ->take_all();
  op->add_option("--case", o->case_text,
                 "attributes at once: 'rows:64 cols:1000 dtype:bf16', or as in job names: bf16/rows:64/cols:1000; "
                 "'x=edges' names how the input x is filled");
  op->add_option("--in", o->inputs, "tensor=FILE.npy")->expected(1)->take_all();
  op->add_option("--out", o->outputs, "tensor=FILE.npy")->expected(1)->take_all();
  op->add_option("--seed", o->seed, "seed of the random inputs, drawn for every input without a file")
      ->transform(whole_number());
  op->add_option("--threads", o->threads, "number of CPU threads; all by default")->transform(whole_number(1, INT_MAX));
  op->add_flag("--check", o->check, "compare with the reference; exit with status 1 if wrong");
  op->add_flag("--time", o->time, "print the time of a call (bench_all measures carefully)");
  op->add_flag("--describe", o->describe, "print attributes, tensors and implementations as JSON and stop");
  op->add_flag("--list", o->list, "print the names of all ops and stop");
  op->callback([o] { exit_with(run_op(*o)); });
}

void add_list(CLI::App& app) {
  const auto o = std::make_shared<ListOptions>();
  CLI::App* list = app.add_subcommand("list", "ops, implementations (built here or not) and cases");
  list->add_flag("--json", o->json, "as JSON");
  CLI::Option* missing = list->add_flag("--missing", o->missing,
                                        "instead: what the catalogue has and Duet has not, with the reasons; exit with "
                                        "status 1 where one has none");
  list->add_option("--filter", o->filter, "only jobs whose name contains a match of this regular expression")
      ->excludes(missing);
  list->add_option("--device", o->device, "cpu, gpu or all")
      ->excludes(missing)
      ->check(CLI::IsMember({"cpu", "gpu", "all"}))
      ->capture_default_str();
  list->add_option("--scale", o->scale, "list of the cases: test, standard, full or sweep")
      ->excludes(missing)
      ->check(CLI::IsMember({"test", "standard", "full", "sweep"}))
      ->capture_default_str();
  list->callback([o] { exit_with(run_list(*o)); });
}

void add_doctor(CLI::App& app) {
  const auto o = std::make_shared<DoctorOptions>();
  CLI::App* doctor = app.add_subcommand(
      "doctor", "what was found, what is missing, what would make measurements on this machine untrustworthy");
  doctor->add_flag("--json", o->json, "as JSON");
  const auto bounds = std::make_shared<BoundsOptions>();
  CLI::Option* asked = doctor->add_flag("--bounds", bounds->asked,
                                        "instead: the largest error of correct implementations against each bound; "
                                        "exit with status 1 where one is more than 8 times that");
  doctor->add_option("OP", bounds->ops, "with --bounds: only these ops")->needs(asked);
  doctor->add_option("--scale", bounds->scale, "with --bounds: test, standard or full; standard and short by default")
      ->check(CLI::IsMember({"test", "standard", "full"}))
      ->needs(asked);
  doctor->callback([o, bounds] {
    bounds->json = o->json;
    exit_with(bounds->asked ? run_bounds(*bounds) : run_doctor(*o));
  });
}

void add_report(CLI::App& app) {
  struct Options {
    std::vector<std::string> run_files;
    std::string directory;
    bool console = false;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* report =
      app.add_subcommand("report", "write tables and charts of one or several runs as Markdown, HTML and CSV");
  report
      ->add_option("RESULT.json", o->run_files,
                   "run file written by bench_all, or its journal; several, of one machine or of different ones, are "
                   "joined by case")
      ->required();
  report->add_option("-o,--out", o->directory, "folder for the report; created if missing")->required();
  report->add_flag("--console", o->console, "also print the table of speedups");
  report->callback([o] {
    reports::write_report(o->run_files, o->directory);
    if (o->console)
      fmt::print("{}", reports::console_table(reports::load_runs(o->run_files)));
    else
      fmt::print("{}/report.html, report.md, summary.md, report.csv\n", o->directory);
  });
}

void add_export(CLI::App& app) {
  const auto o = std::make_shared<ExportOptions>();
  CLI::App* exporter = app.add_subcommand("export", "write a run in the format of another tool");
  exporter
      ->add_option("RESULT.json", o->run_file,
                   "run file written by bench_all, or its journal; for junit also what compare and gate write as JSON")
      ->required();
  exporter->add_option("--format", o->format, export_format_list())->required();
  exporter->add_option("-o,--out", o->out, "file to write; standard output by default");
  exporter->callback([o] { exit_with(run_export(*o)); });
}

void add_project(CLI::App& app) {
  const auto o = std::make_shared<ProjectOptions>();
  CLI::App* project = app.add_subcommand(
      "project", "without a GPU: the most that one could bring to a run of a CPU, by its data sheet; no measurement");
  project->add_option("RESULT.json", o->run_file, "run file written by bench_all, or its journal")->required();
  project->add_option("--gpu", o->gpus, "a GPU, repeatable: " + known_gpu_list())->required()->expected(1)->take_all();
  project->add_option("--gpus", o->gpus_file, "figures of GPUs in place of those in the program (reports/gpus.json)");
  project->add_option("--measured", o->measured, "run file of one of these GPUs: how much of each bound it reached");
  project->add_option("--launch-us", o->launch_us, "microseconds of a launch in place of the table's")
      ->check(CLI::Range(0.0, 1e6));
  project->add_flag("--json", o->json, "as JSON, with the source of each figure");
  project->add_option("-o,--out", o->directory, "folder for project.html and project.md; created if missing");
  project->callback([o] { exit_with(run_project(*o)); });
}

void add_kernel_profile(CLI::App& app) {
  const auto o = std::make_shared<KernelProfileOptions>();
  CLI::App* profile = app.add_subcommand(
      "kernel-profile",
      "count the memory requests of a job's CUDA kernels on the host, without a GPU (JSON; no times)");
  profile
      ->add_option("JOB", o->jobs,
                   "a job such as softmax/cuda.tuned/f32/rows:64/cols:1000; of several, the JSON is an array")
      ->required();
  profile
      ->add_option("--blocks", o->blocks,
                   "blocks to run of each launch, besides the corners of its grid (all of a cooperative one); 0: all")
      ->transform(whole_number());
  profile->add_option("--seed", o->seed, "seed of the inputs and of the choice of blocks")->transform(whole_number());
  profile->add_flag("--table", o->table, "print tables instead of JSON");
  profile->callback([o] { exit_with(run_kernel_profile(*o)); });
}

void add_profile(CLI::App& app) {
  const auto o = std::make_shared<ProfileOptions>();
  CLI::App* profile = app.add_subcommand("profile",
                                         "profile a job or a training step by what is installed: nsys and ncu, perf or "
                                         "valgrind, and a recorder of its own");
  profile
      ->add_option("JOB", o->what,
                   "a job, an op, or a step: softmax/cpu.tuned/f32/rows:64/cols:1000, softmax, step/lenet")
      ->required();
  profile->add_option("-o,--out", o->folder, "folder for the files; created if missing")->capture_default_str();
  profile->add_option("--tool", o->tool, "only this tool: nsys, ncu, perf, valgrind or recorder")
      ->check(CLI::IsMember({"auto", "nsys", "ncu", "perf", "valgrind", "recorder"}));
  profile->add_option("-n,--runs", o->runs, "applications that are captured")
      ->transform(whole_number(1, 1000000))
      ->capture_default_str();
  profile->add_option("--threads", o->threads, "of the CPU; all by default")->transform(whole_number(1, INT_MAX));
  profile->add_option("--gpu", o->gpu, "which of several GPUs: its number in nvidia-smi, or its UUID");
  profile->add_option("--limit", o->limit_s, "seconds that each tool may take")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  profile->add_option("--bench", o->bench_all, "the program bench_all; that beside duet by default");
  profile->add_flag("--dry-run", o->dry_run, "print the commands and run nothing");
  profile->callback([o] { exit_with(run_profile(*o)); });
}

void add_explain(CLI::App& app) {
  const auto o = std::make_shared<ExplainOptions>();
  CLI::App* explain = app.add_subcommand(
      "explain", "what bounds each side of a case in a run, how far it is from that, and what would change who wins");
  explain->add_option("JOB", o->what, "a job of the run, or a regular expression over their names")->required();
  explain->add_option("RESULT.json", o->run_file, "run file written by bench_all, or its journal")->required();
  explain->callback([o] { exit_with(run_explain(*o)); });
}

int run(int argc, char** argv) {
  CLI::App app{"Duet: deep-learning ops on CPU and GPU, side by side.", "duet"};
  app.set_version_flag("--version", version_text("duet"));
  app.require_subcommand(1);
  // Writing can still fail here: on a full disk, or a closed pipe.
  const auto flushed = [](int status) {
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw std::runtime_error("standard output cannot be written");
    return status;
  };
  add_op(app);
  add_list(app);
  add_doctor(app);
  add_kernel_profile(app);
  add_profile(app);
  add_explain(app);
  add_report(app);
  add_compare(app);
  add_gate(app);
  add_export(app);
  add_project(app);
  add_train(app);
  add_predict(app);
  add_history(app);
  try {
    app.parse(argc, argv);
    return flushed(0);
  } catch (const CLI::RuntimeError& status) {
    return flushed(status.get_exit_code());
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    if (app.get_subcommands().empty() && argc > 1) {
      std::string known;
      for (const CLI::App* command : app.get_subcommands({})) known += " " + command->get_name();
      throw Error("'{}' is not one of{} (see --help)", argv[1], known);
    }
    throw Error("{} (see --help)", e.what());
  }
}

}  // namespace
}  // namespace duet

int main(int argc, char** argv) {
  duet::prepare_process(argc, argv);
  try {
    return duet::run(argc, argv);
  } catch (const duet::Error& e) {  // what the user can correct
    fmt::print(stderr, "duet: {}\n", duet::one_line(e.what()));
    return duet::kUsageError;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "duet: not enough memory\n");
    return duet::kInternalError;
  } catch (const std::exception& e) {
    fmt::print(stderr, "duet: {}\n", duet::one_line(e.what()));
    return duet::kInternalError;
  }
}
