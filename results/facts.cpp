// SPDX-License-Identifier: Apache-2.0
#include "results/facts.h"

#include <fmt/format.h>

namespace duet::results {
namespace {

constexpr size_t kMaxText = 400;  // characters; longer lists are cut

std::string text_of(bool value) { return value ? "yes" : "no"; }
std::string text_of(int64_t value) { return fmt::format("{}", value); }
std::string text_of(uint64_t value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{:.10g}", value); }
std::string text_of(const std::string& value) { return value; }
template <class Enum>
requires std::is_enum_v<Enum> std::string text_of(Enum value) { return name_of(value); }

std::string shortened(std::string text) {
  if (text.size() <= kMaxText) return text;
  text.resize(kMaxText);
  while (!text.empty() && (text.back() & 0xC0) == 0x80) text.pop_back();  // no half of a UTF-8 character
  if (!text.empty() && (text.back() & 0x80)) text.pop_back();
  return text + "...";
}

class Collector {
 public:
  explicit Collector(std::string prefix, Facts& facts) : prefix_(std::move(prefix)), facts_(facts) {}

  template <class T>
  void operator()(const char* name, const T& value, const Allowed&, const char*) {
    add(prefix_ + name, value);
  }

 private:
  template <class T>
  void add(const std::string& name, const T& value) {
    if constexpr (requires { text_of(value); }) {
      const std::string text = shortened(text_of(value));
      facts_.emplace_back(name, text.empty() ? "none" : text);
    } else {
      visit_members(value, Collector(name + ".", facts_));
    }
  }
  template <class T>
  void add(const std::string& name, const std::optional<T>& value) {
    if (value)
      add(name, *value);
    else
      facts_.emplace_back(name, "none");
  }
  template <class T>
  void add(const std::string& name, const std::vector<T>& list) {
    if constexpr (requires(const T& item) { text_of(item); }) {
      std::string text;
      for (const T& item : list) text += (text.empty() ? "" : " ") + text_of(item);
      add(name, text);
    } else {
      if (list.empty()) facts_.emplace_back(name, "none");
      for (size_t i = 0; i < list.size(); ++i) add(fmt::format("{}[{}]", name, i), list[i]);
    }
  }
  template <class T>
  void add(const std::string& name, const std::vector<std::pair<std::string, T>>& members) {
    for (const auto& [key, value] : members) add(name + "." + key, value);
  }

  std::string prefix_;
  Facts& facts_;
};

template <class T>
Facts collect(const T& value) {
  Facts facts;
  visit_members(value, Collector("", facts));
  return facts;
}

}  // namespace

Facts facts_of(const BenchmarkContext& context) { return collect(context); }
Facts facts_of(const Invocation& invocation) { return collect(invocation); }
Facts facts_of(const Selection& selection) { return collect(selection); }
Facts facts_of(const Build& build) { return collect(build); }
Facts facts_of(const Machine& machine) { return collect(machine); }
Facts facts_of(const State& state) { return collect(state); }

Facts timed_facts_of(const Build& build) {
  Facts facts = facts_of(build);
  std::erase_if(facts, [](const auto& fact) {
    for (const char* name : {"git_sha", "git_dirty", "built_at", "libraries.nlohmann-json", "libraries.simdjson",
                             "libraries.CLI11", "libraries.SQLite", "libraries.GoogleTest"})
      if (fact.first == name) return true;
    return false;
  });
  return facts;
}

std::string row_name(const Job& job, const Series& series) {
  return fmt::format("{}/{}/{}/threads:{}", job.name, name_of(series.scope), name_of(series.cache), series.threads);
}

std::string text_of(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "1" : "0";
  return std::visit([](const auto& v) { return text_of(v); }, value);
}

}  // namespace duet::results
