// SPDX-License-Identifier: Apache-2.0
#include "core/command_line.h"

#include <fmt/format.h>

#include <charconv>

#include "core/build_info.h"

namespace duet {
namespace {

struct Decoded {
  char32_t character;
  size_t bytes;  // 0: not UTF-8
};

// The first character of `text`: its shortest form only, no surrogates, at most U+10FFFF.
Decoded decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {0, 0};
  char32_t c = first & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    c = c << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < kSmallest[bytes] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return {0, 0};
  return {c, bytes};
}

// Control characters, line and paragraph separators, and what changes the direction of writing.
bool shows_badly(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

void append_escaped(std::string& line, std::string_view text) {
  while (!text.empty()) {
    const auto [c, bytes] = decode(text);
    if (bytes == 0) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    if (c == '\n')
      line += "\\n";
    else if (c == '\t')
      line += "\\t";
    else if (shows_badly(c))
      line += c < 0x100 ? fmt::format("\\x{:02x}", static_cast<unsigned>(c))
                        : fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      line += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
}

}  // namespace

std::string version_text(std::string_view program) {
  const BuildInfo& b = build_info();
  return fmt::format("{} of Duet, commit {}{}, {}, {}; CUDA: {}", program, b.git_sha, b.git_dirty ? " (modified)" : "",
                     b.type, b.compiler, *b.cuda_compiler ? b.cuda_compiler : "none");
}

std::string one_line(std::string_view text) {
  constexpr size_t kHead = kMaxMessage * 2 / 3, kTail = kMaxMessage - kHead;
  const auto continues = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
  std::string line;
  if (text.size() <= kMaxMessage) {
    append_escaped(line, text);
    return line;
  }
  size_t head = kHead, tail = text.size() - kTail;
  while (head > kHead - 4 && continues(head)) --head;  // no character is cut
  while (tail < text.size() - kTail + 4 && continues(tail)) ++tail;
  append_escaped(line, text.substr(0, head));
  line += fmt::format("...({} bytes)...", tail - head);
  append_escaped(line, text.substr(tail));
  return line;
}

std::string check_whole_number(std::string& text, int64_t min, int64_t max) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || last != end)
    return fmt::format("'{}' is not a whole number in decimal digits", text);
  if (error != std::errc() || value < min || value > max)
    return fmt::format("Value {} not in range {} to {}", text, min, max);
  text = std::to_string(value);
  return "";
}

}  // namespace duet
