// SPDX-License-Identifier: Apache-2.0
// duet op OP --describe: a problem as JSON, for programs that prepare inputs and call `duet op`.
#pragma once
#include <string>

#include "cli/devices.h"
#include "core/registry.h"

namespace duet {

std::string describe(const Problem& problem, Devices& devices);

}  // namespace duet
