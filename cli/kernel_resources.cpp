// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_resources.h"

#include <regex>
#include <sstream>

namespace duet {

extern const char* const duet_kernel_resources;  // the output of ptxas, embedded by the build

namespace {

int number_before(const std::string& line, const std::string& words) {
  const size_t at = line.find(words);
  if (at == line.npos) return 0;
  size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  return begin < at ? std::stoi(line.substr(begin, at - begin)) : 0;
}

}  // namespace

std::string short_kernel_name(std::string name) {
  for (const char* scope : {"void ", "duet::", "cuda::", "(anonymous namespace)::"})
    for (size_t at; (at = name.find(scope)) != name.npos;) name.erase(at, std::string(scope).size());
  static const std::regex cast(R"(\((int|bool|long|unsigned int)\))");
  static const std::regex internal(R"(_GLOBAL__N__[A-Za-z0-9_]*::)");
  name = std::regex_replace(std::regex_replace(name, cast, ""), internal, "");
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<';
    depth -= name[i] == '>';
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

// Lines of a kernel:
// ptxas info    : Compiling entry function 'softmax_kernel...' for 'sm_90a'
// ptxas info    : Function properties for softmax_kernel...
//     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// ptxas info    : Used 40 registers, used 1 barriers, 32 bytes smem
std::vector<KernelResources> parse_ptxas(const std::string& text) {
  std::vector<KernelResources> all;
  std::istringstream lines(text);
  const std::string file_line = "file ";
  std::string file;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(file_line)) file = line.substr(file_line.size());
    const size_t entry = line.find("Compiling entry function '");
    const size_t target = line.find("' for 'sm_");
    if (entry != line.npos && target != line.npos) {
      const size_t name = entry + std::string("Compiling entry function '").size();
      all.push_back({short_kernel_name(line.substr(name, target - name)), file, std::stoi(line.substr(target + 10))});
      inside = true;
    } else if (inside && line.find("bytes stack frame") != line.npos) {
      all.back().stack_bytes = number_before(line, " bytes stack frame");
      all.back().spill_store_bytes = number_before(line, " bytes spill stores");
      all.back().spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (inside && line.find(": Used ") != line.npos) {
      all.back().registers = number_before(line, " registers");
      all.back().static_shared_bytes = number_before(line, " bytes smem");
      inside = false;
    }
  }
  return all;
}

const std::vector<KernelResources>& kernel_resources() {
  static const std::vector<KernelResources> all = parse_ptxas(duet_kernel_resources);
  return all;
}

}  // namespace duet
