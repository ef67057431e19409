// SPDX-License-Identifier: Apache-2.0
// Compares ops/catalogue.json, what the suite is to cover, with the registry, and asks Duet's own implementations that
// run here which element types they serve. Used by `duet list --missing`, and so by the test catalogue.coverage.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace duet {

struct Missing {
  std::string op;
  std::string what;    // "op", "implementation cuda.cub", "dtype f16", "dtype f16 of cpu.tuned", "attribute k",
                       // "shape rows:1 cols:7"
  std::string reason;  // of the catalogue's exception; empty: there is none, which is an error
};

extern const char* const duet_catalogue_json;  // ops/catalogue.json, embedded by the build

// In the order of the catalogue, then its exceptions that are not needed. Where an op is missing, nothing else of it is
// listed. Throws Error where the text is no catalogue.
std::vector<Missing> missing_of(std::string_view catalogue);

}  // namespace duet
