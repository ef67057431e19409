// SPDX-License-Identifier: Apache-2.0
// results/run.schema.json against the member lists that it is made of. DUET_UPDATE_SCHEMA=1 writes it anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/results/fixture.h"

namespace duet::results::testing {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json schema_of(const T* type, const Allowed& allowed);
template <class T>
Json schema_of(const std::vector<std::pair<std::string, T>>*, const Allowed& allowed);

Json schema_of(const bool*, const Allowed&) { return {{"type", "boolean"}}; }
Json schema_of(const double*, const Allowed& allowed) {
  Json schema{{"type", "number"}};
  if (allowed.rule == Allow::not_negative) schema["minimum"] = 0;
  if (allowed.rule == Allow::positive) schema["exclusiveMinimum"] = 0;
  return schema;
}
Json integer_schema(const Allowed& allowed) {
  Json schema{{"type", "integer"}};
  if (allowed.rule == Allow::not_negative) schema["minimum"] = 0;
  if (allowed.rule == Allow::at_least_one) schema["minimum"] = 1;
  return schema;
}
Json schema_of(const int*, const Allowed& allowed) { return integer_schema(allowed); }
Json schema_of(const int64_t*, const Allowed& allowed) { return integer_schema(allowed); }
Json schema_of(const uint64_t*, const Allowed&) { return integer_schema(Allow::not_negative); }
Json schema_of(const std::string*, const Allowed& allowed) {
  if (!allowed.values.empty())
    return {{"enum", std::vector<std::string>(allowed.values.begin(), allowed.values.end())}};
  Json schema{{"type", "string"}};
  if (allowed.rule == Allow::not_empty) schema["minLength"] = 1;
  return schema;
}
Json schema_of(const Value*, const Allowed&) { return {{"type", {"integer", "number", "string", "boolean"}}}; }
template <class T>
Json schema_of(const std::optional<T>*, const Allowed& allowed) {
  return {{"anyOf", {{{"type", "null"}}, schema_of(static_cast<const T*>(nullptr), allowed)}}};
}
template <class T>
Json schema_of(const std::vector<T>*, const Allowed& allowed) {
  return {{"type", "array"}, {"items", schema_of(static_cast<const T*>(nullptr), allowed)}};
}
template <class T>
Json schema_of(const std::vector<std::pair<std::string, T>>*, const Allowed& allowed) {
  return {{"type", "object"}, {"additionalProperties", schema_of(static_cast<const T*>(nullptr), allowed)}};
}
template <class T>
Json schema_of(const T*, const Allowed&) {
  if constexpr (std::is_enum_v<T>) {
    const auto names = names_of(T{});
    return {{"enum", std::vector<std::string>(names.begin(), names.end())}};
  } else {
    Json required = Json::array(), properties = Json::object();
    const T value;
    visit_members(value, [&](const char* name, const auto& member, const Allowed& allowed, const char* meaning) {
      Json schema = schema_of(&member, allowed);
      if (*meaning) schema["description"] = meaning;
      properties[name] = std::move(schema);
      required.push_back(name);
    });
    return {{"type", "object"}, {"required", required}, {"properties", properties}};
  }
}

Json schema() {
  Json duet = schema_of(static_cast<const Run*>(nullptr), Allow::any);
  duet["required"].insert(duet["required"].begin(), "schema");
  duet["properties"]["schema"] = {{"const", kSchema}};
  const Json row{
      {"type", "object"},
      {"required",
       {"name", "run_name", "run_type", "repetitions", "threads", "iterations", "real_time", "cpu_time", "time_unit"}},
      {"properties", {{"run_type", {{"enum", {"iteration", "aggregate"}}}}, {"time_unit", {{"enum", {"ns"}}}}}}};
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "A run of bench_all: Google Benchmark's document plus the member 'duet'"},
          {"description",
           "Made from the member lists of results/run.h. Further members are ignored by readers. Times are seconds, "
           "rates per second. All numbers are finite. results/rules.h lists what else is refused as contradictory."},
          {"type", "object"},
          {"required", {"context", "benchmarks", "duet"}},
          {"properties",
           {{"context", schema_of(static_cast<const BenchmarkContext*>(nullptr), Allow::any)},
            {"benchmarks",
             {{"type", "array"},
              {"description",
               "A view of duet.jobs for Google Benchmark's tools: one row a repetition and a median; none for a job "
               "without a time. label: of a job that is not comparable, why."},
              {"items", row}}},
            {"duet", duet}}}};
}

TEST(Schema, IsThatOfTheMemberLists) {
  const fs::path path = fs::path(DUET_SOURCE_DIR) / "results/run.schema.json";
  const std::string wanted = schema().dump(1) + "\n";
  if (std::getenv("DUET_UPDATE_SCHEMA")) std::ofstream(path) << wanted;
  EXPECT_EQ(read(path), wanted) << "DUET_UPDATE_SCHEMA=1 duet_results_tests --gtest_filter='Schema.*' writes it anew";
}

}  // namespace
}  // namespace duet::results::testing
