// SPDX-License-Identifier: Apache-2.0
// duet history: runs of many commits in one SQLite database, and what changed between them. Called by main.cpp; the
// work is done in reports/history/.
#pragma once

namespace CLI {
class App;
}

namespace duet {

// Adds the subcommand. A status other than 0 leaves app.parse() as CLI::RuntimeError.
void add_history(CLI::App& app);

}  // namespace duet
