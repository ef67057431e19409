// SPDX-License-Identifier: Apache-2.0
// What few contracts say beyond what each contract says (core/registry.h). The file of such a contract's reference
// enters it by DUET_TRAITS; of every other op it is the default.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/host_memory.h"
#include "core/registry.h"

namespace duet {

// On which devices the bandwidth of memory and the arithmetic peak bound an op. Elsewhere its rows have no roof: where
// a link, the system's page tables or a launch take the time. A contract states it as `static constexpr Roofs roofs`.
struct OpTraits {
  Roofs roofs = {};
  // Where a tensor of a problem lies while a GPU works on it. Null: all of them on the GPU. A contract about transfers
  // states it as `HostMemory host_memory(int slot) const`.
  HostMemory (*host_memory)(const void* problem, int slot) = nullptr;
};
const OpTraits& traits_of(const std::string& op);
HostMemory host_memory_of(const Problem& problem, size_t slot);

// Where the name of an op ends in a job's name or a label that begins with it: the names of studies are of two words,
// "study/transfer".
inline constexpr std::string_view kStudy = "study/";
inline size_t end_of_op(std::string_view text) { return text.find('/', text.starts_with(kStudy) ? kStudy.size() : 0); }

namespace registration {

bool add_traits(const char* op, const OpTraits& traits);
template <class P>
bool add_traits() {
  OpTraits traits;
  if constexpr (requires { P::roofs; }) traits.roofs = P::roofs;
  if constexpr (requires(const P& p) { p.host_memory(0); })
    traits.host_memory = [](const void* problem, int slot) {
      return static_cast<const P*>(problem)->host_memory(slot);
    };
  return add_traits(P::name, traits);
}

}  // namespace registration

#define DUET_TRAITS(P) \
  [[maybe_unused]] static const bool DUET_CONCAT(duet_traits_, P) = ::duet::registration::add_traits<P>()

}  // namespace duet
