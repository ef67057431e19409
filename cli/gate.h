// SPDX-License-Identifier: Apache-2.0
// duet gate: whether a build became slower than another one, with an exit status for CI. Called by main.cpp.
#pragma once

namespace CLI {
class App;
}

namespace duet {

void add_gate(CLI::App& app);  // declares the subcommand; a status other than 0 leaves as CLI::RuntimeError

}  // namespace duet
