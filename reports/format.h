// SPDX-License-Identifier: Apache-2.0
// Numbers and names as a reader sees them; independent of the locale.
#pragma once
#include <string>

#include "reports/analysis.h"

namespace duet::reports {

std::string to_text(Device device);  // "CPU", "GPU"
std::string to_text(Status status);
std::string to_text(Scope scope);  // "kernel", "call", "end to end"
std::string to_text(Cache cache);
std::string to_text(Bound bound);
double byte_per_s(const Job& job, const Series& series);
double flop_per_s(const Job& job, const Series& series);

std::string significant(double value, int digits = 3);                  // "12.3"
std::string si(double value, const std::string& unit, int digits = 3);  // "12.3 GB/s"
std::string seconds(double value);                                      // "12.3 µs"
std::string share(double fraction);                                     // "87 %"
std::string times(double ratio);                                        // "12.3×"
std::string outcome_text(const Interval& ratio);                        // the same, or "1.01×, level"
std::string faster_text(double ratio);                                  // "12.3× faster", "CPU 81.3× faster"
std::string count_of(size_t count, const std::string& noun);            // "1 job", "2 jobs"
std::string size_text(double size);                                     // "289", "102 k"
std::string bytes_text(double bytes);                                   // "64.0 MiB"
// "87 % memory", "64–92 % memory" (unsteady), "floor", "no roof"; with kUncheckedMark
std::string roof_text(const Series& series);
std::string threads_text(const Choice& choice);  // "16 threads", or nothing on a GPU
std::string impl_text(const Job& job);  // "cpu.tuned"; of several runs "cpu.tuned @ box"; "§": see kPreparedNote
std::string case_text(const std::string& case_name);  // "gemm f32 m:64 n:64"
std::string cache_text(const SpeedupRow& row);        // "warm"
std::string marks_text(const SpeedupRow& row);        // "*" weak CPU, "†" contested, both or nothing
// What stands beside an implementation that some work of is done before the clock (results::prepares_before_clock),
inline constexpr const char* kPreparedMark = "§";
inline constexpr const char* kPreparedNote =
    "brought some inputs, such as weights, into its own form before the clock.";
// and beside the share of the roof of a series that is flagged kUnchecked.
inline constexpr const char* kUncheckedMark = "°";
inline constexpr const char* kUncheckedNote = "too short to see whether other work ran beside it.";
struct Mark {
  const char *mark, *note;
};
inline constexpr Mark kMarks[] = {{kPreparedMark, kPreparedNote}, {kUncheckedMark, kUncheckedNote}};
std::string mark_lines(const std::string& text);  // explains the marks that a text has, a line each, below it
// Who published a shape, from the reason that its case gives: "ResNet-50" of "ResNet-50 head, batch 256". Empty where
// the reason has no source.
std::string source_of(const std::string& why);
std::string slug(const std::string& title);  // "break-even" of "Break-even"; for ids and links
std::string fixed_text(const Sweep& sweep);  // "f32 n:1024"
std::string break_even_text(const BreakEven& at, const std::string& size_name);
std::string elided(const std::string& text, size_t characters);  // in the middle; cases differ at their ends
size_t width_of(const std::string& text);                        // the same count

std::string html_escaped(const std::string& text);  // valid in HTML and XML, inside and outside attributes

}  // namespace duet::reports
