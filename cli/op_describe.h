// SPDX-License-Identifier: Apache-2.0
// duet op P --describe: a problem as JSON, for programs that prepare inputs and call `duet op`.
#pragma once
#include <string>

#include "core/registry.h"
#include "cli/devices.h"

namespace duet {

std::string describe(const Problem& problem, Devices& devices);

}  // namespace duet
