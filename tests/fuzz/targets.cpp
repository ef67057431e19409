// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "bench/options.h"
#include "cli/npy.h"
#include "core/command_line.h"
#include "core/error.h"
#include "core/name_filter.h"
#include "core/registry.h"
#include "models/checkpoint.h"
#include "models/data/cifar.h"
#include "models/data/idx.h"
#include "models/data/image_file.h"
#include "models/data/ratings.h"
#include "models/data/text.h"
#include "models/model.h"
#include "reports/compare/compare.h"
#include "reports/export/export.h"
#include "reports/gate/counts.h"
#include "reports/gpu_table.h"
#include "reports/history/history.h"
#include "reports/history/json_lines.h"
#include "reports/report.h"
#include "results/noise.h"
#include "results/run_file.h"

namespace duet::fuzz {
namespace {

namespace fs = std::filesystem;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

// A regular file in memory with a path of its own, for readers that take paths.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : file_(memfd_create(name, 0)) {
    require(file_ >= 0, "memfd_create failed");
    path_ = "/proc/self/fd/" + std::to_string(file_);
  }
  const std::string& path() const { return path_; }
  const std::string& holding(Input bytes) const {
    require(pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "pwrite failed");
    require(ftruncate(file_, static_cast<off_t>(bytes.size())) == 0, "ftruncate failed");
    return path_;
  }

 private:
  int file_;
  std::string path_;
};

// A folder for this process, in memory where the system has such a place. Removed when the process ends.
class Folder {
 public:
  Folder() {
    const fs::path memory = "/dev/shm";
    std::string name = ((fs::exists(memory) ? memory : fs::temp_directory_path()) / "duet_fuzz_XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "mkdtemp failed");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string link(const std::string& name, const MemoryFile& to) const {
    fs::create_symlink(to.path(), path_ / name);
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string text_of(Input input) { return {input.begin(), input.end()}; }

// --- run files ----------------------------------------------------------------------------------------------------

// What was read can be written, unless the rules of writing refuse it, and read again.
void require_round_trip(const results::Run& run) {
  static const MemoryFile file("written");
  std::string text;
  try {
    text = results::run_text(run);
  } catch (const Error&) {
    return;
  }
  try {
    results::load_run(file.holding({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  } catch (const Error& e) {
    throw std::logic_error(std::string("a run that was read and written cannot be read again: ") + e.what());
  }
}

void run_file(Input input) {
  static const MemoryFile file("run");
  require_round_trip(results::load_run(file.holding(input)));
}

void journal(Input input) {
  static const MemoryFile file("journal");
  const results::JournalContent content = results::load_journal(file.holding(input));
  require(content.whole_bytes <= static_cast<int64_t>(input.size()), "more whole bytes than the journal has");
}

void report(Input input) {
  static const MemoryFile file("run");
  static const Folder folder;
  const std::string& path = file.holding(input);
  const results::Run run = results::load_run(path);
  require(!reports::console_table(run).empty(), "an empty table");
  reports::write_report(path, folder.path());
  for (const reports::ExportFormat& format : reports::export_formats()) {
    try {
      require(!reports::export_text(run, format.name).empty(), "an empty export");
    } catch (const Error&) {  // the format cannot hold this run; the others might
    }
  }
}

void gpus(Input input) {
  const reports::GpuTable table = reports::parse_gpus(text_of(input), "gpus.json");
  for (const reports::GpuFigures& gpu : table.gpus) require(&table.find(gpu.name) == &gpu, "a GPU that is not found");
}

// --- what compare and gate read -------------------------------------------------------------------------------------

// A file is compared with itself: every row that has values is the same.
void google_benchmark(Input input) {
  static const MemoryFile file("google");
  const reports::MeasuredRun run = reports::load_measured(file.holding(input));
  const reports::Comparison c = reports::compare_runs(run, run, {}, {});
  require(c.count(reports::Verdict::slower) + c.count(reports::Verdict::faster) == 0, "a run that differs from itself");
  require(!reports::comparison_text(c, true).empty() && !reports::comparison_json(c).empty(), "an empty comparison");
}

void noise(Input input) {
  static const MemoryFile file("noise"), written("written noise");
  const std::string text = results::noise_text(results::load_noise(file.holding(input)));
  const std::string& path = written.holding({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  require(results::noise_text(results::load_noise(path)) == text, "noise that changes when it is written");
}

void counts(Input input) {
  static const MemoryFile file("counts");
  const reports::Counts read = reports::load_counts(file.holding(input));
  const reports::Comparison c = reports::compare_counts(read, read);
  require(c.count(reports::Verdict::same) == c.rows.size(), "counts that differ from themselves");
}

void kernel_profile(Input input) {
  reports::Counts read;
  reports::add_kernel_profile("profile", text_of(input), read);
  for (const auto& [name, row] : read.rows) require(row.count >= 0, "a negative count");
}

// An export of a history: what was taken in is written again, and a second database takes all of it.
void history_lines(Input input) {
  static const Folder folder;
  const std::string text = text_of(input);
  if (!history::is_export(text)) throw Error("no export");
  const auto import = [&](const char* name, const std::string& lines) {
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) fs::remove(fs::path(folder.path()) / name += suffix);
    history::History database((fs::path(folder.path()) / name).string(), history::Access::create);
    const auto added = database.import_lines(name, lines).added;
    require(added == static_cast<int64_t>(database.runs(lines.size()).size()), "runs that were added are not there");
    std::string written;
    database.export_lines([&](const std::string& line) { written += line; });
    return written;
  };
  const std::string written = import("first", text);
  try {
    require(import("second", written) == written, "an export that changes when it is imported");
  } catch (const Error& e) {
    throw std::logic_error(std::string("an export that cannot be imported: ") + e.what());
  }
}

// --- arrays and data sets -----------------------------------------------------------------------------------------

void npy(Input input) {
  static const MemoryFile file("npy");
  NpyReader reader(file.holding(input));
  int64_t elements = 1;
  for (const int64_t extent : reader.shape()) elements *= extent;
  require(elements >= 0 && elements <= static_cast<int64_t>(input.size()), "more elements than bytes");
  for (const DType to : {DType::f32, DType::bf16, DType::i32, DType::u8}) {
    if (!reader.convertible(to)) continue;
    std::vector<unsigned char> values(static_cast<size_t>(elements * size_of(to)));
    NpyReader(file.path()).read(to, values.data());
  }
}

void safetensors(Input input) {
  static const MemoryFile file("safetensors");
  size_t bytes = 0;
  for (const auto& [name, tensor] : read_checkpoint(file.holding(input)).tensors) bytes += tensor.bytes.size();
  require(bytes < input.size(), "more bytes in tensors than in the file");
}

void require_samples(const Dataset& data) {
  require(data.size() > 0, "a data set without samples");
  const size_t values = data.token.empty() ? data.x.size() : data.token.size();
  require(values == static_cast<size_t>(data.size() * data.features), "samples of another size");
  for (const int32_t label : data.label) require(label >= 0 && label < data.classes, "a label that no class has");
}

// The number of bytes of the labels' file in two bytes, that file, the images' file.
void idx(Input input) {
  static const MemoryFile labels("labels"), images("images");
  static const Folder folder;
  static const std::string linked =
      folder.link("train-images-idx3-ubyte", images) + folder.link("train-labels-idx1-ubyte", labels);
  if (input.size() < 2) return;
  const size_t label_bytes = std::min<size_t>(input[0] | input[1] << 8, input.size() - 2);
  labels.holding(input.subspan(2, label_bytes));
  images.holding(input.subspan(2 + label_bytes));
  require_samples(read_mnist(folder.path(), true));
}

void cifar(Input input) {
  static const MemoryFile file("cifar");
  static const Folder folder;
  static const std::string linked = folder.link("data_batch_1.bin", file);
  file.holding(input);
  require_samples(read_cifar(folder.path(), true));
}

// PNG, JPEG or PPM, as the first bytes tell.
void image(Input input) {
  static const MemoryFile file("image");
  Image read;
  try {
    read = read_image(file.holding(input));
  } catch (const Error& e) {
    if (std::string_view(e.what()).find("this build reads no") == std::string_view::npos) throw;
    return;  // without the library of the format
  }
  require(read.rgb.size() == static_cast<size_t>(3 * read.width * read.height), "pixels of another size");
  for (const float v : square_of(read, 8)) require(v >= 0 && v <= 1, "a pixel outside 0 to 1");
}

void ratings(Input input) {
  static const MemoryFile file("ratings");
  const Ratings read = read_ratings(file.holding(input));
  require(read.size() > 0 && read.user.size() == read.rating.size() && read.item.size() == read.rating.size(),
          "ratings without a user or an item");
  for (const int32_t user : read.user) require(user >= 0 && user < read.users, "a user above the number of users");
  for (const int32_t item : read.item) require(item >= 0 && item < read.items, "an item above the number of items");
  for (const float r : read.rating) require(r >= .5F && r <= 5, "a rating out of range");
}

// The first byte: whether tokens have 16 bits, and the length of a sequence.
void text(Input input) {
  static const MemoryFile file("text");
  static const Folder folder;
  static const std::string binary = folder.link("tokens.bin", file);
  if (input.empty()) return;
  file.holding(input.subspan(1));
  const int64_t length = 1 + input[0] / 2;
  const Text read = input[0] % 2 ? read_text(binary, length, 40000) : read_text(file.path(), length, 256);
  require_samples(read.training);
  require_samples(read.test);
}

// --- what stands on a command line ----------------------------------------------------------------------------------

// A case as bench_all's --case and duet op's --case take it: an op or a model, then words.
void label(Input input) {
  const std::string line = text_of(input);
  const size_t end = line.find_first_of(" \t/");
  const std::string name = line.substr(0, end), words = end == line.npos ? "" : line.substr(end + 1);
  if (models().contains(name)) {
    const Model model = find_model(name).with_words(words);
    require(model.with_words(model.label()).label() == model.label(), "a label that does not name its model");
    return;
  }
  const Problem problem = parse_case(name, words);
  require(parse_case(name, problem.label()).label() == problem.label(), "a label that does not name its problem");
  require(problem.bytes() >= 0 && problem.footprint_bytes() >= 0, "negative bytes");
  require(problem.slices() >= 0 && problem.flops() >= 0, "negative slices or flops");
  const std::string job = problem.name() + "/cpu.tuned/" + problem.label();
  require(JobName::parse(job).text() == job, "a job's name that does not name it");
}

// A file of cases, as bench_all's --case @FILE takes it.
void case_file(Input input) {
  static const MemoryFile file("cases");
  const auto cases = bench::read_named_cases({"@" + file.holding(input)});
  require(cases.size() <= static_cast<size_t>(std::count(input.begin(), input.end(), '\n')) + 1,
          "more cases than lines");
}

// Arguments of bench_all, one a line.
void command_line(Input input) {
  std::vector<std::string> arguments{"bench_all"};
  std::string all = text_of(input);
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    arguments.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  bench::Options options;
  if (const auto status = bench::parse(static_cast<int>(arguments.size()), argv.data(), options)) {
    if (*status != 0) throw Error("refused");
    return;
  }
  require(options.threads.value_or(1) >= 1, "fewer than one thread");
  require(options.repetitions_or_default() >= 1, "fewer than one repetition");
  require(options.budget_s() > 0, "no time to measure");
  NameFilter(options.filter).matches("softmax/cuda.tuned/f32/rows:64/cols:1000");
}

// Any text, as a regular expression and in a message.
void message(Input input) {
  const std::string any = text_of(input), line = one_line(any);
  for (const char c : line) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F, "a control character");
  require(line.size() <= 4 * kMaxMessage + 40, "a long message");
  require(one_line(line) == line || line.size() > kMaxMessage, "a message that changes when it is shown again");
  NameFilter(any).matches("softmax/cuda.tuned/f32/rows:64/cols:1000");
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all{{"google_benchmark", google_benchmark},
                                       {"noise", noise},
                                       {"counts", counts},
                                       {"kernel_profile", kernel_profile},
                                       {"history_lines", history_lines},
                                       {"run_file", run_file},
                                       {"journal", journal},
                                       {"report", report},
                                       {"gpus", gpus},
                                       {"npy", npy},
                                       {"safetensors", safetensors},
                                       {"idx", idx},
                                       {"cifar", cifar},
                                       {"image", image},
                                       {"ratings", ratings},
                                       {"text", text},
                                       {"label", label},
                                       {"case_file", case_file},
                                       {"command_line", command_line},
                                       {"message", message}};
  return all;
}

}  // namespace duet::fuzz
