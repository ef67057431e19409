// SPDX-License-Identifier: Apache-2.0
#include "bench/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>
#include <sstream>
#include <vector>

#include "bench/cases.h"
#include "bench/describe.h"
#include "bench/journal.h"
#include "bench/run.h"
#include "bench/worker.h"
#include "core/error.h"
#include "core/process.h"
#include "results/facts.h"

namespace duet::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kMaxFruitless = 3;       // workers that die in a row without having finished or cost a job
constexpr int kPollMs = 250;           // between looks at a worker's progress
constexpr double kMaxCounted_s = 1;    // of one look: time in which this process was stopped, too, is no hang
constexpr double kSameSignal_s = 0.3;  // a terminal and `timeout` send a signal more than once
constexpr double kDying_s = 60;        // after SIGKILL; longer: stuck in the kernel

int signal_pipe[2] = {-1, -1};

void on_signal(int signal) {
  const int error = errno;
  const auto byte = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe[1], &byte, 1);
  errno = error;
}

[[noreturn]] void fail(const char* doing) { throw Error("cannot {}: {}", doing, std::strerror(errno)); }

void say(const std::string& line) {
  fmt::print(stderr, "{}{}\n", isatty(STDERR_FILENO) == 1 ? "\r\x1b[K" : "", line);  // over the worker's progress bar
}

// How a worker ended.
struct Ending {
  bool finished = false, successor = false, abandoned = false;
  bool from_outside = false;  // a signal that neither the job nor the kernel's want of memory explains
  int exit_status = 0;
  std::string reason;  // "killed by SIGSEGV in phase measure"
  Phase phase = Phase::start;
  std::vector<std::string> jobs;  // that it costs
};

class Supervisor {
 public:
  Supervisor(const Options& options, char** argv) : options_(options), argv_(argv) {
    share_page();
    catch_signals();
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor() { munmap(page_, sizeof(WorkerPage)); }

  // One run; process: its number among those of --processes. result: as after --json=.
  int run(const std::optional<std::string>& result, int process) {
    page_->process = process;
    page_->processes = options_.processes;
    page_->resume = options_.resume;
    page_->generation = 0;
    page_->journal_opened = false;
    std::fill(std::begin(page_->phases_s), std::end(page_->phases_s), 0.0);
    page_->started_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    name_files(result);
    killed_once_.clear();
    int fruitless = 0;
    for (;;) {
      start();
      const Ending end = watch();
      if (end.finished) return end.exit_status;
      const bool stopping = stop_sent_ > 0;  // then another worker writes what there is
      if (end.abandoned) {
        say("bench_all: the worker " + end.reason);
        return kFailed;
      }
      const bool progress = end.successor || record(end);
      fruitless = progress && !stopping ? 0 : fruitless + 1;
      if (fruitless == kMaxFruitless) {
        say(fmt::format("bench_all: {} workers ended in a row without finishing a job: giving up", kMaxFruitless));
        return stopping ? kInterrupted : kFailed;
      }
      ++page_->generation;
    }
  }

 private:
  void share_page() {
    page_fd_ = memfd_create("bench_all.worker", 0);  // no MFD_CLOEXEC: the worker maps it, too
    if (page_fd_ < 0 || ftruncate(page_fd_, sizeof(WorkerPage)) != 0) fail("share memory with a worker");
    void* memory = mmap(nullptr, sizeof(WorkerPage), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd_, 0);
    if (memory == MAP_FAILED) fail("share memory with a worker");
    page_ = new (memory) WorkerPage;
  }

  void name_files(const std::optional<std::string>& result) {
    const auto put = [](char* to, const std::string& path) {
      if (path.size() >= WorkerPage::kMaxPath) throw Error("a path of {} characters is too long", path.size());
      std::memcpy(to, path.c_str(), path.size() + 1);
    };
    if (result) put(page_->result, result->empty() ? "-" : *result);
    if (result && !result->empty() && *result != "-") return put(page_->journal, Journal::path_for(*result));
    // Where the result is no file, the journal only serves the next worker, and vanishes with this process.
    const int fd = memfd_create("bench_all.journal", 0);
    if (fd < 0) fail("make a journal in memory");
    put(page_->journal, fmt::format("/proc/self/fd/{}", fd));
  }

  static void catch_signals() {
    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) fail("make a pipe");
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaction(signal, &action, nullptr);
  }

  void start() {
    page_->exit_status = -1;
    page_->wants_successor = false;
    page_->last_words[0] = 0;
    for (WorkerPage::Work& work : page_->work) work = {};
    const std::string option = fmt::format("{}={}", kWorkerOption, page_fd_);
    std::vector<char*> args{argv_[0], const_cast<char*>(option.c_str())};
    for (char** a = argv_ + 1; *a; ++a) args.push_back(*a);
    args.push_back(nullptr);
    const pid_t self = getpid();
    memory_kills_ = memory_kills();
    worker_ = fork();
    if (worker_ < 0) fail("start a worker");
    if (worker_ > 0) return;
    // The worker must not outlive this process, however that ends.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(kFailed);
    std::signal(SIGUSR1, SIG_IGN);  // until the worker has a handler
    execv("/proc/self/exe", args.data());
    _exit(kUsage);
  }

  // Until the worker has ended, by itself or because it made no progress for too long.
  Ending watch() {
    uint64_t beats = page_->beats;
    double idle_s = 0, dying_s = 0;
    std::string killed;  // why, where this process did it
    auto last = Clock::now();
    for (;;) {
      pollfd readable{signal_pipe[0], POLLIN, 0};
      poll(&readable, 1, kPollMs);
      pass_signals_on();
      int status = 0;
      if (waitpid(worker_, &status, WNOHANG) == worker_) return ending(status, killed);

      const auto now = Clock::now();
      const double counted_s = std::min(kMaxCounted_s, std::chrono::duration<double>(now - last).count());
      last = now;
      if (!killed.empty()) {
        dying_s += counted_s;
        if (dying_s > kDying_s) {
          Ending end;
          end.abandoned = true;
          end.reason = fmt::format("{}; the worker, process {}, cannot be killed", killed, worker_);
          return end;
        }
        continue;
      }
      const uint64_t seen = page_->beats;
      idle_s = seen == beats ? idle_s + counted_s : 0;
      beats = seen;
      const WorkerPage::Work& work = page_->work[page_->current];
      const double limit_s = page_->exit_status >= 0                ? kDying_s
                             : options_.job_limit_s && work.jobs[0] ? *options_.job_limit_s
                                                                    : work.limit_s;
      if (limit_s > 0 && idle_s > limit_s) {
        killed = fmt::format("made no progress for {:.3g} s in phase {}: deadlock?", limit_s, name_of(work.phase));
        kill(worker_, SIGKILL);
      }
    }
  }

  // The first SIGINT or SIGTERM has the worker write what it has. A second one ends both at once; the journal stays.
  void pass_signals_on() {
    char signal = 0;
    while (::read(signal_pipe[0], &signal, 1) == 1) {
      if (signal == SIGCHLD) continue;
      const auto now = Clock::now();
      if (stop_sent_ == 0) {
        stop_sent_ = signal;
        stop_sent_at_ = now;
        page_->stop = true;
        kill(worker_, SIGUSR1);
      } else if (std::chrono::duration<double>(now - stop_sent_at_).count() > kSameSignal_s) {
        kill(worker_, SIGKILL);
        waitpid(worker_, nullptr, 0);
        std::signal(signal, SIG_DFL);
        raise(signal);
      }
    }
  }

  Ending ending(int status, const std::string& killed) const {
    Ending end;
    const WorkerPage::Work& work = page_->work[page_->current];
    end.phase = work.phase;
    std::istringstream lines(work.jobs);
    for (std::string job; std::getline(lines, job);) end.jobs.push_back(job);
    if (page_->wants_successor && killed.empty()) {
      end.successor = true;
    } else if (page_->exit_status >= 0) {  // whatever happened afterwards: all has been written
      end.finished = true;
      end.exit_status = page_->exit_status;
    }
    if (!killed.empty()) {
      end.reason = killed;
      return end;
    }
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      const char* name = sigabbrev_np(signal);
      end.reason = fmt::format("killed by SIG{}", name ? name : std::to_string(signal));
      if (signal == SIGKILL && memory_kills_ && memory_kills() > memory_kills_)
        end.reason += " (out of memory)";
      else
        end.from_outside = signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
    } else {
      end.reason = fmt::format("ended the process with status {}", WEXITSTATUS(status));
    }
    end.reason += fmt::format(" in phase {}", name_of(work.phase));
    if (page_->last_words[0]) end.reason += fmt::format(" ({})", page_->last_words);
    return end;
  }

  // Writes the failed rows of the jobs that a worker's end costs. False: none, so the next worker may end likewise.
  bool record(const Ending& end) {
    if (end.jobs.empty()) {
      say(fmt::format("bench_all: the worker {}; another one is started", end.reason));
      return false;
    }
    if (end.from_outside && killed_once_.insert(end.jobs.front()).second) {
      say(fmt::format("bench_all: the worker was {}, from outside; {} starts again", end.reason, end.jobs.front()));
      return true;
    }
    if (cases_.empty()) cases_ = select_cases(options_);
    std::vector<results::Job> rows;
    for (const auto& c : cases_)
      for (const Side& side : c->sides)
        if (std::find(end.jobs.begin(), end.jobs.end(), side.job) != end.jobs.end())
          rows.push_back(job_without_result(*c, side, results::Status::failed, end.reason));
    for (const results::Job& job : rows)
      say(fmt::format("FAILED {}: {}\n  again: {}", job.name, job.reason, job.repro));
    Journal journal;
    if (!journal.read(page_->journal)) throw Error("{}: is lost", page_->journal);
    journal.go_on();
    journal.add(rows);
    return !rows.empty();
  }

  const Options& options_;
  char** argv_;
  WorkerPage* page_ = nullptr;
  int page_fd_ = -1;
  pid_t worker_ = -1;
  int stop_sent_ = 0;
  Clock::time_point stop_sent_at_;
  std::optional<int64_t> memory_kills_;  // before the worker
  std::set<std::string> killed_once_;    // jobs during which something outside killed a worker
  Cases cases_;                          // selected here only where a row has to be written
};

bool is_same_selection(const results::Run& run, const Options& options) {
  return run.invocation.seed == options.seed &&
         results::facts_of(run.invocation.selection) == results::facts_of(describe_selection(options));
}

// The run of --processes: each process writes a run file of its own beside the result, and they are joined.
int run_processes(const Options& options, Supervisor& supervisor) {
  const bool to_file = options.json && !options.json_to_stdout();
  std::string folder = (fs::temp_directory_path() / "bench_all.XXXXXX").string();
  if (!to_file && !mkdtemp(folder.data())) fail("make a folder for the runs of the processes");
  std::vector<std::string> parts;
  for (int p = 0; p < options.processes; ++p)
    parts.push_back(fmt::format("{}.process{}", to_file ? *options.json : folder + "/run", p));
  const auto remove_parts = [&] {
    std::error_code ignored;
    for (const std::string& part : parts) fs::remove(part, ignored);
    if (!to_file) fs::remove_all(folder, ignored);
  };
  if (!options.resume) remove_parts();
  if (!to_file) fs::create_directory(folder);
  if (options.resume && to_file && !fs::exists(parts[0]) && !fs::exists(Journal::path_for(parts[0])))
    if (const auto earlier = complete_run(*options.json);
        earlier && earlier->invocation.processes == options.processes && is_same_selection(*earlier, options)) {
      say(fmt::format("--resume: {} is complete, nothing is left to do", *options.json));
      return exit_status_of(*earlier);
    }

  int taken = 0, status = 0;
  for (; taken < options.processes && status != kInterrupted; ++taken) {
    say(fmt::format("process {} of {}", taken + 1, options.processes));
    status = supervisor.run(parts[static_cast<size_t>(taken)], taken);
    if (status == kUsage || !fs::exists(parts[static_cast<size_t>(taken)])) break;
  }
  if (status == kUsage || taken == 0) {
    if (!to_file) remove_parts();
    return status;
  }
  status = join_processes(options, {parts.begin(), parts.begin() + taken});
  if (status != kInterrupted || !to_file) remove_parts();
  return status;
}

}  // namespace

int supervise(const Options& options, char** argv) {
  Supervisor supervisor(options, argv);
  return options.processes > 1 ? run_processes(options, supervisor) : supervisor.run(options.json, 0);
}

}  // namespace duet::bench
