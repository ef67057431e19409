// SPDX-License-Identifier: Apache-2.0
#include "reports/history/json_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "results/json_node.h"

namespace duet::history {
namespace {

using results::Allow;
using results::Json;
using results::JsonSource;
using results::Node;

constexpr int kMaxDepth = 16;

Json parse(const std::string& where, std::string_view text) {
  bool deep = false;
  try {
    Json json = Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
      deep = deep || depth > kMaxDepth;
      return !deep;  // what is too deep is dropped while it is read
    });
    if (!deep) return json;
  } catch (const Json::exception&) {
    throw Error("{}: is not JSON, or was cut", where);
  }
  throw Error("{}: nested deeper than {} levels", where, kMaxDepth);
}

// --- to JSON

Json facts_object(const Facts& facts) {
  Json object = Json::object();
  for (const auto& [name, value] : facts) object[name] = value;
  return object;
}

Json name_object(const RunName& name) {
  return {{"fingerprint", name.fingerprint}, {"host", name.host}, {"id", name.id}};
}

Json to_json(const Head&) { return {{"duet_history", kLinesVersion}}; }

Json to_json(const MachineInfo& m) {
  return {{"machine", {{"fingerprint", m.fingerprint}, {"facts", facts_object(m.facts)}}}};
}

Json to_json(const SeriesInfo& s) {
  return {{"series",
           {{"key", s.key},
            {"case", s.case_name},
            {"family", s.family},
            {"op", s.op},
            {"impl", s.impl},
            {"device", s.device},
            {"dtype", s.dtype},
            {"scope", s.scope},
            {"cache", s.cache},
            {"threads", s.threads},
            {"params", Json::parse(s.params_json)},
            {"flops", s.flops},
            {"bytes", s.bytes}}}};
}

Json to_json(const RunRecord& r) {
  Json run = name_object(r.info.name);
  run["started_at"] = r.info.started_at;
  run["git_sha"] = r.info.git_sha;
  run["dirty"] = r.info.dirty;
  run["branch"] = r.info.branch;
  run["commit_time"] = r.info.commit_time;
  run["reason"] = r.info.reason;
  run["trust"] = r.info.trust;
  run["environment"] = facts_object(r.info.environment);
  run["gpu_clock_mhz"] = r.info.gpu_clock_mhz ? Json(*r.info.gpu_clock_mhz) : Json();
  run["confirms"] = r.info.confirms ? name_object(*r.info.confirms) : Json();
  run["valid"] = r.info.valid;
  run["note"] = r.info.note;
  run["results"] = Json::array();
  for (const Measurement& m : r.measurements)
    run["results"].push_back({{"key", m.key},
                              {"median_s", m.median_s},
                              {"lo_s", m.lo_s},
                              {"hi_s", m.hi_s},
                              {"min_s", m.min_s},
                              {"medians_s", m.medians_s},
                              {"disturbed", m.disturbed}});
  run["failures"] = Json::array();
  for (const Failure& f : r.failures) run["failures"].push_back({{"job", f.job}, {"reason", f.reason}});
  return {{"run", std::move(run)}};
}

Json to_json(const Mark& m) {
  Json mark{{"key", m.key}};
  mark.update(name_object(m.run));
  mark["note"] = m.note;
  return {{"mark", std::move(mark)}};
}

// --- from JSON

Facts read_facts(const Node& node) {
  Facts facts;
  for (const auto& [name, value] : node.members()) facts.emplace_back(name, value.text());
  return facts;
}

RunName read_name(const Node& node) {
  return {node.at("fingerprint").text(Allow::not_empty), node.at("host").text(), node.at("id").text(Allow::not_empty)};
}

MachineInfo read_machine(const Node& node) {
  return {node.at("fingerprint").text(Allow::not_empty), read_facts(node.at("facts"))};
}

SeriesInfo read_series(const Node& node) {
  SeriesInfo s;
  s.key = node.at("key").text(Allow::not_empty);
  s.case_name = node.at("case").text();
  s.family = node.at("family").text();
  s.op = node.at("op").text();
  s.impl = node.at("impl").text();
  s.device = node.at("device").text(results::kDeviceNames);
  s.dtype = node.at("dtype").text();
  s.scope = node.at("scope").text();
  s.cache = node.at("cache").text();
  s.threads = node.at("threads").integer(Allow::at_least_one);
  for (const auto& [name, value] : node.at("params").members()) value.scalar();
  s.params_json = node.at("params").json().dump();
  s.flops = node.at("flops").number(Allow::not_negative);
  s.bytes = node.at("bytes").integer(Allow::not_negative);
  return s;
}

std::vector<double> read_times(const Node& node) {
  std::vector<double> times_s;
  for (const Node& item : node.items()) times_s.push_back(item.number(Allow::positive));
  return times_s;
}

Measurement read_measurement(const Node& node) {
  return {.key = node.at("key").text(Allow::not_empty),
          .median_s = node.at("median_s").number(Allow::positive),
          .lo_s = node.at("lo_s").number(Allow::positive),
          .hi_s = node.at("hi_s").number(Allow::positive),
          .min_s = node.at("min_s").number(Allow::positive),
          .medians_s = read_times(node.at("medians_s")),
          .disturbed = node.at("disturbed").boolean()};
}

RunRecord read_run(const std::string& where, const Node& node) {
  RunRecord r;
  r.info.name = read_name(node);
  r.info.started_at = node.at("started_at").text();
  require_utc(where + ": run.started_at", r.info.started_at);
  r.info.git_sha = node.at("git_sha").text();
  r.info.dirty = node.at("dirty").boolean();
  r.info.branch = node.at("branch").text();
  r.info.commit_time = node.at("commit_time").text();
  r.info.reason = node.at("reason").text(kReasons);
  r.info.trust = node.at("trust").text();
  r.info.environment = read_facts(node.at("environment"));
  if (const auto clock = node.find("gpu_clock_mhz")) r.info.gpu_clock_mhz = clock->number(Allow::positive);
  if (const auto confirmed = node.find("confirms")) r.info.confirms = read_name(*confirmed);
  r.info.valid = node.at("valid").boolean();
  r.info.note = node.at("note").text();
  for (const Node& item : node.at("results").items()) {
    r.measurements.push_back(read_measurement(item));
    const size_t count = r.measurements.size();
    if (count > 1 && !(r.measurements[count - 2].key < r.measurements[count - 1].key))
      item.at("key").fail("keys are unique and sorted, and this one is not");
  }
  for (const Node& item : node.at("failures").items())
    r.failures.push_back({item.at("job").text(Allow::not_empty), item.at("reason").text()});
  return r;
}

}  // namespace

std::string line_text(const Line& line) {
  return std::visit([](const auto& held) { return to_json(held).dump() + "\n"; }, line);
}

Line parse_line(const std::string& where, std::string_view text) {
  const Json json = parse(where, text);
  const JsonSource source{where, json};
  const Node node(source);
  if (const auto version = node.find("duet_history")) {
    const int64_t found = version->integer(Allow::at_least_one);
    if (found > kLinesVersion)
      version->fail(fmt::format("{} is newer than the {} that this program reads", found, kLinesVersion));
    return Head{};
  }
  if (const auto machine = node.find("machine")) return read_machine(*machine);
  if (const auto series = node.find("series")) return read_series(*series);
  if (const auto run = node.find("run")) return read_run(where, *run);
  if (const auto mark = node.find("mark"))
    return Mark{mark->at("key").text(Allow::not_empty), read_name(*mark), mark->at("note").text()};
  node.fail("has none of the members machine, series, run and mark");
}

bool is_export(std::string_view text) {
  const Json head = Json::parse(text.substr(0, text.find('\n')), nullptr, false);
  return head.is_object() && head.contains("duet_history");
}

std::string facts_json(const Facts& facts) { return facts_object(facts).dump(); }

Facts facts_from_json(const std::string& where, const std::string& text) {
  const Json json = parse(where, text);
  return read_facts(Node(JsonSource{where, json}));
}

std::string times_json(const std::vector<double>& times_s) { return Json(times_s).dump(); }

std::vector<double> times_from_json(const std::string& where, const std::string& text) {
  const Json json = parse(where, text);
  const JsonSource source{where, json};
  return read_times(Node(source));
}

}  // namespace duet::history
