// SPDX-License-Identifier: Apache-2.0
// Addresses as source lines, by addr2line. Answers are kept for the life of the program.
#include "simt/host/lines.h"

#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "core/error.h"

namespace duet::simt::host {
namespace {

uintptr_t load_address() {
  static const uintptr_t address = [] {
    uintptr_t found = 0;  // the program is the first object
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* out) {
          *static_cast<uintptr_t*>(out) = object->dlpi_addr;
          return 1;  // stops at the first object
        },
        &found);
    return found;
  }();
  return address;
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

// addr2line prints, for every address, the address and then two lines for each frame: function and line.
void run_addr2line(const std::vector<Pc>& pcs) {
  std::string command = "addr2line -aCfie '" + program() + "'";
  for (const Pc pc : pcs) command += fmt::format(" {:#x}", pc);
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return;
  std::vector<std::string> lines;
  char* text = nullptr;
  size_t room = 0;
  while (ssize_t length = getline(&text, &room, pipe)) {
    if (length < 0) break;
    while (length > 0 && text[length - 1] == '\n') --length;
    lines.emplace_back(text, static_cast<size_t>(length));
  }
  free(text);
  pclose(pipe);
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

Pc pc_of(const void* return_address) {
  return static_cast<Pc>(reinterpret_cast<uintptr_t>(return_address) - load_address() - 1);
}

void resolve(const std::vector<Pc>& pcs) {
  constexpr size_t kMaxAddresses = 2000;  // of one command: the length of a command line is limited
  std::vector<Pc> unknown;
  for (const Pc pc : pcs)
    if (!resolved().contains(pc)) {
      unknown.push_back(pc);
      if (unknown.size() == kMaxAddresses) {
        run_addr2line(unknown);
        unknown.clear();
      }
    }
  if (!unknown.empty()) run_addr2line(unknown);
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
