// SPDX-License-Identifier: Apache-2.0
// duet_fuzz: runs the readers of targets.cpp on their corpus, then on mutations of it, and stops on what is not a
// refusal.
//   duet_fuzz --corpus tests/fuzz/corpus [--target NAME] [--runs N] [--seed S] [--save DIR]
//   duet_fuzz --input FILE --target NAME     # one input, such as a saved failure
// Each target runs in a child process, so that a crash costs one input: the input is in memory that both processes
// share, and the parent writes it to DIR and starts another child. An input may take a second of CPU.
// A file of the corpus is refused where its name begins with refused_, and only there: an input that a changed format
// turns away at its first line leads to no code behind it.
// Where the readers are compiled with -fsanitize-coverage=trace-pc, inputs that reach new code join the corpus.
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/command_line.h"
#include "core/error.h"
#include "tests/fuzz/targets.h"

namespace {

// One mark for each pair of places that ran one after the other.
constexpr size_t kEdges = 1 << 16;
alignas(uint64_t) unsigned char edges[kEdges];
thread_local uintptr_t last_place;  // 0 in a build that does not trace

}  // namespace

extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {  // NOLINT: its name
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  edges[((place >> 1) ^ (last_place << 3)) % kEdges] = 1;
  last_place = place;
}

namespace duet::fuzz {
namespace {

using Bytes = std::vector<uint8_t>;
namespace fs = std::filesystem;

constexpr size_t kMaxBytes = 1 << 17;  // of an input
constexpr const char* kRefused = "refused_";
// Limits of an input, in ticks of two timers that are started once: starting them for each input takes longer than many
// of the readers do.
constexpr itimerval kCpuTick{{0, 250'000}, {0, 250'000}}, kWaitTick{{30, 0}, {30, 0}};
constexpr int kMaxCpuTicks = 4;   // a second of CPU
constexpr int kMaxWaitTicks = 4;  // two minutes, also where the machine is busy
constexpr int kMaxFailures = 20;

struct Options {
  std::string corpus, target, save = ".", input;
  uint64_t runs = 2000, seed = 1;
};

// What both processes see.
struct Shared {
  uint64_t done, seed;
  size_t bytes;
  bool new_code;
  char why[400];
  uint8_t input[kMaxBytes];
};

Bytes read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// --- mutations ------------------------------------------------------------------------------------------------------

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  Bytes mutation(const std::vector<Bytes>& corpus) {
    // Mostly the smaller of two: a large one takes as long as hundreds of small ones.
    const Bytes *bytes_of = &corpus[below(corpus.size())], *other = &corpus[below(corpus.size())];
    if (other->size() < bytes_of->size() && below(8) != 0) bytes_of = other;
    Bytes bytes = *bytes_of;
    for (size_t times = 1 + below(4); times > 0; --times) change(bytes, corpus);
    if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  // A short range of the bytes more often than a long one.
  std::pair<size_t, size_t> range(const Bytes& bytes) {
    const size_t begin = below(bytes.size() + 1);
    const size_t longest = below(4) ? std::min<size_t>(16, bytes.size() - begin) : bytes.size() - begin;
    return {begin, below(longest + 1)};
  }
  static void insert(Bytes& bytes, size_t at, Input what) {
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), what.begin(), what.end());
  }
  Bytes token() {
    static const char* const kTokens[] = {"0",
                                          "-1",
                                          "1",
                                          "2",
                                          "1e308",
                                          "-1e308",
                                          "1e-320",
                                          "1e999",
                                          "0.1",
                                          "9007199254740993",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "18446744073709551615",
                                          "2147483648",
                                          "4294967296",
                                          "100000000",
                                          "null",
                                          "true",
                                          "{}",
                                          "[]",
                                          "\"\"",
                                          "\"\\u0000\"",
                                          "NaN",
                                          "nan",
                                          "inf",
                                          "-inf",
                                          "0x10",
                                          "010",
                                          ":",
                                          "=",
                                          "/",
                                          " ",
                                          "\n",
                                          "\"",
                                          "\\",
                                          "<b>",
                                          "|",
                                          "{",
                                          "[",
                                          ",",
                                          "dtype:bf16",
                                          "x=edges+inf+nan",
                                          "normal:0:2",
                                          "\xE2\x80\xAE",
                                          "\xFF",
                                          "(",
                                          ")",
                                          "*",
                                          "{1,1000}",
                                          "\\pL",
                                          "'<f4'",
                                          "'shape': (2, 3)",
                                          "True",
                                          "F32",
                                          "data_offsets"};
    const std::string text = kTokens[below(std::size(kTokens))];
    return {text.begin(), text.end()};
  }
  // Replaces a number in decimal digits, as run files and labels have them.
  void change_number(Bytes& bytes) {
    const auto digit = [&](size_t i) { return bytes[i] >= '0' && bytes[i] <= '9'; };
    size_t begin = below(bytes.size());
    while (begin < bytes.size() && !digit(begin)) ++begin;
    size_t end = begin;
    while (end < bytes.size() && (digit(end) || bytes[end] == '.' || bytes[end] == 'e' || bytes[end] == '-')) ++end;
    bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.begin() + static_cast<std::ptrdiff_t>(end));
    insert(bytes, begin, token());
  }
  void change(Bytes& bytes, const std::vector<Bytes>& corpus) {
    const size_t at = below(bytes.size() + 1);
    const auto [first, count] = range(bytes);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first),
               end = begin + static_cast<std::ptrdiff_t>(count);
    switch (below(9)) {
      case 0:
        if (!bytes.empty()) bytes[below(bytes.size())] ^= static_cast<uint8_t>(1 << below(8));
        break;
      case 1:
        if (!bytes.empty()) bytes[below(bytes.size())] = static_cast<uint8_t>(below(4) ? below(256) : 0xFF * below(2));
        break;
      case 2:
        bytes.erase(begin, end);
        break;
      case 3: {  // a range again, sometimes many times
        const Bytes copy(begin, end);
        for (size_t times = below(8) ? 1 : below(1000); times > 0 && bytes.size() + copy.size() <= kMaxBytes; --times)
          insert(bytes, at, copy);
        break;
      }
      case 4:
        insert(bytes, at, token());
        break;
      case 5: {  // a part of another input
        const Bytes& other = corpus[below(corpus.size())];
        const auto [from, length] = range(other);
        insert(bytes, at, Input(other).subspan(from, length));
        break;
      }
      case 6:
        bytes.resize(at);
        break;
      default:
        if (!bytes.empty()) change_number(bytes);
    }
  }
  std::mt19937_64 random_;
};

// --- running --------------------------------------------------------------------------------------------------------

Shared* shared = nullptr;
int log_file = -1;  // what the current input printed on standard error: a refusal, a sanitizer's report

volatile std::sig_atomic_t cpu_ticks, wait_ticks;  // of this input

void tick(int signal) {
  volatile std::sig_atomic_t& ticks = signal == SIGPROF ? cpu_ticks : wait_ticks;
  ticks = ticks + 1;
  // The first tick may come at once.
  if (ticks <= (signal == SIGPROF ? kMaxCpuTicks : kMaxWaitTicks)) return;
  constexpr char kCpu[] = "more than a second of CPU", kWait[] = "it waits for ever";
  std::memcpy(shared->why, signal == SIGPROF ? kCpu : kWait, signal == SIGPROF ? sizeof kCpu : sizeof kWait);
  _exit(1);
}

// Runs an input. Returns why it failed; empty where it did not. refusal: of a reader that refused it.
std::string run(const Target& target, Input input, std::string& refusal) {
  shared->bytes = input.size();
  std::copy(input.begin(), input.end(), shared->input);
  if (lseek(log_file, 0, SEEK_CUR) != 0 && (ftruncate(log_file, 0) != 0 || lseek(log_file, 0, SEEK_SET) != 0))
    return "its log cannot be emptied";
  cpu_ticks = 0;
  wait_ticks = 0;
  std::string why;
  try {
    target.run(input);
  } catch (const Error& e) {
    const std::string line = refusal = one_line(e.what());
    if (line.empty() || line.find('\n') != line.npos) why = "a refusal that is not one line: " + line;
  } catch (const std::exception& e) {
    why = std::string("an exception that is no refusal: ") + e.what();
  } catch (...) {
    why = "an exception of another type";
  }
  return why;
}

// Whether the last input ran a pair of places that none before it ran. Clears the marks.
bool reached_new_code() {
  static uint64_t seen[kEdges / sizeof(uint64_t)];
  bool found = false;
  for (size_t i = 0; i < std::size(seen); ++i) {
    uint64_t marks = 0;
    std::memcpy(&marks, edges + i * sizeof marks, sizeof marks);
    found = found || (marks & ~seen[i]) != 0;
    seen[i] |= marks;
  }
  std::memset(edges, 0, sizeof edges);
  return found;
}

// names: of the files of the corpus whose refusals matter.
[[noreturn]] void child(const Target& target, std::vector<Bytes> corpus, const std::vector<std::string>& names,
                        uint64_t runs) {
  std::signal(SIGPROF, tick);
  std::signal(SIGALRM, tick);
  if (setitimer(ITIMER_PROF, &kCpuTick, nullptr) != 0 || setitimer(ITIMER_REAL, &kWaitTick, nullptr) != 0) _exit(2);
  if (!std::freopen("/dev/null", "w", stdout) || dup2(log_file, STDERR_FILENO) < 0) _exit(2);
  const auto run_or_exit = [&](Input input, const std::string& name) {
    std::string refusal;
    std::string why = run(target, input, refusal);
    if (why.empty() && !name.empty() && name.starts_with(kRefused) == refusal.empty())
      why = refusal.empty() ? name + " is not refused" : name + " is refused: " + refusal;
    if (!why.empty()) {
      std::snprintf(shared->why, sizeof shared->why, "%s", why.c_str());
      std::exit(1);
    }
    return last_place != 0 && reached_new_code();
  };
  const bool fresh = shared->done == 0;
  for (size_t i = 0; fresh && i < corpus.size(); ++i) {
    run_or_exit(corpus[i], names.empty() ? "" : names[i]);
    ++shared->done;
  }
  Mutator mutator(shared->seed);
  while (shared->done < runs) {
    Bytes input = mutator.mutation(corpus);
    ++shared->done;
    if (run_or_exit(input, "") && input.size() < 16384) corpus.push_back(std::move(input));
  }
  std::exit(0);
}

// The end of what a failed input printed, indented.
void print_log() {
  constexpr off_t kMax = 4000;
  const off_t size = lseek(log_file, 0, SEEK_END), begin = std::max<off_t>(0, size - kMax);
  std::string text(static_cast<size_t>(size - begin), ' ');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, pread(log_file, text.data(), text.size(), begin))));
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    fmt::print("    {}\n", one_line(text.substr(at, end - at)));
    at = end + 1;
  }
}

// Returns the number of failures.
int fuzz(const Target& target, const Options& options) {
  std::vector<Bytes> corpus;
  std::vector<fs::path> files;
  const fs::path folder = fs::path(options.corpus) / target.name;
  if (!options.input.empty()) {
    files.emplace_back(options.input);
  } else {
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> names;
  for (const fs::path& file : files) {
    corpus.push_back(read_bytes(file));
    if (options.input.empty()) names.push_back(file.filename().string());
  }
  if (corpus.empty()) throw Error("{}: has no inputs", folder.string());

  *shared = {};
  shared->seed = options.seed;
  const uint64_t runs = options.input.empty() ? options.runs : corpus.size();
  const auto start = std::chrono::steady_clock::now();
  int failures = 0;
  while (failures < kMaxFailures) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw Error("fork: {}", std::strerror(errno));
    if (pid == 0) child(target, corpus, names, runs);
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    ++failures;
    const std::string why = shared->why[0] ? shared->why : fmt::format("it ended with wait status {}", status);
    const fs::path file = fs::path(options.save) / fmt::format("{}-{}-{}", target.name, options.seed, failures);
    fs::create_directories(options.save);
    std::ofstream saved(file, std::ios::binary);
    saved.write(reinterpret_cast<const char*>(shared->input), static_cast<std::streamsize>(shared->bytes));
    if (!saved.flush()) throw Error("cannot write {}", file.string());
    fmt::print("{}: {} (after {} inputs; saved as {})\n", target.name, one_line(why), shared->done, file.string());
    print_log();
    shared->why[0] = '\0';
    shared->done += shared->done == 0;
    shared->seed = options.seed + 1000 * static_cast<uint64_t>(failures);  // otherwise the same input would come again
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{}: {} inputs, {} failures, {:.1f} s\n", target.name, shared->done, failures, seconds.count());
  std::fflush(stdout);
  return failures;
}

constexpr const char* kUsage =
    "duet_fuzz --corpus DIR [--target NAME] [--runs N] [--seed S] [--save DIR]\n"
    "duet_fuzz --input FILE --target NAME\n"
    "Runs each reader on N inputs, the files of its corpus and mutations of them (2000), or one reader on one file.\n"
    "targets:";

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw Error("{} needs a value", name);
    std::string value = argv[i + 1];
    const auto number = [&] {
      if (const std::string why = check_whole_number(value, 0, INT64_MAX); !why.empty())
        throw Error("{}: {}", name, why);
      return std::stoull(value);
    };
    if (name == "--corpus")
      options.corpus = value;
    else if (name == "--target")
      options.target = value;
    else if (name == "--save")
      options.save = value;
    else if (name == "--input")
      options.input = value;
    else if (name == "--runs")
      options.runs = number();
    else if (name == "--seed")
      options.seed = number();
    else
      throw Error("'{}' is not one of --corpus --target --runs --seed --save --input", name);
  }
  if (options.corpus.empty() == options.input.empty()) throw Error("one of --corpus and --input is needed");
  if (!options.input.empty() && options.target.empty()) throw Error("--input needs --target");
  return options;
}

}  // namespace
}  // namespace duet::fuzz

int main(int argc, char** argv) {
  using namespace duet::fuzz;
  if (argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
    fmt::print("{}", kUsage);
    for (const Target& target : targets()) fmt::print(" {}", target.name);
    fmt::print("\n");
    return 0;
  }
  try {
    const Options options = parse(argc, argv);
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw duet::Error("mmap: {}", std::strerror(errno));
    shared = static_cast<Shared*>(memory);
    log_file = memfd_create("log", 0);
    if (log_file < 0) throw duet::Error("memfd_create: {}", std::strerror(errno));
    int failures = 0;
    bool known = false;
    for (const Target& target : targets())
      if (options.target.empty() || options.target == target.name) {
        known = true;
        failures += fuzz(target, options);
      }
    if (!known) throw duet::Error("--target '{}' is unknown", options.target);
    return failures ? 1 : 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "duet_fuzz: {}\n", duet::one_line(e.what()));
    return 2;
  }
}
