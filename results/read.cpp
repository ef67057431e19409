// SPDX-License-Identifier: Apache-2.0
// Run file and journal to types. Unknown members are ignored, known ones are checked.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "core/error.h"
#include "results/json_node.h"
#include "results/older_schemas.h"
#include "results/parse.h"
#include "results/contradictions.h"
#include "results/rules.h"
#include "results/run_file.h"
#include "results/seal.h"

namespace duet::results {
namespace {

// --- one value of each type

void read(const Node& node, bool& value, const Allowed&) { value = node.boolean(); }
void read(const Node& node, int& value, const Allowed& allowed) {
  const int64_t found = node.integer(allowed.rule);
  value = static_cast<int>(found);
  if (value != found) node.fail(fmt::format("{} does not fit into 32 bits", found));
}
void read(const Node& node, int64_t& value, const Allowed& allowed) { value = node.integer(allowed.rule); }
void read(const Node& node, uint64_t& value, const Allowed&) { value = node.unsigned_integer(); }
void read(const Node& node, double& value, const Allowed& allowed) { value = node.number(allowed.rule); }
void read(const Node& node, std::string& value, const Allowed& allowed) { value = node.text(allowed); }
void read(const Node& node, Value& value, const Allowed&) { value = node.scalar(); }

template <class T>
void read(const Node& node, T& value, const Allowed& allowed);
template <class T>
void read(const Node& node, std::vector<T>& list, const Allowed& allowed) {
  for (const Node& item : node.items()) read(item, list.emplace_back(), allowed);
}
void read(const Node& node, std::vector<Job>& jobs, const Allowed& allowed) {
  std::set<std::string> names;
  for (const Node& item : node.items()) {
    read(item, jobs.emplace_back(), allowed);
    if (!names.insert(jobs.back().name).second)
      item.at("name").fail(fmt::format("\"{}\" occurs twice: job names are unique", jobs.back().name));
  }
}
template <class T>
void read(const Node& node, std::vector<std::pair<std::string, T>>& list, const Allowed& allowed) {
  for (const auto& [key, member] : node.members()) {
    list.emplace_back(key, T{});
    read(member, list.back().second, allowed);
  }
}

class Reader {
 public:
  explicit Reader(const Node& object) : object_(object) {}
  template <class T>
  void operator()(const char* name, T& value, const Allowed& allowed, const char*) const {
    read(object_.at(name), value, allowed);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value, const Allowed& allowed, const char*) const {
    if (const auto node = object_.find(name)) read(*node, value.emplace(), allowed);
  }

 private:
  Node object_;
};

template <class T>
void read(const Node& node, T& value, const Allowed&) {
  if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(node.one_of(names_of(T{})));
  } else {
    visit_members(value, Reader(node));
    if (const auto found = contradiction(value)) node.at(found->member.c_str()).fail(found->problem);
  }
}

// --- the document

Run read_run(const std::string& path, Json& root) {
  const JsonSource source{path, root};
  const Node document(source);
  const auto duet = document.find("duet");
  if (!duet) document.fail("member 'duet' is missing: not a run file (bench_all --json writes one)");
  const int64_t schema = duet->at("schema").integer(Allow::at_least_one);
  if (schema > kSchema)
    duet->at("schema").fail(fmt::format("{} is newer than the {} that this program reads", schema, kSchema));
  if (schema <= 1) upgrade_from_schema_1(root);
  if (schema <= 2) upgrade_from_schema_2(root);

  Run run;
  run.file = path;
  read(document.at("context"), run.context, Allow::any);
  document.at("benchmarks").items();
  visit_members(run, Reader(document.at("duet")));
  if (schema == 1)
    for (Job& job : run.jobs) set_verdict(job);
  if (schema <= 2) {
    for (Job& job : run.jobs) set_trust(job);
    decide_trust(run);
  }
  return run;
}

std::string read_text(const std::string& path) {
  // A pipe could be waited for, and a device read, for ever.
  if (std::error_code error; std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    throw Error("{}: is not a regular file", path);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw Error("{}: cannot be opened", path);
  std::string text;
  if (const auto size = file.tellg(); size > 0) text.reserve(static_cast<size_t>(size) + kParsePadding);
  file.seekg(0);
  std::vector<char> part(size_t{1} << 20);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0)
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  if (file.bad()) throw Error("{}: cannot be read", path);
  return text;
}

// --- the journal

// The head stands there twice, so that one of them may be damaged. None: the text is no journal's.
std::optional<Json> parse_journal_head(const std::string& path, const std::string& text) {
  constexpr int kMaxLines = 5;  // head, empty line, head; and damage that splits a line
  size_t begin = 0;
  for (int number = 0; begin < text.size() && number < kMaxLines; ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find("\"duet_journal\"") == std::string::npos) continue;
    refuse_deep_nesting(path, line);
    Json head = Json::parse(line, nullptr, false);
    if (head.is_object() && head.contains("duet_journal") && (is_intact(line) || !has_seal(line))) return head;
  }
  return {};
}

// Appends what each further line holds to the lists of the document; schema 1 had lines with steps, too. A line counts
// once it ends with a newline: what follows the last one was cut by a crash.
void append_lines(const std::string& path, const std::string& text, bool has_checksums, Json& document,
                  JournalContent& content) {
  static constexpr std::pair<const char*, const char*> kLists[] = {{"job", "jobs"}, {"step", "steps"}};
  std::map<std::string, size_t>
      place_of;  // a crash between two jobs of a case has it measured again: the later line counts
  size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      content.cut = true;
      return;
    }
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    content.whole_bytes = static_cast<int64_t>(begin);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (has_checksums && !is_intact(line)) {
      ++content.damaged;
      continue;
    }
    const std::string where = fmt::format("{}, line {}", path, number);
    const Json entry = parse_json(where, line);
    if (entry.is_object() && entry.contains("duet_journal")) continue;  // a head
    const JsonSource source{where, entry};
    for (const auto& [key, list] : kLists) {
      const auto node = Node(source).find(key);
      if (!node) continue;
      Json& all = document["duet"][list];
      const std::string name = node->at(list == std::string_view("jobs") ? "name" : "job").text();
      const auto [place, is_new] = place_of.try_emplace(fmt::format("{} {}", list, name), all.size());
      if (is_new)
        all.push_back(entry[key]);
      else
        all[place->second] = entry[key];
    }
  }
}

JournalContent read_journal(const std::string& path, const std::string& text, Json& head) {
  const JsonSource source{path, head};
  const Node node(source);
  const int64_t version = node.at("duet_journal").integer(Allow::at_least_one);
  if (version > kJournalVersion)
    node.at("duet_journal")
        .fail(fmt::format("{} is newer than the {} that this program reads", version, kJournalVersion));
  node.at("document").at("duet").at("jobs").items();
  if (const auto steps = node.at("document").at("duet").find("steps")) steps->items();
  JournalContent content;
  Json& document = head["document"];
  append_lines(path, text, version > 1, document, content);
  content.run = read_run(path, document);
  content.run.invocation.complete = false;
  return content;
}

}  // namespace

JournalContent load_journal(const std::string& path) {
  const std::string text = read_text(path);
  if (text.find('\n') == std::string::npos) throw Error("{}: is empty: it has no whole line", path);
  if (auto head = parse_journal_head(path, text)) return read_journal(path, text, *head);
  throw Error("{}: is not a journal of bench_all", path);
}

std::optional<Run> load_run(const std::string& path, Json& other) {
  const std::string text = read_text(path);
  if (auto head = parse_journal_head(path, text)) {
    JournalContent journal = read_journal(path, text, *head);
    auto& warnings = journal.run.invocation.warnings;
    warnings.push_back(fmt::format("journal of an unfinished run: {} jobs had finished", journal.run.jobs.size()));
    if (journal.cut) warnings.push_back("the journal's last line is cut and was ignored");
    if (journal.damaged > 0)
      warnings.push_back(fmt::format("{} damaged line{} of the journal {} ignored", journal.damaged,
                                     journal.damaged == 1 ? "" : "s", journal.damaged == 1 ? "was" : "were"));
    return std::move(journal.run);
  }
  Json root = parse_json(path, text, "benchmarks");  // those are a view of the jobs, for other tools
  if (root.is_object() && !root.contains("duet")) {
    other = std::move(root);
    return {};
  }
  return read_run(path, root);
}

Run load_run(const std::string& path) {
  Json other;
  if (auto run = load_run(path, other)) return *std::move(run);
  throw Error("{}: member 'duet' is missing: not a run file (bench_all --json writes one)", path);
}

}  // namespace duet::results
