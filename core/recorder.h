// SPDX-License-Identifier: Apache-2.0
// Records the ranges of nvtx.h without a profiler, into a trace that chrome://tracing and https://ui.perfetto.dev open:
// `bench_all --trace FILE`, and `duet profile` where no profiler is installed.
//
// A process that is recorded writes a part: a file of lines, each a JSON object. Its memory is the file's, so that what
// was recorded survives a crash of the process. write_trace() makes the trace of the parts of all processes of a run.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/nvtx.h"

namespace duet::recorder {

// From now on the ranges of this process go into the part `path`. process: what the trace calls it. Throws Error where
// the file cannot be written, std::runtime_error where the disk is full.
void start(const std::string& path, const std::string& process);
// Ends the recording. Empty, or why it ended before: the disk was full.
std::string finish();

// For nvtx.cpp. Names are registered whether or not anything is recorded.
uint32_t register_name(const std::string& id, const NvtxWork& work);
bool is_on();
void begin(uint32_t name);  // of a range of this thread
void end();                 // of the innermost one
void name_thread(const std::string& name);

// A complete event ("X") for each range, with the range's id, depth and work as arguments; of one that its process left
// open, `unfinished`. The file appears complete, or not at all where there is no range. Parts that do not exist are
// left out. facts: put into "otherData", to which `incomplete` is added where the recording of a process was cut.
// Returns the number of ranges. Throws as AtomicFile does.
int64_t write_trace(const std::vector<std::string>& parts, const std::string& path,
                    const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace duet::recorder
