// SPDX-License-Identifier: Apache-2.0
#include "reports/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/join.h"
#include "results/facts.h"

namespace duet::reports {

std::string to_text(Device device) { return device == Device::cpu ? "CPU" : "GPU"; }
std::string to_text(Status status) { return name_of(status); }
std::string to_text(Scope scope) {
  if (scope == Scope::overlapped) return "end to end, overlapped";
  return scope == Scope::end_to_end ? "end to end" : name_of(scope);
}
std::string to_text(Cache cache) { return name_of(cache); }
std::string to_text(Bound bound) { return name_of(bound); }

double byte_per_s(const Job& job, const Series& series) {
  return static_cast<double>(job.bytes) / series.summary.median_s;
}
double flop_per_s(const Job& job, const Series& series) { return job.flops / series.summary.median_s; }

std::string significant(double value, int digits) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return "–";
  const std::string scientific = fmt::format("{:.{}e}", value, digits - 1);  // its exponent is that after rounding
  const int decimals = digits - 1 - std::stoi(scientific.substr(scientific.find('e') + 1));
  if (decimals > 12 || decimals < -12) return scientific;
  return fmt::format("{:.{}f}", value, std::max(0, decimals));
}

std::string si(double value, const std::string& unit, int digits) {
  static constexpr std::pair<double, const char*> kPrefixes[] = {
      {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}};
  std::string text = significant(value, digits);
  if (!std::isfinite(value)) return text;
  for (const auto& [scale, prefix] : kPrefixes)
    if (std::abs(value) >= scale * 0.9995) {
      text = significant(value / scale, digits);
      return prefix + unit == "" ? text : text + " " + prefix + unit;
    }
  return unit.empty() ? text : text + " " + unit;
}

std::string seconds(double value) { return si(value, "s"); }

std::string share(double fraction) {
  if (!std::isfinite(fraction)) return "–";
  return (fraction < 0.095 ? significant(100 * fraction, 2) : fmt::format("{:.0f}", 100 * fraction)) + " %";
}

std::string times(double ratio) { return std::isfinite(ratio) ? significant(ratio, ratio >= 1 ? 3 : 2) + "×" : "–"; }

std::string faster_text(double ratio) {
  return ratio >= 1 ? times(ratio) + " faster" : "CPU " + times(1 / ratio) + " faster";
}

std::string outcome_text(const Interval& ratio) {
  return winner(ratio) == Winner::level ? times(ratio.value) + ", level" : faster_text(ratio.value);
}

std::string count_of(size_t count, const std::string& noun) {
  if (count != 1 && noun == "series") return fmt::format("{} series", count);
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string size_text(double size) { return size < 10000 ? fmt::format("{:.0f}", size) : si(size, ""); }

std::string bytes_text(double bytes) {
  for (const auto& [scale, unit] : {std::pair(0x1p30, " GiB"), std::pair(0x1p20, " MiB"), std::pair(0x1p10, " KiB")})
    if (bytes >= scale) return significant(bytes / scale) + unit;
  return fmt::format("{:.0f} B", bytes);
}

namespace {
std::string unmarked_roof_text(const Series& series) {
  if (series.has_flag(results::flag::kFloor)) return "floor";  // its share is not interpreted
  if (!series.roof) return "no roof";
  if (results::has_disturbed_roof(series)) return "disturbed";
  const std::string bound =
      to_text(series.roof->bound) + (series.roof->source == results::RoofSource::run ? " (run)" : "");
  if (results::has_unsteady_share(series))
    return fmt::format("{:.0f}–{} {}", 100 * series.roof->lo, share(series.roof->hi), bound);
  return share(series.roof->fraction) + " " + bound;
}
}  // namespace

std::string roof_text(const Series& series) {
  return unmarked_roof_text(series) + (series.has_flag(results::flag::kUnchecked) ? kUncheckedMark : "");
}

std::string threads_text(const Choice& choice) {
  return choice.job->device == Device::cpu ? count_of(static_cast<size_t>(choice.call->threads), "thread") : "";
}

std::string impl_text(const Job& job) {
  return named_of(job.impl, job.machine) + (results::prepares_before_clock(job) ? kPreparedMark : "");
}

std::string mark_lines(const std::string& text) {
  std::string lines;
  for (const Mark& m : kMarks)
    if (text.find(m.mark) != text.npos) lines += fmt::format("{} {}\n", m.mark, m.note);
  return lines;
}

std::string case_text(const std::string& case_name) {
  std::string text = case_name;
  std::replace(text.begin(), text.end(), '/', ' ');
  return text;
}

std::string cache_text(const SpeedupRow& row) {
  const Cache cpu = row.cpu.call->cache, gpu = row.gpu.call->cache;
  return cpu == gpu ? to_text(cpu) : fmt::format("CPU {}, GPU {}", to_text(cpu), to_text(gpu));
}

std::string marks_text(const SpeedupRow& row) {
  return std::string(row.weak_cpu ? "*" : "") + (row.contested ? "†" : "");
}

std::string source_of(const std::string& why) {
  std::string word = why.substr(0, why.find(' '));
  if (word.ends_with("'s")) word.resize(word.size() - 2);
  while (!word.empty() && (word.back() == ',' || word.back() == ':' || word.back() == ';')) word.pop_back();
  // Names of models and papers begin with a capital and are no sentence's "A" or "I".
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  return word.size() >= 3 && upper(word[0]) ? word : "";
}

std::string slug(const std::string& title) {
  std::string text;
  for (const char c : title) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9'))
      text += lower;
    else if (!text.empty() && text.back() != '-')
      text += '-';
  }
  if (text.ends_with('-')) text.pop_back();
  return text.empty() ? "section" : text;
}

std::string fixed_text(const Sweep& sweep) {
  std::string text = sweep.dtype;
  for (const auto& [name, value] : sweep.fixed)
    text += (text.empty() ? "" : " ") + name + ":" + results::text_of(value);
  return text;
}

std::string break_even_text(const BreakEven& at, const std::string& size_name) {
  switch (at.kind) {
    case BreakEven::Kind::never:
      return fmt::format("never up to {} = {}", size_name, size_text(at.size));
    case BreakEven::Kind::from_smallest:
      return fmt::format("from {} = {} on, the smallest measured", size_name, size_text(at.size));
    case BreakEven::Kind::between:
      return fmt::format("{} between {} and {}", size_name, size_text(at.above), size_text(at.size));
    case BreakEven::Kind::unknown:
      break;
  }
  return "not measured";
}

size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string elided(const std::string& text, size_t characters) {
  const size_t width = width_of(text);
  if (width <= characters) return text;
  const size_t head = characters * 3 / 5, tail = characters - 1 - head;
  std::string kept;
  size_t seen = 0;  // characters that have begun
  for (const char c : text) {
    if ((c & 0xC0) != 0x80 && ++seen == head + 1) kept += "…";
    if (seen <= head || seen > width - tail) kept += c;
  }
  return kept;
}

std::string html_escaped(const std::string& text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;  // XML forbids most of them
    }
  }
  return safe;
}

}  // namespace duet::reports
