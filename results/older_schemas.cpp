// SPDX-License-Identifier: Apache-2.0
#include "results/older_schemas.h"

#include <nlohmann/json.hpp>

namespace duet::results {
namespace {

using Json = nlohmann::ordered_json;

Json* find(Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// The elements of a member, where it is an array.
template <class F>
void each(Json& object, const char* key, const F& change) {
  Json* list = find(object, key);
  if (!list || !list->is_array()) return;
  for (Json& item : *list) change(item);
}

void rename(Json& object, const char* from, const char* to) {
  Json* value = find(object, from);
  if (!value || find(object, to)) return;
  object[to] = Json(*value);
  object.erase(from);
}

void add(Json& object, const char* key, Json value) {
  if (object.is_object() && !object.contains(key)) object[key] = std::move(value);
}

bool is_ok(Json& job) {  // a status of another type is refused when the job is read
  const Json* status = find(job, "status");
  return status && status->is_string() && *status == "ok";
}

void upgrade_job(Json& job) {
  const bool ok = is_ok(job);
  add(job, "comparable", false);
  if (ok) add(job, "reason", "schema 1 holds no verdict");
  for (const char* text : {"family", "formula", "why", "pattern", "repro"}) add(job, text, "");
  add(job, "footprint_bytes", 0);
  each(job, "series", [](Json& series) {
    add(series, "first_call_s", 0.0);
    add(series, "flags", Json::array());
    each(series, "repetitions", [](Json& repetition) { rename(repetition, "foreign_cpu", "foreign_cores"); });
  });
}

// Into the job that they belong to.
void move_steps(Json& duet) {
  each(duet, "steps", [&](Json& step) {
    rename(step, "parts_s", "nodes_s");
    rename(step, "memory_peak", "peak_memory_bytes");
    const Json* name = find(step, "job");
    each(duet, "jobs", [&](Json& job) {
      const Json* own = find(job, "name");
      if (name && own && *own == *name && is_ok(job)) job["step"] = step;
    });
  });
}

}  // namespace

void upgrade_from_schema_1(Json& document) {
  Json* duet = find(document, "duet");
  if (!duet) return;
  each(*duet, "jobs", upgrade_job);
  move_steps(*duet);
  each(*duet, "sweeps", [](Json& sweep) {
    each(sweep, "points", [](Json& point) {
      for (const char* side : {"cpu_impl", "gpu_impl"})
        if (Json* impl = find(point, side); impl && impl->is_null()) *impl = "";
    });
  });
  add(*duet, "sweeps", Json::array());
  if (Json* run = find(*duet, "run")) add(*run, "no_gpu", "");
  if (Json* build = find(*duet, "build"))
    if (Json* cuda = find(*build, "cuda"); cuda && *cuda == "none") *cuda = "";
  if (Json* state = find(*duet, "state"))
    if (Json* quota = find(*state, "cpu_quota"); quota && quota->is_number())
      rename(*state, "cpu_quota", "cpu_quota_cores");
}

void upgrade_from_schema_2(Json& document) {
  Json* duet = find(document, "duet");
  if (!duet) return;
  each(*duet, "jobs", [](Json& job) {
    const Json* comparable = find(job, "comparable");
    const bool usable = comparable && comparable->is_boolean() && comparable->get<bool>();
    add(job, "trust", usable ? "trustworthy" : "unusable for ratios");
    if (Json* check = find(job, "check")) add(*check, "coverage", "sampled");
    each(job, "series", [](Json& series) {
      if (Json* roof = find(series, "roof")) {
        if (const Json* fraction = find(*roof, "fraction")) {
          const Json value = *fraction;
          add(*roof, "lo", value);
          add(*roof, "hi", value);
        }
        add(*roof, "interval", "one value: none");
        add(*roof, "source", "run");
        add(*roof, "quiet", false);
      }
      each(series, "repetitions", [](Json& repetition) {
        add(repetition, "process", 0);
        add(repetition, "roof_s", Json::array());
        add(repetition, "wall_s", 0.0);
        add(repetition, "steal_share", 0.0);
      });
    });
  });
  if (Json* run = find(*duet, "run")) {
    add(*run, "processes", 1);
    add(*run, "trust", "trustworthy");
    add(*run, "doubts", Json::array());
    if (Json* selection = find(*run, "selection")) {
      add(*selection, "cases", Json::array());
      add(*selection, "exclude", "");
    }
    if (Json* state = find(*duet, "state"))
      if (const Json* threads = find(*run, "threads")) add(*state, "usable_threads", *threads);
  }
}

}  // namespace duet::results
