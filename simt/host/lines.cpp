// SPDX-License-Identifier: Apache-2.0
// Addresses as source lines, by addr2line. Answers are kept for the life of the program.
#include "simt/host/lines.h"

#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string_view>

#include "core/error.h"

namespace duet::simt::host {
namespace {

uintptr_t find_load_address() {
  uintptr_t found = 0;  // the program is the first object
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* out) {
        *static_cast<uintptr_t*>(out) = object->dlpi_addr;
        return 1;  // stops at the first object
      },
      &found);
  return found;
}

std::string program() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, length > 0 ? static_cast<size_t>(length) : 0);
}

std::map<Pc, std::vector<Frame>>& resolved() {
  static std::map<Pc, std::vector<Frame>> map;
  return map;
}

std::string shortened(std::string text) {
  if (const size_t note = text.find(" (discriminator"); note != text.npos) text.resize(note);
  if (text.rfind("./", 0) == 0) text.erase(0, 2);
  return text;
}

// One addr2line process, which reads the program's debug information once and then answers what is asked on its
// standard input, until that is closed.
class Addr2line {
 public:
  // For every address it prints the address and then two lines for each frame: function and line.
  std::vector<std::string> lines_of(const std::vector<Pc>& pcs) {
    if (owner_ != getpid()) start();  // a forked process cannot share the answers
    // Asked last: no instruction is there, and LLVM's addr2line, which pads no address with zeros, prints it alike.
    constexpr std::string_view kEnd = "0xffffffffffffffff";
    std::string question;
    for (const Pc pc : pcs) question += fmt::format("{:#x}\n", pc);
    question.append(kEnd) += '\n';
    for (size_t sent = 0; sent < question.size();) {
      const ssize_t n = send(socket_, question.data() + sent, question.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return {};
      sent += static_cast<size_t>(n);
    }
    std::vector<std::string> lines;
    constexpr size_t kEndLines = 3;  // of that address
    for (size_t end = SIZE_MAX; lines.size() != end;) {
      const size_t newline = unread_.find('\n');
      if (newline == unread_.npos) {
        char more[4096];
        const ssize_t n = read(socket_, more, sizeof more);
        if (n <= 0) return {};
        unread_.append(more, static_cast<size_t>(n));
        continue;
      }
      lines.push_back(unread_.substr(0, newline));
      unread_.erase(0, newline + 1);
      if (end == SIZE_MAX && lines.back() == kEnd) end = lines.size() - 1 + kEndLines;
    }
    lines.resize(lines.size() - kEndLines);
    return lines;
  }

 private:
  void start() {
    owner_ = getpid();
    unread_.clear();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    socket_ = ends[0];
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string path = program();
    char name[] = "addr2line", options[] = "-aCfie";
    char* arguments[] = {name, options, path.data(), nullptr};
    pid_t child;
    posix_spawnp(&child, name, &files, nullptr, arguments, environ);  // where it fails, the socket has no other end
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
  }

  pid_t owner_ = 0;
  int socket_ = -1;
  std::string unread_;
};

void ask(const std::vector<Pc>& pcs) {
  static Addr2line addr2line;
  const std::vector<std::string> lines = addr2line.lines_of(pcs);
  for (size_t i = 0; i < lines.size();) {
    const Pc pc = static_cast<Pc>(std::stoull(lines[i++], nullptr, 16));
    while (i + 1 < lines.size() && lines[i].rfind("0x", 0) != 0) {
      const std::string where = shortened(lines[i + 1]);
      if (where.rfind("??", 0) != 0) resolved()[pc].push_back({lines[i], where});
      i += 2;
    }
  }
}

}  // namespace

bool resolve_lines = true;

const uintptr_t kLoadAddress = find_load_address();

void resolve(const std::vector<Pc>& pcs) {
  constexpr size_t kMaxAddresses = 2000;  // at once: the socket holds them while addr2line writes
  std::vector<Pc> unknown;
  for (const Pc pc : pcs)
    if (!resolved().contains(pc)) {
      unknown.push_back(pc);
      if (unknown.size() == kMaxAddresses) {
        ask(unknown);
        unknown.clear();
      }
    }
  if (!unknown.empty()) ask(unknown);
  for (const Pc pc : pcs)
    if (resolved()[pc].empty()) resolved()[pc].push_back({"?", fmt::format("pc {:#x}", pc)});
}

const std::vector<Frame>& frames(Pc pc) {
  resolve({pc});
  return resolved()[pc];
}

std::string line(Pc pc) {
  if (!resolve_lines) return fmt::format("pc {:#x}", pc);
  const std::vector<Frame>& all = frames(pc);
  // The innermost frame that is not in the headers of simt/.
  size_t inner = 0;
  while (inner + 1 < all.size() && all[inner].line.rfind("simt/", 0) == 0) ++inner;
  size_t outer = all.size() - 1;  // the outermost frame of another file: lambdas of the same file add nothing
  std::string text = all[inner].line;
  const auto file = [&](size_t i) { return all[i].line.substr(0, all[i].line.rfind(':')); };
  while (outer > inner && file(outer) == file(inner)) --outer;
  if (outer > inner) text += " (in " + all[outer].line + ")";
  return text;
}

std::string function_at(const void* address) {
  std::string name = frames(pc_of(static_cast<const char*>(address) + 1)).back().function;
  if (const size_t type = name.find("void "); type == 0) name.erase(0, 5);
  for (const char* scope : {"duet::", "simt::", "(anonymous namespace)::"})
    for (size_t at; (at = name.find(scope)) != name.npos;) name.erase(at, std::string(scope).size());
  int depth = 0;  // of template arguments, which stay; the parameters are removed
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

}  // namespace duet::simt::host
