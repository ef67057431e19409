// SPDX-License-Identifier: Apache-2.0
#include "core/op_traits.h"

#include <map>

namespace duet {
namespace {
std::map<std::string, OpTraits>& store() {
  static std::map<std::string, OpTraits> s;  // made on first use: registrations run before main in any order
  return s;
}
}  // namespace

const OpTraits& traits_of(const std::string& op) {
  static const OpTraits usual;
  const auto found = store().find(op);
  return found == store().end() ? usual : found->second;
}

HostMemory host_memory_of(const Problem& problem, size_t slot) {
  const OpTraits& traits = traits_of(problem.name());
  return traits.host_memory ? traits.host_memory(problem.address(), static_cast<int>(slot)) : HostMemory::none;
}

bool registration::add_traits(const char* op, const OpTraits& traits) { return store().emplace(op, traits).second; }

}  // namespace duet
