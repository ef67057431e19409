// SPDX-License-Identifier: Apache-2.0
// stress_memory SECONDS: a neighbour that streams through memory on one thread. Run it beside bench_all to see which
// statements of a run hold on a busy machine: times move, shares of the adjacent roof should not.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  char* end = nullptr;
  const double seconds = argc == 2 ? std::strtod(argv[1], &end) : 0;
  if (argc != 2 || *end != '\0' || !(seconds > 0) || seconds > 86400) {
    std::fprintf(stderr, "usage: stress_memory SECONDS (more than 0, at most 86400)\n");
    return 2;
  }
  constexpr size_t kWords = size_t{64} << 20;  // 512 MiB, far beyond every cache
  std::vector<unsigned long long> words(kWords, 1);
  const auto start = std::chrono::steady_clock::now();
  unsigned long long passes = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    for (unsigned long long& word : words) word += passes;
    ++passes;
  }
  std::printf("%llu passes over 512 MiB\n", passes + words[passes % kWords] % 1);
}
