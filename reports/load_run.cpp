// SPDX-License-Identifier: Apache-2.0
// Run file and journal to structs. Unknown members are ignored, known ones are checked.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "reports/json_node.h"
#include "reports/run.h"

namespace duet::reports {
namespace {

Device read_device(const Node& node) { return node.one_of<Device>({{"cpu", Device::cpu}, {"gpu", Device::gpu}}); }

std::vector<std::string> read_texts(const std::optional<Node>& list) {
  std::vector<std::string> texts;
  if (list)
    for (const Node& item : list->items()) texts.push_back(item.text());
  return texts;
}

Facts read_facts(const std::optional<Node>& object) {
  Facts facts;
  if (object)
    for (const auto& [key, value] : object->members()) facts.emplace_back(key, as_fact(value.json()));
  return facts;
}

// {"a": {"b": 1}} becomes "a.b": "1".
void flatten(const Node& node, const std::string& prefix, int depth, Facts& facts) {
  for (const auto& [key, value] : node.members()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (value.json().is_object() && depth > 0 && !value.json().empty())
      flatten(value, name, depth - 1, facts);
    else
      facts.emplace_back(name, as_fact(value.json()));
  }
}

Repetition read_repetition(const Node& node) {
  Repetition repetition;
  const std::vector<Node> samples = node.at("samples_s").items();
  if (samples.empty()) node.at("samples_s").fail("an empty array is not allowed");
  for (const Node& sample : samples) repetition.samples_s.push_back(sample.positive());
  repetition.foreign_cpu = node.number_if("foreign_cpu").value_or(0);
  repetition.flags = read_texts(node.find("flags"));
  return repetition;
}

std::optional<Roof> read_roof(const Node& node) {
  if (node.is_null()) return {};
  Roof roof;
  roof.bound = node.at("bound").one_of<Bound>({{"memory", Bound::memory}, {"compute", Bound::compute}});
  roof.ceiling = node.at("ceiling").non_empty_text();
  roof.value = node.number_if("value");
  roof.fraction = node.at("fraction").positive();
  return roof;
}

Series read_series(const Node& node) {
  Series series;
  series.scope = node.at("scope").one_of<Scope>(
      {{"kernel", Scope::kernel}, {"call", Scope::call}, {"end_to_end", Scope::end_to_end}});
  series.cache =
      node.at("cache").one_of<Cache>({{"warm", Cache::warm}, {"cold", Cache::cold}, {"rotating", Cache::rotating}});
  series.threads = node.at("threads").integer(1);
  series.batch = node.at("batch").integer(1);
  series.iterations = node.at("iterations").integer(1);
  for (const Node& item : node.at("repetitions").items()) series.repetitions.push_back(read_repetition(item));
  if (series.repetitions.empty()) node.at("repetitions").fail("an empty array is not allowed");
  const Node summary = node.at("summary");
  series.summary = {.median_s = summary.at("median_s").positive(),
                    .lo_s = summary.at("lo_s").positive(),
                    .hi_s = summary.at("hi_s").positive(),
                    .min_s = summary.at("min_s").positive(),
                    .interval = summary.at("interval").text()};
  series.first_call_s = node.number_if("first_call_s");
  series.roof = read_roof(node.at("roof"));
  series.flags = read_texts(node.find("flags"));
  return series;
}

std::optional<Check> read_check(const Node& node) {
  if (node.is_null() || node.object().json().empty()) return {};
  return Check{.max_error_ratio = node.number_if("max_error_ratio"),
               .slices = node.integer_if("slices"),
               .elements = node.integer_if("elements")};
}

PlanFacts read_plan(const std::optional<Node>& node) {
  if (!node) return {};
  return {.isa = node->text_or("isa"),
          .algorithm = node->text_or("algorithm"),
          .threads = node->integer_if("threads"),
          .workspace_bytes = node->number_if("workspace_bytes"),
          .create_s = node->number_if("create_s"),
          .first_call_s = node->number_if("first_call_s")};
}

Job read_job(const Node& node) {
  Job job;
  job.name = node.at("name").non_empty_text();
  job.op = node.at("op").non_empty_text();
  job.case_name = node.at("case").non_empty_text();
  job.impl = node.at("impl").non_empty_text();
  job.device = read_device(node.at("device"));
  job.dtype = node.at("dtype").text();
  job.family = node.text_or("family");
  job.formula = node.text_or("formula");
  job.params = read_facts(node.at("params").object());
  job.flops = node.at("flops").not_negative();
  job.bytes = node.at("bytes").not_negative();
  job.footprint_bytes = node.number_if("footprint_bytes");
  job.status =
      node.at("status").one_of<Status>({{"ok", Status::ok}, {"skipped", Status::skipped}, {"failed", Status::failed}});
  job.check = read_check(node.at("check"));
  job.plan = read_plan(node.find("plan"));
  for (const Node& item : node.at("series").items()) job.series.push_back(read_series(item));
  if (job.status == Status::ok) {
    if (job.series.empty()) node.at("series").fail("a job that is ok has at least one series");
  } else {
    job.reason = node.at("reason").non_empty_text();
    if (!job.series.empty()) node.at("series").fail(fmt::format("a {} job has no series", to_text(job.status)));
  }
  return job;
}

Ceiling read_ceiling(const Node& node) {
  Ceiling ceiling;
  ceiling.name = node.at("name").non_empty_text();
  ceiling.device = read_device(node.at("device"));
  ceiling.dtype = node.text_or("dtype");
  ceiling.pattern = node.text_or("pattern");
  ceiling.threads = node.integer_if("threads");
  ceiling.footprint_bytes = node.number_if("footprint_bytes");
  ceiling.value = node.at("value").positive();
  ceiling.unit =
      node.at("unit").one_of<const char*>({{"B/s", "B/s"}, {"FLOP/s", "FLOP/s"}, {"OP/s", "OP/s"}, {"s", "s"}});
  return ceiling;
}

Amounts read_amounts(const Node& node) {
  Amounts amounts;
  for (const auto& [key, value] : node.members()) amounts.emplace_back(key, value.not_negative());
  return amounts;
}

Step read_step(const Node& node) {
  Step step;
  step.job = node.at("job").non_empty_text();
  step.model = node.text_or("model", step.job);
  step.step_s = node.number_if("step_s");
  step.residual_s = node.at("residual_s").number();  // negative where the step overlaps its parts
  step.memory_peak_bytes = node.number_if("memory_peak");
  step.samples = node.number_if("samples");
  step.tokens = node.number_if("tokens");
  step.phases_s = read_amounts(node.at("phases_s"));
  step.parts_s = read_amounts(node.at("parts_s"));
  step.implementations = read_facts(node.at("implementations").object());
  return step;
}

std::optional<double> read_time(const Node& node, const char* key) {
  const auto found = node.find(key);
  return found ? std::optional(found->positive()) : std::nullopt;
}

Sweep read_sweep(const Node& node) {
  Sweep sweep;
  sweep.op = node.at("op").non_empty_text();
  sweep.size_name = node.text_or("size_name", "size");
  sweep.dtype = node.text_or("dtype");
  sweep.fixed = read_facts(node.find("fixed"));
  for (const Node& item : node.at("points").items())
    sweep.points.push_back({.size = item.at("size").positive(),
                            .cpu_s = read_time(item, "cpu_s"),
                            .gpu_call_s = read_time(item, "gpu_call_s"),
                            .gpu_end_to_end_s = read_time(item, "gpu_end_to_end_s"),
                            .cpu_impl = item.text_or("cpu_impl"),
                            .gpu_impl = item.text_or("gpu_impl")});
  std::stable_sort(sweep.points.begin(), sweep.points.end(),
                   [](const SweepPoint& a, const SweepPoint& b) { return a.size < b.size; });
  return sweep;
}

void read_machine(const Node& duet, Run& run) {
  const Node build = duet.at("build"), machine = duet.at("machine"), state = duet.at("state").object();
  run.git_sha = build.at("git_sha").text();
  run.git_dirty = build.at("git_dirty").boolean();
  run.build_type = build.at("type").text();
  run.compiler = as_fact(build.at("compiler").json());
  run.cuda = build.text_or("cuda");
  if (run.cuda == "none") run.cuda.clear();
  run.libraries = read_facts(build.at("libraries").object());
  const Node cpu = machine.at("cpu").object();
  run.cpu_name = cpu.text_or("name", "unknown CPU");
  run.cpu_cores = cpu.text_or("cores");
  run.cpu_isa = cpu.text_or("isa");
  run.has_gpu = !machine.at("gpu").is_null();
  if (const auto gpu = machine.find("gpu")) {
    run.gpu_name = gpu->text_or("name", "unknown GPU");
    run.gpu_sm = gpu->text_or("sm");
  }
  run.governor = state.text_or("governor");
}

Run read_run(const JsonSource& source) {
  const Node document(source);
  const auto found = document.object().find("duet");
  if (!found) document.fail("member 'duet' is missing: not a run file (bench_all --json writes one)");
  const Node duet = *found;
  if (const int64_t schema = duet.at("schema").integer(1); schema > kSchema)
    duet.at("schema").fail(fmt::format("{} is newer than the {} that this program reads", schema, kSchema));

  Run run;
  run.file = source.file;
  const Node context = document.at("context").object(), about = duet.at("run");
  document.at("benchmarks").items();
  run.id = as_fact(about.at("id").json());
  run.started_at = as_fact(about.at("started_at").json());
  run.complete = about.at("complete").boolean();
  run.note = about.text_or("note");
  run.no_gpu = about.text_or("no_gpu");
  run.warnings = read_texts(about.find("warnings"));
  read_machine(duet, run);
  for (const Node& item : duet.at("ceilings").items()) run.ceilings.push_back(read_ceiling(item));
  std::set<std::string> names;
  for (const Node& item : duet.at("jobs").items()) {
    run.jobs.push_back(read_job(item));
    if (!names.insert(run.jobs.back().name).second)
      item.at("name").fail(fmt::format("\"{}\" stands twice: job names are unique", run.jobs.back().name));
  }
  if (const auto steps = duet.find("steps"))
    for (const Node& item : steps->items()) run.steps.push_back(read_step(item));
  if (const auto sweeps = duet.find("sweeps"))
    for (const Node& item : sweeps->items()) run.sweeps.push_back(read_sweep(item));

  const std::pair<const char*, Node> groups[] = {{"run", about},
                                                 {"machine", duet.at("machine")},
                                                 {"build", duet.at("build")},
                                                 {"state", duet.at("state")},
                                                 {"context", context}};
  for (const auto& [title, node] : groups) flatten(node, "", 3, run.environment.emplace_back(title, Facts{}).second);
  return run;
}

std::string read_text(const std::string& path) {
  if (std::error_code error; std::filesystem::is_directory(path, error))
    throw RunError(path + ": is a directory, not a run file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw RunError(path + ": cannot be opened");
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw RunError(path + ": cannot be read");
  return std::move(text).str();
}

// Copying and printing JSON recurse: a hostile file must not end in a stack overflow.
void refuse_deep_nesting(const std::string& path, const std::string& text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;  // whatever is escaped
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > kDeepest) throw RunError(fmt::format("{}: nested deeper than {} levels", path, kDeepest));
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

// nlohmann's message without its own prefix, on one line.
std::string short_message(const Json::exception& error) {
  std::string text = error.what();
  if (const size_t end = text.find("] "); text.starts_with('[') && end != std::string::npos) text.erase(0, end + 2);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text.size() > 200 ? text.substr(0, 200) + "..." : text;
}

[[noreturn]] void refuse(const std::string& where, const Json::exception& error, size_t length) {
  const auto* parse = dynamic_cast<const Json::parse_error*>(&error);
  const bool cut = parse && parse->byte > length;  // the parser wanted more than there is
  throw RunError(fmt::format("{}: {}: {}", where, cut ? "the file ends too early" : "not JSON", short_message(error)));
}

std::optional<Json> parse_journal_head(const std::string& path, const std::string& line) {
  refuse_deep_nesting(path, line);
  Json head = Json::parse(line, nullptr, false);
  if (!head.is_object() || !head.contains("duet_journal")) return {};
  return head;
}

// Appends what each further line holds; returns whether the last line was cut.
bool append_journal(const std::string& path, const std::string& text, size_t first_line, Json& document) {
  static constexpr std::pair<const char*, const char*> kLists[] = {
      {"job", "jobs"}, {"step", "steps"}, {"sweep", "sweeps"}, {"ceiling", "ceilings"}};
  size_t begin = first_line == std::string::npos ? text.size() : first_line + 1;
  for (int number = 2; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    const bool last = end == std::string::npos;
    const std::string line = text.substr(begin, last ? end : end - begin);
    begin = last ? text.size() : end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    refuse_deep_nesting(fmt::format("{}, line {}", path, number), line);
    try {
      Json entry = Json::parse(line);
      const JsonSource entry_source{fmt::format("{}, line {}", path, number), entry};
      Node(entry_source).object();
      for (const auto& [key, list] : kLists)
        if (const auto found = entry.find(key); found != entry.end()) document["duet"][list].push_back(*found);
    } catch (const Json::exception& error) {
      if (last) return true;
      refuse(fmt::format("{}, line {}", path, number), error, line.size());
    }
  }
  return false;
}

Run read_journal(const std::string& path, const std::string& text, size_t first_line, const Json& head) {
  const JsonSource head_source{path, head};
  const Node node(head_source);
  if (const int64_t version = node.at("duet_journal").integer(1); version > 1)
    node.at("duet_journal").fail(fmt::format("{} is newer than the 1 that this program reads", version));
  node.at("document").at("duet").object();
  for (const char* list : {"jobs", "ceilings"}) node.at("document").at("duet").at(list).items();
  for (const char* list : {"steps", "sweeps"})
    if (const auto found = node.at("document").at("duet").find(list)) found->items();
  JsonSource source{path, head.at("document")};
  const bool cut = append_journal(path, text, first_line, source.root);
  Run run = read_run(source);
  run.complete = false;
  run.warnings.push_back(fmt::format("journal of an unfinished run: {} jobs had finished", run.jobs.size()));
  if (cut) run.warnings.push_back("the journal's last line is cut and was ignored");
  return run;
}

}  // namespace

Run load_run(const std::string& path) {
  const std::string text = read_text(path);
  try {
    const size_t first_line = text.find('\n');
    if (const auto head = parse_journal_head(path, text.substr(0, first_line)))
      return read_journal(path, text, first_line, *head);
    refuse_deep_nesting(path, text);
    return read_run({path, Json::parse(text)});
  } catch (const Json::exception& error) {
    refuse(path, error, text.size());
  }
}

}  // namespace duet::reports
