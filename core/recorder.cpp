// SPDX-License-Identifier: Apache-2.0
// Lines of a part, in the order in which things happened, times in nanoseconds of the steady clock:
//   {"process":"worker","pid":7}                                     the first one
//   {"thread":9,"named":"main"}
//   {"name":3,"id":"softmax/...","category":"softmax","bytes":8,"flops":2}   before the first range of that name
//   {"b":3,"t":9,"ns":12}                                            thread 9 begins a range of name 3
//   {"e":9,"ns":15}                                                  thread 9 ends its innermost range
//   {"finished":true}                                                the last one
#include "core/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "core/atomic_file.h"
#include "core/error.h"

namespace duet::recorder {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kWindow = int64_t{4} << 20;  // of the file, mapped at a time
constexpr int64_t kPage = 4096;

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

int thread_id() {
  thread_local const int id = static_cast<int>(syscall(SYS_gettid));
  return id;
}

// A file that grows under a window of shared memory. What was appended is in the file even if the process is killed.
class Part {
 public:
  explicit Part(const std::string& path)
      : path_(path), fd_(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (fd_ < 0) throw Error("cannot write {}: {}", path, std::strerror(errno));
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() {
    unmap();
    [[maybe_unused]] const int ignored = ftruncate(fd_, used_);
    close(fd_);
  }

  // False where the disk is full. Its room is allocated first: a write to a mapping without room kills the process.
  bool append(std::string_view line) {
    const auto bytes = static_cast<int64_t>(line.size());
    if (used_ + bytes > window_at_ + window_bytes_ && !map(bytes)) return false;
    std::memcpy(window_ + (used_ - window_at_), line.data(), line.size());
    used_ += bytes;
    return true;
  }
  const std::string& failure() const { return failure_; }

 private:
  bool map(int64_t bytes) {
    unmap();
    window_at_ = used_ / kPage * kPage;
    window_bytes_ = (bytes / kWindow + 1) * kWindow + kPage;
    int error = posix_fallocate(fd_, window_at_, window_bytes_);
    void* memory = error != 0 ? MAP_FAILED
                              : mmap(nullptr, static_cast<size_t>(window_bytes_), PROT_READ | PROT_WRITE, MAP_SHARED,
                                     fd_, window_at_);
    if (memory == MAP_FAILED) {
      if (error == 0) error = errno;
      failure_ = fmt::format("cannot write {}: {}", path_, std::strerror(error));
      window_bytes_ = 0;
      return false;
    }
    window_ = static_cast<char*>(memory);
    return true;
  }
  void unmap() {
    if (window_) munmap(window_, static_cast<size_t>(window_bytes_));
    window_ = nullptr;
  }

  std::string path_, failure_;
  int fd_;
  char* window_ = nullptr;
  int64_t window_at_ = 0, window_bytes_ = 0, used_ = 0;
};

struct Name {
  std::string id;
  NvtxWork work;
};

struct Thread {
  int id;
  std::string name;
};

struct State {
  State() { threads.reserve(1024); }
  std::mutex mutex;
  std::vector<Name> names;
  std::map<std::string, uint32_t> number_of;  // by all that tells names apart
  std::vector<Thread> threads;  // with room: threads are named with their first work, which must not allocate
  std::unique_ptr<Part> part;
  std::vector<bool> written;  // names that the part has
};

// Never destroyed: threads may still end ranges while the program ends.
State& state() {
  static State& instance = *new State;
  return instance;
}

std::atomic<bool> on = false;

// With the lock. A disk that is full ends the recording, not the program.
void append(State& s, const std::string& line) {
  if (!s.part->append(line)) on = false;
}

std::string name_line(uint32_t number, const Name& name) {
  Json line{{"name", number}, {"id", name.id}};
  if (!name.work.category.empty()) line["category"] = name.work.category;
  if (name.work.bytes > 0) line["bytes"] = name.work.bytes;
  if (name.work.flops > 0) line["flops"] = name.work.flops;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string thread_line(int thread, const std::string& name) {
  return Json{{"thread", thread}, {"named", name}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void start(const std::string& path, const std::string& process) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.part = std::make_unique<Part>(path);
  s.written.assign(s.names.size(), false);
  on = true;
  append(s, Json{{"process", process}, {"pid", getpid()}}.dump() + "\n");
  for (const Thread& thread : s.threads) append(s, thread_line(thread.id, thread.name));
  if (on) return;
  const std::string failure = s.part->failure();
  s.part.reset();
  unlink(path.c_str());
  throw std::runtime_error(failure);
}

std::string finish() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.part) return "";
  if (on) append(s, Json{{"finished", true}}.dump() + "\n");
  on = false;
  const std::string failure = s.part->failure();
  s.part.reset();
  return failure;
}

uint32_t register_name(const std::string& id, const NvtxWork& work) {
  const std::string key = fmt::format("{}\n{}\n{}\n{}", id, work.category, work.bytes, work.flops);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto [at, is_new] = s.number_of.try_emplace(key, static_cast<uint32_t>(s.names.size()));
  if (is_new) s.names.push_back({id, work});
  return at->second;
}

bool is_on() { return on.load(std::memory_order_relaxed); }

void begin(uint32_t name) {
  const int64_t ns = now_ns();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!on) return;
  if (name >= s.written.size()) s.written.resize(name + 1, false);
  if (!s.written[name]) {
    s.written[name] = true;
    append(s, name_line(name, s.names[name]));
  }
  append(s, fmt::format("{{\"b\":{},\"t\":{},\"ns\":{}}}\n", name, thread_id(), ns));
}

void end() {
  const int64_t ns = now_ns();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (on) append(s, fmt::format("{{\"e\":{},\"ns\":{}}}\n", thread_id(), ns));
}

void name_thread(const std::string& name) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto known =
      std::find_if(s.threads.begin(), s.threads.end(), [](const Thread& t) { return t.id == thread_id(); });
  if (known != s.threads.end())
    known->name = name;
  else
    s.threads.push_back({thread_id(), name});
  if (on) append(s, thread_line(thread_id(), name));
}

namespace {

struct Open {
  int64_t name, begin_ns;
};

// Reads the parts one after the other and writes events as ranges end.
class TraceWriter {
 public:
  TraceWriter(AtomicFile& file, int64_t origin_ns) : file_(file), origin_ns_(origin_ns) {}

  void add(const std::string& path) {
    std::ifstream lines(path);
    names_.clear();
    open_.clear();
    bool finished = false;
    last_ns_ = origin_ns_;
    for (std::string line; std::getline(lines, line) && !lines.eof();) {  // the last one may be cut
      const Json json = Json::parse(line, nullptr, false);
      if (!json.is_object()) break;  // room behind the end of what a process wrote that was killed
      finished = json.contains("finished");
      take(json);
    }
    if (!finished) incomplete_.push_back(process_);
    for (auto& [thread, stack] : open_)
      while (!stack.empty()) close(thread, stack, last_ns_, true);
  }
  void event(const Json& json) {
    const std::string text = (first_ ? "\n" : ",\n") + json.dump(-1, ' ', false, Json::error_handler_t::replace);
    file_.write(text.data(), text.size());
    first_ = false;
  }
  int64_t ranges() const { return ranges_; }
  const std::vector<std::string>& incomplete() const { return incomplete_; }

 private:
  void take(const Json& json) {
    if (json.contains("process")) {
      pid_ = json.value("pid", 0);
      process_ = json.value("process", "");
      event({{"ph", "M"}, {"name", "process_name"}, {"pid", pid_}, {"args", {{"name", process_}}}});
    } else if (json.contains("thread")) {
      event({{"ph", "M"},
             {"name", "thread_name"},
             {"pid", pid_},
             {"tid", json.value("thread", 0)},
             {"args", {{"name", json.value("named", "")}}}});
    } else if (json.contains("name")) {
      names_[json.value("name", int64_t{0})] = json;
    } else if (json.contains("b")) {
      last_ns_ = json.value("ns", int64_t{0});
      open_[json.value("t", 0)].push_back({json.value("b", int64_t{0}), last_ns_});
    } else if (json.contains("e")) {
      last_ns_ = json.value("ns", int64_t{0});
      const int thread = json.value("e", 0);
      if (std::vector<Open>& stack = open_[thread]; !stack.empty()) close(thread, stack, last_ns_, false);
    }
  }

  void close(int thread, std::vector<Open>& stack, int64_t end_ns, bool unfinished) {
    const Open range = stack.back();
    stack.pop_back();
    const Json& name = names_[range.name];
    const std::string id = name.value("id", "");
    Json arguments{{"id", id}, {"depth", stack.size()}};
    for (const char* number : {"bytes", "flops"})
      if (name.contains(number)) arguments[number] = name[number];
    if (unfinished) arguments["unfinished"] = "its process ended first";
    event({{"ph", "X"},
           {"pid", pid_},
           {"tid", thread},
           {"ts", microseconds(range.begin_ns - origin_ns_)},
           {"dur", microseconds(end_ns - range.begin_ns)},
           {"name", nvtx_name(id)},
           {"cat", name.value("category", "none")},
           {"args", arguments}});
    ++ranges_;
  }
  static double microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

  AtomicFile& file_;
  int64_t origin_ns_;
  bool first_ = true;
  int64_t ranges_ = 0, last_ns_ = 0;
  int pid_ = 0;
  std::string process_;
  std::map<int64_t, Json> names_;
  std::map<int, std::vector<Open>> open_;
  std::vector<std::string> incomplete_;
};

// When the first range of a part began.
std::optional<int64_t> begin_of(const std::string& path) {
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line) && !lines.eof();)
    if (line.starts_with("{\"b\"")) {
      const Json json = Json::parse(line, nullptr, false);
      if (json.is_object()) return json.value("ns", int64_t{0});
    }
  return {};
}

}  // namespace

int64_t write_trace(const std::vector<std::string>& parts, const std::string& path,
                    const std::vector<std::pair<std::string, std::string>>& facts) {
  std::optional<int64_t> origin_ns;
  for (const std::string& part : parts)
    if (const auto ns = begin_of(part)) origin_ns = std::min(origin_ns.value_or(*ns), *ns);
  AtomicFile file(path);
  const auto write = [&](const std::string& text) { file.write(text.data(), text.size()); };
  write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  TraceWriter writer(file, origin_ns.value_or(0));
  for (const std::string& part : parts)
    if (std::ifstream(part)) writer.add(part);
  Json other = Json::object();
  for (const auto& [name, value] : facts) other[name] = value;
  if (!writer.incomplete().empty())
    other["incomplete"] = fmt::format("{}: ended without closing its recording", fmt::join(writer.incomplete(), ", "));
  write("\n],\"otherData\":" + other.dump(-1, ' ', false, Json::error_handler_t::replace) + "}\n");
  if (writer.ranges() > 0) file.commit();
  return writer.ranges();
}

}  // namespace duet::recorder
