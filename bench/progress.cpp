// SPDX-License-Identifier: Apache-2.0
#include "bench/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace duet::bench {
namespace {
constexpr int kBar = 24;
constexpr const char* kClearLine = "\r\x1b[K";
}  // namespace

Progress::Progress(int cases) : total_(cases), terminal_(isatty(STDERR_FILENO) == 1) {}
Progress::~Progress() { clear(); }

void Progress::clear() {
  if (!terminal_) return;
  std::fputs(kClearLine, stderr);
  std::fflush(stderr);
}

void Progress::note(const std::string& line) { fmt::print(stderr, "{}{}\n", terminal_ ? kClearLine : "", line); }

void Progress::begin(const std::string& name) {
  name_ = name;
  if (terminal_) draw(name);
}

void Progress::end(const std::string& outcome) {
  ++done_;
  if (!terminal_) return note(fmt::format("[{}/{}] {}  {}", done_, total_, name_, outcome));
  draw(name_);
}

void Progress::draw(const std::string& text) {
  const double share = total_ ? static_cast<double>(done_) / total_ : 1;
  const double elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const int full = static_cast<int>(share * kBar);
  std::string line = fmt::format("[{:#>{}}{:.>{}}] {}/{}", "", full, "", kBar - full, done_, total_);
  if (done_ > 0) line += fmt::format(", {:.0f} s left", elapsed_s / share * (1 - share));
  winsize size{};
  const size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  fmt::print(stderr, "{}{}", kClearLine, (line + "  " + text).substr(0, width - 1));
  std::fflush(stderr);
}

}  // namespace duet::bench
