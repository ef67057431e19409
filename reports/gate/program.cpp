// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "core/error.h"

namespace duet::reports {
namespace {

constexpr size_t kKeptOutput = 4000;  // bytes of what a program prints
constexpr size_t kShownOutput = 400;  // of them in a message
constexpr size_t kMaxPrinted = size_t{64} << 20;
constexpr size_t kMaxDrained =
    size_t{1} << 20;  // at once: a program that prints without end must not outlast its limit
constexpr int kPollMs = 50;

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const char* doing) { throw Error("cannot {}: {}", doing, std::strerror(errno)); }

// The last lines as one, without control characters.
std::string one_line_of(const std::string& text) {
  std::string line;
  for (const char c : text.substr(text.size() - std::min(text.size(), kShownOutput))) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (!control || (!line.empty() && line.back() != ' ')) line += control ? ' ' : c;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// Reads what there is without waiting, and keeps its end. At most kMaxDrained: time limits are checked between calls.
void drain(int fd, std::string& output, std::string* printed) {
  char buffer[4096];
  size_t drained = 0;
  for (ssize_t n = 0; drained < kMaxDrained && (n = read(fd, buffer, sizeof buffer)) > 0;) {
    drained += static_cast<size_t>(n);
    output.append(buffer, static_cast<size_t>(n));
    if (printed && printed->size() < kMaxPrinted) printed->append(buffer, static_cast<size_t>(n));
    if (output.size() > 2 * kKeptOutput) output.erase(0, output.size() - kKeptOutput);
  }
}

// In the child: never returns.
[[noreturn]] void become(char* const* arguments, int output, int errors, int error_pipe, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof error);
  _exit(127);
}

void describe(ProgramEnd& end, int status) {
  if (WIFEXITED(status)) {
    end.exit_status = WEXITSTATUS(status);
    end.how = fmt::format("ended with status {}", end.exit_status);
  } else {
    const char* name = sigabbrev_np(WTERMSIG(status));
    end.how = fmt::format("was killed by SIG{}", name ? name : std::to_string(WTERMSIG(status)));
  }
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

ProgramEnd run_program(const std::vector<std::string>& arguments, double limit_s, std::string* printed) {
  int output[2], error[2];
  if (pipe2(output, O_CLOEXEC) != 0) fail("make a pipe");
  Descriptor output_read(output[0]), output_write(output[1]);
  if (pipe2(error, O_CLOEXEC) != 0) fail("make a pipe");
  Descriptor error_read(error[0]), error_write(error[1]);
  fcntl(output_read.get(), F_SETFL, O_NONBLOCK);
  std::vector<char*> pointers;
  for (const std::string& a : arguments) pointers.push_back(const_cast<char*>(a.c_str()));
  pointers.push_back(nullptr);

  const auto start = std::chrono::steady_clock::now();
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child < 0) fail("start a process");
  if (child == 0) {
    const int errors = printed ? open("/dev/null", O_WRONLY) : output_write.get();
    become(pointers.data(), output_write.get(), errors, error_write.get(), self);
  }
  output_write.close();
  error_write.close();
  int start_error = 0;
  if (read(error_read.get(), &start_error, sizeof start_error) == sizeof start_error) {
    waitpid(child, nullptr, 0);
    throw Error("{}: cannot be started: {}", arguments[0], std::strerror(start_error));
  }

  ProgramEnd end;
  std::string text;
  for (bool killed = false;;) {
    pollfd readable{output_read.get(), POLLIN, 0};
    poll(&readable, 1, kPollMs);
    if (readable.revents & POLLHUP) usleep(1000 * kPollMs / 10);  // it has closed its output, and may go on
    drain(output_read.get(), text, printed);
    end.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // Not reaped yet: until then its group's id is not given to another process.
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == child)
      break;
    if (!killed && (interrupted || end.wall_s > limit_s)) {
      killed = true;
      end.timed_out = !interrupted;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
    }
  }
  kill(-child, SIGKILL);  // what it left running
  int status = 0;
  waitpid(child, &status, 0);
  describe(end, status);
  drain(output_read.get(), text, printed);
  if (interrupted) throw ProgramInterrupted{};
  if (end.timed_out) end.how = fmt::format("did not finish within {:.3g} s", limit_s);
  end.last_output = one_line_of(text);
  return end;
}

}  // namespace duet::reports
