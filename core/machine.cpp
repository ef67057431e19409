// SPDX-License-Identifier: Apache-2.0
#include "core/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/checksum.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// The instruction sets that an implementation here is chosen by, or that show what the hardware could do.
constexpr const char* kExtensions[] = {"sse4_1",      "sse4_2",      "avx",         "avx2",     "fma",
                                       "f16c",        "avx512f",     "avx512dq",    "avx512bw", "avx512vl",
                                       "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile",
                                       "amx_bf16",    "amx_int8",    "clflushopt",  "asimd",    "sve"};

std::string trimmed(std::string text) {
  const auto is_space = [](unsigned char c) { return std::isspace(c); };
  text.erase(std::find_if_not(text.rbegin(), text.rend(), is_space).base(), text.end());
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_space));
  return text;
}

// The first line of a file. Files in /proc and /sys may be missing or unreadable, or fail when they are read.
std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return trimmed(line);
}

std::optional<int64_t> to_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}
std::optional<int64_t> number_in(const std::string& path) {
  const auto line = first_line(path);
  return line ? to_number(*line) : std::nullopt;
}

// "always [madvise] never" -> madvise
std::string chosen_in(const std::string& path) {
  const std::string line = first_line(path).value_or("");
  const size_t open = line.find('['), close = line.find(']');
  return open == line.npos || close == line.npos || close < open ? kUnavailable
                                                                 : line.substr(open + 1, close - open - 1);
}

// "32K", "1024K", "32M" -> bytes
int64_t cache_bytes(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const char unit = end == text.data() + text.size() ? ' ' : *end;
  return value * (unit == 'K' ? 1 << 10 : unit == 'M' ? 1 << 20 : unit == 'G' ? 1 << 30 : 1);
}

// "0-3,8" -> 5
int count_of(const std::string& list) {
  int count = 0;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    const auto first = to_number(part.substr(0, dash));
    const auto last = dash == part.npos ? first : to_number(part.substr(dash + 1));
    if (first && last && *last >= *first) count += static_cast<int>(*last - *first + 1);
  }
  return count;
}

std::string list_of(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t j = i;
    while (j + 1 < cpus.size() && cpus[j + 1] == cpus[j] + 1) ++j;
    text += (text.empty() ? "" : ",") + (i == j ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[j]));
    i = j + 1;
  }
  return text;
}

int64_t meminfo_bytes(const std::string& root, std::string_view key) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string word; file >> word;)
    if (word == key) {
      int64_t kib = 0;
      file >> kib;
      return kib * 1024;
    }
  return 0;
}

std::vector<CpuCache> read_caches(const std::string& root) {
  std::vector<CpuCache> caches;
  for (int i = 0;; ++i) {
    const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu0/cache/index{}/", root, i);
    const auto level = number_in(folder + "level");
    if (!level) break;
    caches.push_back({static_cast<int>(*level), first_line(folder + "type").value_or(kUnavailable),
                      cache_bytes(first_line(folder + "size").value_or("")),
                      std::max(1, count_of(first_line(folder + "shared_cpu_list").value_or("0")))});
  }
  std::stable_sort(caches.begin(), caches.end(), [](const auto& a, const auto& b) { return a.level < b.level; });
  return caches;
}

std::string read_governor(const std::string& root) {
  std::vector<std::string> seen;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root + "/sys/devices/system/cpu", none))
    if (const auto g = first_line(entry.path().string() + "/cpufreq/scaling_governor"))
      if (std::find(seen.begin(), seen.end(), *g) == seen.end()) seen.push_back(*g);
  std::sort(seen.begin(), seen.end());
  return seen.empty() ? kUnavailable : fmt::format("{}", fmt::join(seen, "+"));
}

std::string read_turbo(const std::string& root) {
  if (const auto no = number_in(root + "/sys/devices/system/cpu/intel_pstate/no_turbo")) return *no ? "off" : "on";
  if (const auto boost = number_in(root + "/sys/devices/system/cpu/cpufreq/boost")) return *boost ? "on" : "off";
  return kUnavailable;
}

// The folders of this process's control group and of its parents that may hold the limits of `controller`. Inside a
// container the path of /proc/self/cgroup may not exist below the mount point; then the limits of the mount point
// apply.
std::vector<std::string> group_folders(const std::string& root, std::string_view controller, bool& second_version) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::error_code none;
  second_version = fs::exists(mount + "/cgroup.controllers", none);
  std::string path = "/", base = mount;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/user.slice" or "0::/user.slice"
    const size_t a = line.find(':'), b = line.find(':', a + 1);
    if (a == line.npos || b == line.npos) continue;
    const std::string names = "," + line.substr(a + 1, b - a - 1) + ",";
    const bool mine = second_version ? names == ",," : names.find("," + std::string(controller) + ",") != names.npos;
    if (mine) path = line.substr(b + 1);
  }
  if (!second_version) {
    base = mount + "/" + std::string(controller);
    if (!fs::exists(base, none)) base = mount + "/cpu,cpuacct";
  }
  std::vector<std::string> folders;
  for (fs::path p = path;; p = p.parent_path()) {
    folders.push_back(base + (p == "/" ? "" : p.string()));
    if (p == "/" || p.empty() || p == p.parent_path()) break;
  }
  return folders;
}

std::optional<double> read_quota(const std::string& root) {
  bool v2 = false;
  std::optional<double> min;
  for (const std::string& folder : group_folders(root, "cpu", v2)) {
    std::optional<int64_t> quota, period;
    if (v2) {  // "200000 100000" or "max 100000"
      std::istringstream words(first_line(folder + "/cpu.max").value_or(""));
      std::string q, p;
      words >> q >> p;
      quota = to_number(q);
      period = to_number(p);
    } else {
      quota = number_in(folder + "/cpu.cfs_quota_us");
      period = number_in(folder + "/cpu.cfs_period_us");
    }
    if (!quota || !period || *quota <= 0 || *period <= 0) continue;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    min = std::min(min.value_or(cores), cores);
  }
  return min;
}

std::optional<int64_t> read_memory_limit(const std::string& root, int64_t ram) {
  bool v2 = false;
  std::optional<int64_t> min;
  for (const std::string& folder : group_folders(root, "memory", v2)) {
    const auto limit = number_in(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit && *limit < ram) min = std::min(min.value_or(*limit), *limit);  // version 1 writes "no limit" as 2^63
  }
  return min;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  return cpus;
}

}  // namespace

bool MachineInfo::has(std::string_view extension) const {
  return std::find(isa.begin(), isa.end(), extension) != isa.end();
}

int64_t MachineInfo::last_level_bytes() const {
  int64_t bytes = 0;
  for (const CpuCache& c : caches)
    if (c.type != "Instruction") bytes = c.bytes;
  return bytes;
}

std::vector<std::pair<std::string, std::string>> MachineInfo::fingerprint_inputs() const {
  return {
      {"cpu_model", cpu_model},
      {"cores", fmt::format("{}", cores)},
      {"isa", fmt::format("{}", fmt::join(isa, " "))},
      {"ram_gib", fmt::format("{:.0f}", static_cast<double>(ram_bytes) / (1 << 30))},  // the kernel keeps some of it
      {"kernel_major", kernel.substr(0, kernel.find('.'))}};
}

std::string fingerprint(const std::vector<std::pair<std::string, std::string>>& inputs) {
  std::string text;
  for (const auto& [key, value] : inputs) text += key + '\xff' + value + '\xff';  // no text holds this separator
  return fmt::format("{:016x}", checksum(text.data(), static_cast<int64_t>(text.size())));
}

MachineInfo read_machine(const std::string& root) {
  MachineInfo m;
  m.host_name = first_line(root + "/proc/sys/kernel/hostname").value_or(kUnavailable);
  m.kernel = first_line(root + "/proc/sys/kernel/osrelease").value_or(kUnavailable);
  m.cpu_model = kUnavailable;
  std::ifstream cpuinfo(root + "/proc/cpuinfo");
  std::vector<std::string> flags;
  int listed = 0;
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string key = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (key == "processor") ++listed;
    if (key == "model name" && m.cpu_model == kUnavailable) m.cpu_model = value;
    if ((key == "flags" || key == "Features") && flags.empty()) {
      std::istringstream words(value);
      for (std::string word; words >> word;) flags.push_back(word);
    }
  }
  m.cores = std::max(1, listed);
  for (const char* e : kExtensions)
    if (std::find(flags.begin(), flags.end(), e) != flags.end()) m.isa.emplace_back(e);
  m.virtual_machine = std::find(flags.begin(), flags.end(), "hypervisor") != flags.end();
  m.ram_bytes = meminfo_bytes(root, "MemTotal:");
  m.caches = read_caches(root);
  return m;
}

MachineState read_machine_state(const std::string& root) {
  MachineState s;
  s.governor = read_governor(root);
  s.turbo = read_turbo(root);
  s.thp = chosen_in(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  s.thp_defrag = chosen_in(root + "/sys/kernel/mm/transparent_hugepage/defrag");
  s.aslr = first_line(root + "/proc/sys/kernel/randomize_va_space").value_or(kUnavailable);
  if (const auto smt = number_in(root + "/sys/devices/system/cpu/smt/active")) s.smt = *smt ? "on" : "off";
  const std::vector<int> cpus = allowed_cpus();
  s.affinity_cpus = static_cast<int>(cpus.size());
  if (!cpus.empty()) s.affinity = list_of(cpus);
  s.cpu_quota = read_quota(root);
  s.memory_limit_bytes = read_memory_limit(root, meminfo_bytes(root, "MemTotal:"));
  s.available_bytes = meminfo_bytes(root, "MemAvailable:");
  std::istringstream load(first_line(root + "/proc/loadavg").value_or(""));
  for (double mean; s.load.size() < 3 && load >> mean;) s.load.push_back(mean);
  return s;
}

CpuTimes read_cpu_times(const std::string& root) {
  std::istringstream words(first_line(root + "/proc/stat").value_or(""));  // the sum of all CPUs
  std::string name;
  int64_t user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  words >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;  // guest time is in user
  const int64_t busy = user + nice + system + irq + softirq;
  return {busy, steal, busy + steal + idle + iowait};
}

CpuSnapshot CpuSnapshot::now() {
  CpuSnapshot s;
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  s.own_s = seconds(own.ru_utime) + seconds(own.ru_stime);
  s.involuntary_switches = own.ru_nivcsw;
  s.machine = read_cpu_times();
  s.at = std::chrono::steady_clock::now();
  return s;
}

CpuUse cpu_use(const CpuSnapshot& before, const CpuSnapshot& after) {
  CpuUse use;
  use.wall_s = std::chrono::duration<double>(after.at - before.at).count();
  use.involuntary_switches = after.involuntary_switches - before.involuntary_switches;
  if (!(use.wall_s > 0)) return use;
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const double own_s = after.own_s - before.own_s;
  // Ticks are rounded, so the machine's busy time may lag behind this process's own; foreign time is then 0.
  const double foreign_s =
      std::max(0.0, static_cast<double>(after.machine.busy - before.machine.busy) * tick_s - own_s);
  use.own_cores = own_s / use.wall_s;
  use.foreign_cores = foreign_s / use.wall_s;
  if (const auto total = static_cast<double>(after.machine.total - before.machine.total); total > 0) {
    use.foreign_share = std::min(1.0, foreign_s / (total * tick_s));
    use.steal_share = static_cast<double>(after.machine.steal - before.machine.steal) / total;
  }
  return use;
}

int usable_threads(const MachineState& state) {
  int threads = state.affinity_cpus > 0 ? state.affinity_cpus : static_cast<int>(std::thread::hardware_concurrency());
  if (state.cpu_quota) threads = std::min(threads, static_cast<int>(*state.cpu_quota));
  return std::max(1, threads);
}

int64_t allocatable_bytes(const MachineState& state) {
  return std::min(state.available_bytes, state.memory_limit_bytes.value_or(state.available_bytes));
}

int usable_threads() { return usable_threads(read_machine_state()); }

double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace duet
