// SPDX-License-Identifier: Apache-2.0
#include "reports/studies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "reports/format.h"

namespace duet::reports {
namespace {

constexpr double kWorstOffset = 31;  // elements: no access begins at a sector or a line
constexpr const char* kShifted = ", from element 31 on";
constexpr double kPageBytes = 4096, kLineBytes = 64, kElementBytes = 4;

// A parameter of a job; `otherwise` where it has none of this name.
double number(const Job& job, std::string_view name, double otherwise = 0) {
  for (const auto& [key, value] : job.params)
    if (key == name) {
      if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
      if (const auto* b = std::get_if<bool>(&value)) return *b ? 1 : 0;
      if (const auto* d = std::get_if<double>(&value)) return *d;
    }
  return otherwise;
}
std::string text(const Job& job, std::string_view name, const char* otherwise) {
  for (const auto& [key, value] : job.params)
    if (key == name)
      if (const auto* s = std::get_if<std::string>(&value)) return *s;
  return otherwise;
}

// The time of a row: of a GPU by its own clock where the study is about the device; else by call, with all threads.
const Series* series_of(const Job& job, bool by_device_clock) {
  const Series* found = nullptr;
  const auto better = [&](const Series& s) {
    if (!found) return true;
    if (s.cache != found->cache) return s.cache == Cache::warm;
    return s.threads > found->threads;
  };
  for (const Scope scope : {by_device_clock ? Scope::kernel : Scope::call, Scope::call}) {
    for (const Series& s : job.series)
      if (s.scope == scope && s.summary.median_s > 0 && better(s)) found = &s;
    if (found) return found;
  }
  return nullptr;
}

// Where a row stands in a study, or nothing where it is not drawn.
struct Place {
  std::string line;
  double x, y;
};
using Placed = std::function<std::optional<Place>(const Job& job, double time_s)>;

struct Definition {
  const char *name, *op;  // op: what the names of its ops begin with
  const char *question, *x_name, *y_name, *y_unit;
  bool x_is_bytes, by_device_clock;
  Placed place;
  std::string (*sentence)(const Study& study);
};

bool of_gpu(const StudyLine& line) { return line.device == Device::gpu; }

const StudyLine* find(const Study& study, std::string_view label, Device device) {
  for (const StudyLine& line : study.lines)
    if (line.label == label && line.device == device) return &line;
  return nullptr;
}
const StudyPoint& lowest(const StudyLine& line) {
  return *std::min_element(line.points.begin(), line.points.end(), [](auto& a, auto& b) { return a.y < b.y; });
}
const StudyPoint& highest(const StudyLine& line) {
  return *std::max_element(line.points.begin(), line.points.end(), [](auto& a, auto& b) { return a.y < b.y; });
}
const StudyPoint* at(const StudyLine& line, double x) {
  for (const StudyPoint& point : line.points)
    if (point.x == x) return &point;
  return nullptr;
}

// "a", "a; b", as one sentence that begins with `begin`. Empty where there is nothing to say.
std::string sentence_of(const std::string& begin, const std::vector<std::string>& parts) {
  return parts.empty() ? "" : fmt::format("{}{}.", begin, fmt::join(parts, "; "));
}

// Whether a fit is near every point of (bytes, time): a cache that holds small copies makes a line of two slopes.
bool fits(const FixedAndRate& fitted, const std::vector<std::pair<double, double>>& points) {
  constexpr double kMaxResidual = 0.25;
  return std::all_of(points.begin(), points.end(), [&](const auto& point) {
    return std::abs(fitted.fixed_s + point.first / fitted.rate - point.second) < kMaxResidual * point.second;
  });
}

std::string transfer_sentence(const Study& study) {
  std::vector<std::string> parts, rates;
  for (const StudyLine& line : study.lines) {
    std::vector<std::pair<double, double>> points;
    for (const StudyPoint& point : line.points) points.emplace_back(point.x, point.series->summary.median_s);
    const auto fitted = fit(points);
    if (!fitted || !fits(*fitted, points)) {
      const StudyPoint &small = line.points.front(), &large = line.points.back();
      std::string rate = fmt::format("{} reaches {} at {}", line.label, si(small.y, "B/s"), bytes_text(small.x));
      if (large.x != small.x) rate += fmt::format(" and {} at {}", si(large.y, "B/s"), bytes_text(large.x));
      rates.push_back(std::move(rate));
      continue;
    }
    const std::string rate = fmt::format("bytes / ({})", si(fitted->rate, "B/s"));
    parts.push_back(fitted->fixed_s > 0 ? fmt::format("{} {} + {}", line.label, seconds(fitted->fixed_s), rate)
                                        : line.label + " " + rate);
  }
  std::string all = sentence_of("A copy takes, fitted as a + bytes / B: ", parts);
  if (!all.empty() && !rates.empty()) all += " ";
  return all + sentence_of(parts.empty() ? "" : "Without a fit that is near every size: ", rates);
}

std::string pipeline_sentence(const Study& study) {
  std::vector<std::string> parts;
  for (const Device device : {Device::cpu, Device::gpu}) {
    const StudyLine* const copies = find(study, "copies alone", device);
    const StudyPoint *serial = nullptr, *best = nullptr;
    const StudyLine* of_best = nullptr;
    for (const StudyLine& line : study.lines) {
      if (line.device != device || &line == copies) continue;
      for (const StudyPoint& point : line.points) {
        const bool whole = point.x == 1;
        if (whole && (!serial || point.y < serial->y)) serial = &point;
        const bool alternates = number(*point.job, "streams", 1) < 2;  // one buffer or stream hides nothing
        if (whole || alternates || (best && best->y <= point.y)) continue;
        best = &point;
        of_best = &line;
      }
    }
    if (!serial || !best) continue;
    const std::string how = fmt::format("{} in {:g} chunks with {}", to_text(device), best->x, of_best->label);
    if (!copies) {
      parts.push_back(fmt::format("{}: {} of the time of one after the other", how, share(best->y / serial->y)));
      continue;
    }
    const double hidden = (serial->y - best->y) / copies->points.front().y;
    parts.push_back(
        hidden > 0 ? fmt::format("{}: {} of the time of the copies hidden", how, share(std::min(1.0, hidden)))
                   : fmt::format("{}: nothing hidden, the chunks cost {} more", how, share(best->y / serial->y - 1)));
  }
  return sentence_of("The fastest way, ", parts);
}

std::string allocation_sentence(const Study& study) {
  std::vector<std::string> parts;
  for (const Device device : {Device::cpu, Device::gpu}) {
    const StudyLine* const arena = find(study, device == Device::cpu ? "cpu.arena" : "cuda.arena", device);
    if (!arena) continue;
    const StudyPoint& reused = arena->points.back();
    std::vector<std::string> ways;
    std::string freed;
    for (const StudyLine& line : study.lines) {
      const StudyPoint* const point = line.device == device && &line != arena ? at(line, reused.x) : nullptr;
      if (!point) continue;
      const std::string way = fmt::format("{} {}", line.label, times(point->y / reused.y));
      // The C library may keep what was freed, and give it again: how much, its thresholds decide while it runs.
      if (point->job->impl == "cpu.malloc")
        freed = way;
      else
        ways.push_back(way);
    }
    if (!freed.empty()) ways.push_back("of malloc, which may reuse what was freed, " + freed);
    if (!ways.empty())
      parts.push_back(fmt::format("{} of new memory cost, beside the {} a page of an arena that is used again: {}",
                                  bytes_text(reused.x), seconds(reused.y), fmt::join(ways, ", ")));
  }
  return sentence_of("", parts);
}

std::string block_size_sentence(const Study& study) {
  std::vector<std::string> parts;
  for (const StudyLine& line : study.lines) {
    if (line.points.size() < 2) continue;
    const std::string what = count_of(static_cast<size_t>(lowest(line).x), of_gpu(line) ? "thread" : "part");
    parts.push_back(fmt::format("{} is fastest with {}, {} faster than with {:g}", line.label, what,
                                times(highest(line).y / lowest(line).y), highest(line).x));
  }
  return sentence_of("", parts);
}

std::string coalescing_sentence(const Study& study) {
  double stride = 1;
  for (const StudyLine& line : study.lines) stride = std::max(stride, line.points.back().x);
  std::vector<std::string> parts, shifts;
  for (const StudyLine& line : study.lines) {
    const StudyPoint *const dense = at(line, 1), *const widest = at(line, stride);
    if (!dense || !widest || stride == 1) continue;
    parts.push_back(fmt::format("{} from {} to {} ({} of it)", line.label, si(dense->y, "B/s"), si(widest->y, "B/s"),
                                share(widest->y / dense->y)));
  }
  for (const StudyLine& line : study.lines) {
    const StudyLine* const shifted = find(study, line.label + kShifted, line.device);
    const StudyPoint *const dense = at(line, 1), *const off = shifted ? at(*shifted, 1) : nullptr;
    if (dense && off)
      shifts.push_back(fmt::format("{} has {} of its rate{}", line.label, share(off->y / dense->y), kShifted));
  }
  std::string all =
      sentence_of(fmt::format("From neighbours to a stride of {:g}, what is asked for falls: ", stride), parts);
  if (!all.empty() && !shifts.empty()) all += " ";
  return all + sentence_of("Off the beginning of a line, ", shifts);
}

// "filter" of "filter, cuda.shared": the label up to the comma is the pattern of the reads. The rest is the kind.
std::string_view pattern_of(const StudyLine& line) {
  const std::string_view label = line.label;
  return label.substr(0, label.find(", "));
}
std::string_view kind_of(const StudyLine& line) {
  const std::string_view pattern = pattern_of(line);
  return std::string_view(line.label).substr(std::min(line.label.size(), pattern.size() + 2));
}

// The fastest and the slowest kind of one pattern on a GPU, at the largest size that both have. Empty without two.
std::string kinds_of_a_pattern(const std::vector<const StudyLine*>& lines) {
  std::vector<double> sizes;
  for (const StudyLine* line : lines)
    for (const StudyPoint& point : line->points) sizes.push_back(point.x);
  std::sort(sizes.rbegin(), sizes.rend());
  for (const double size : sizes) {
    const StudyLine *best = nullptr, *worst = nullptr;
    int kinds = 0;
    for (const StudyLine* line : lines) {
      const StudyPoint* const point = at(*line, size);
      if (!point) continue;
      ++kinds;
      if (!best || point->y > at(*best, size)->y) best = line;
      if (!worst || point->y < at(*worst, size)->y) worst = line;
    }
    if (kinds < 2) continue;
    return fmt::format("on the GPU {} of {}: {} is {} as fast as {}", pattern_of(*best), bytes_text(size),
                       kind_of(*best), times(at(*best, size)->y / at(*worst, size)->y), kind_of(*worst));
  }
  return "";
}

std::string memory_kind_sentence(const Study& study) {
  std::vector<std::string> parts;
  // On the CPU sizes decide, on a GPU kinds.
  for (const StudyLine& line : study.lines)
    if (!of_gpu(line) && line.points.size() > 1)
      parts.push_back(fmt::format("{}: {} from {}, {} from {}", line.label, si(line.points.front().y, "/s"),
                                  bytes_text(line.points.front().x), si(line.points.back().y, "/s"),
                                  bytes_text(line.points.back().x)));
  std::vector<std::string_view> patterns;
  for (const StudyLine& line : study.lines) {
    const std::string_view pattern = pattern_of(line);
    if (!of_gpu(line) || std::find(patterns.begin(), patterns.end(), pattern) != patterns.end()) continue;
    patterns.push_back(pattern);
    std::vector<const StudyLine*> lines;
    for (const StudyLine& other : study.lines)
      if (of_gpu(other) && pattern_of(other) == pattern) lines.push_back(&other);
    if (std::string part = kinds_of_a_pattern(lines); !part.empty()) parts.push_back(std::move(part));
  }
  return sentence_of("", parts);
}

std::string bank_conflict_sentence(const Study& study) {
  std::vector<std::string> parts;
  for (const StudyLine& line : study.lines) {
    const StudyPoint *plain = at(line, 0), *padded = at(line, 1);
    if (!plain || !padded) continue;
    const double gain = padded->y / plain->y;
    parts.push_back(gain >= 1 ? fmt::format("{} gains {}", line.label, times(gain))
                              : fmt::format("{} loses {}", line.label, share(1 - gain)));
  }
  return sentence_of("By padding the rows of the tile, ", parts);
}

std::string prefetch_sentence(const Study& study) {
  std::vector<std::string> parts;
  for (const StudyLine& line : study.lines) {
    const StudyPoint* const none = at(line, 0);
    if (!none || line.points.size() < 2) continue;
    const StudyPoint& best = highest(line);
    if (best.x == 0)
      parts.push_back(fmt::format("{} gains nothing", line.label));
    else
      parts.push_back(fmt::format("{} gains {} with {:g} ahead", line.label, times(best.y / none->y), best.x));
  }
  return sentence_of("Asking before the use: ", parts);
}

std::string occupancy_sentence(const Study& study) {
  std::vector<std::string> parts;
  for (const StudyLine& line : study.lines) {
    if (line.points.size() < 2) continue;
    const StudyPoint &best = lowest(line), &worst = highest(line);
    if (of_gpu(line))
      parts.push_back(fmt::format("{} takes {} as long with {:g} KiB of shared memory a block as with {:g}", line.label,
                                  times(worst.y / best.y), worst.x, best.x));
    else
      parts.push_back(fmt::format("{} is fastest with {}, {} faster than with {:g}", line.label,
                                  count_of(static_cast<size_t>(best.x), "chain"), times(worst.y / best.y), worst.x));
  }
  return sentence_of("", parts);
}

std::string launch_sentence(const Study& study) {
  std::vector<std::string> parts;
  for (const StudyLine& line : study.lines) {
    const StudyPoint& many = line.points.back();
    parts.push_back(fmt::format("{} {}", line.label, seconds(many.y)));
  }
  if (parts.empty()) return "";
  return sentence_of(fmt::format("A node of {:g} costs: ", study.lines.front().points.back().x), parts);
}

std::string implementation(const Job& job) { return impl_text(job); }

const std::vector<Definition>& definitions() {
  static const std::vector<Definition> all{
      {"transfer", "study/transfer", "How long does a copy take, by its size and by the kind of memory?", "bytes of x",
       "bytes a second", "B/s", true, false,
       [](const Job& job, double time_s) -> std::optional<Place> {
         const double bytes = kElementBytes * number(job, "n");
         if (bytes == 0) return {};
         if (job.device == Device::cpu) return Place{implementation(job), bytes, bytes / time_s};
         const std::string direction = text(job, "direction", "h2d");
         const std::string memory = direction == "d2d" ? job.impl : text(job, "memory", "pageable");
         return Place{direction + " " + memory + (number(job, "async") != 0 ? " async" : ""), bytes, bytes / time_s};
       },
       transfer_sentence},
      {"pipeline", "study/pipeline", "How much of the copies can work hide, in chunks that follow each other?",
       "chunks", "time", "s", false, false,
       [](const Job& job, double time_s) -> std::optional<Place> {
         const double chunks = number(job, "chunks", 1), streams = number(job, "streams", 1);
         if (number(job, "rounds", 64) == 0) return Place{"copies alone", chunks, time_s};
         return Place{count_of(static_cast<size_t>(streams), job.device == Device::cpu ? "buffer" : "stream"), chunks,
                      time_s};
       },
       pipeline_sentence},
      {"allocation", "study/allocation", "What does new memory cost, with the first touch of its pages?", "bytes",
       "time of a page of 4 KiB", "s", true, false,
       [](const Job& job, double time_s) -> std::optional<Place> {
         const double pages = number(job, "pages");
         if (pages == 0) return {};
         return Place{implementation(job), kPageBytes * pages, time_s / pages};
       },
       allocation_sentence},
      {"block_size", "study/block_size_", "How large should a block of a GPU be, and a part of the CPU's work?",
       "threads of a block, or parts", "time / the shortest of the curve", "", false, true,
       [](const Job& job, double time_s) -> std::optional<Place> {
         const std::string op = job.op.substr(std::string_view("study/block_size_").size());
         return Place{op + (job.device == Device::cpu ? " on the CPU" : " on the GPU"),
                      number(job, job.device == Device::cpu ? "parts" : "threads"), time_s};
       },
       block_size_sentence},
      {"coalescing", "study/coalescing", "What do reads that lie apart cost?", "accesses from one to the next",
       "bytes asked for a second", "B/s", false, true,
       [](const Job& job, double time_s) -> std::optional<Place> {
         const double offset = number(job, "offset"), width = number(job, "width", 4);
         if (offset != 0 && offset != kWorstOffset) return {};
         return Place{fmt::format("{}, {:g} bytes{}", implementation(job), width, offset == 0 ? "" : kShifted),
                      number(job, "stride", 1), static_cast<double>(job.bytes) / time_s};
       },
       coalescing_sentence},
      {"memory_kind", "study/memory_kind_", "Which memory should hold what is read again and again?",
       "bytes of the table, or of the image", "outputs a second", "/s", true, true,
       [](const Job& job, double time_s) -> std::optional<Place> {
         if (job.op == "study/memory_kind_filter") {
           const double outputs = number(job, "h") * number(job, "w");
           return Place{"filter, " + implementation(job), kElementBytes * outputs, outputs / time_s};
         }
         const double size = number(job, "size"), n = number(job, "n");
         return Place{
             fmt::format("{} lookup, {}", number(job, "uniform") != 0 ? "uniform" : "divergent", implementation(job)),
             kElementBytes * size, n / time_s};
       },
       memory_kind_sentence},
      {"bank_conflict", "study/bank_conflict", "What does it cost when the columns of a tile fall into one place?",
       "padding of a row", "bytes a second", "B/s", false, true,
       [](const Job& job, double time_s) -> std::optional<Place> {
         return Place{fmt::format("{} {:g}x{:g}", implementation(job), number(job, "rows"), number(job, "cols")),
                      number(job, "pad"), static_cast<double>(job.bytes) / time_s};
       },
       bank_conflict_sentence},
      {"prefetch", "study/prefetch", "How far ahead should a line be asked for?", "lines, or stages, ahead",
       "bytes of lines a second", "B/s", false, true,
       [](const Job& job, double time_s) -> std::optional<Place> {
         const double bytes = kLineBytes * number(job, "n");
         const double touched = std::min(bytes, kLineBytes * number(job, "rows"));  // of the table, at most
         return Place{
             fmt::format("{}, {} of {}", implementation(job), text(job, "order", "random"), bytes_text(touched)),
             number(job, "ahead"), bytes / time_s};
       },
       prefetch_sentence},
      {"occupancy", "study/occupancy", "How much work has to be in flight?",
       "KiB of shared memory of a block, or chains", "time / the shortest of the curve", "", false, true,
       [](const Job& job, double time_s) -> std::optional<Place> {
         const std::string work = number(job, "rounds") == 0 ? "a copy" : "multiply-adds";
         return Place{work + (job.device == Device::cpu ? " on the CPU" : " on the GPU"),
                      number(job, job.device == Device::cpu ? "chains" : "shared"), time_s};
       },
       occupancy_sentence},
      {"launch", "study/launch", "What does it cost to start work?", "nodes", "time of a node", "s", false, false,
       [](const Job& job, double time_s) -> std::optional<Place> {
         const double nodes = number(job, "nodes");
         if (nodes == 0) return {};
         return Place{implementation(job), nodes, time_s / nodes};
       },
       launch_sentence},
  };
  return all;
}

void add(Study& study, const Place& place, const Job& job, const Series& series) {
  auto line = std::find_if(study.lines.begin(), study.lines.end(),
                           [&](const StudyLine& l) { return l.label == place.line && l.device == job.device; });
  if (line == study.lines.end()) line = study.lines.insert(line, {place.line, job.device, {}});
  line->points.push_back({place.x, place.y, &job, &series});
}

// Times become multiples of the shortest one of their curve.
void make_relative(Study& study) {
  for (StudyLine& line : study.lines) {
    const double shortest = lowest(line).y;
    for (StudyPoint& point : line.points) point.y /= shortest;
  }
}

}  // namespace

std::optional<FixedAndRate> fit(const std::vector<std::pair<double, double>>& amount_and_time) {
  // Minimises the sum of ((fixed + amount slope - time) / time)^2.
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const auto& [amount, time_s] : amount_and_time) {
    if (!(time_s > 0) || !std::isfinite(amount)) return {};
    const double weight = 1 / (time_s * time_s);
    w += weight;
    wx += weight * amount;
    wxx += weight * amount * amount;
    wt += weight * time_s;
    wxt += weight * amount * time_s;
  }
  const double determinant = w * wxx - wx * wx;
  if (!(determinant > 1e-12 * w * wxx)) return {};
  const double slope = (w * wxt - wx * wt) / determinant, fixed_s = (wt * wxx - wx * wxt) / determinant;
  if (fixed_s < 0 && wx > 0) return FixedAndRate{.fixed_s = 0, .rate = wxx / wxt};  // no time is negative
  if (!(slope > 0)) return {};
  return FixedAndRate{.fixed_s = fixed_s, .rate = 1 / slope};
}

std::vector<Study> studies_of(const Run& run) {
  std::vector<Study> all;
  for (const Definition& d : definitions()) {
    Study study{.name = d.name,
                .question = d.question,
                .x_name = d.x_name,
                .y_name = d.y_name,
                .x_is_bytes = d.x_is_bytes,
                .y_unit = d.y_unit,
                .lines = {},
                .sentence = {}};
    for (const Job& job : run.jobs) {
      if (!job.comparable || !job.op.starts_with(d.op)) continue;
      const Series* const series = series_of(job, d.by_device_clock);
      if (!series) continue;
      if (const auto place = d.place(job, series->summary.median_s)) add(study, *place, job, *series);
    }
    if (study.lines.empty()) continue;
    for (StudyLine& line : study.lines)
      std::stable_sort(line.points.begin(), line.points.end(), [](auto& a, auto& b) { return a.x < b.x; });
    std::stable_sort(study.lines.begin(), study.lines.end(), [](const StudyLine& a, const StudyLine& b) {
      return a.device != b.device ? a.device == Device::cpu : a.label < b.label;
    });
    if (study.y_unit.empty()) make_relative(study);
    study.sentence = d.sentence(study);
    all.push_back(std::move(study));
  }
  return all;
}

}  // namespace duet::reports
