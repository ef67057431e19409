// SPDX-License-Identifier: Apache-2.0
#include "softgpu/ptx_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/error.h"

namespace duet::softgpu {
namespace {
constexpr std::string_view kBlank = " \t\r\n";

int64_t number(std::string_view text) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc()) throw Error("PTX: '{}' is no number", text);
  return value;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

// Reads a text word by word and counts lines.
class Cursor {
 public:
  Cursor(std::string_view text, int line) : text_(text), line_(line) {}
  bool done() {
    skip();
    return at_ >= text_.size();
  }
  int line() const { return line_; }
  size_t position() const { return at_; }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void advance(size_t count) {
    const auto first = text_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(first, first + static_cast<std::ptrdiff_t>(count), '\n'));
    at_ += count;
  }
  std::string_view rest() const { return text_.substr(at_); }
  // Up to `end`, which is skipped. Line comments inside stay; nvcc writes none within a statement.
  std::string_view until(std::string_view end) {
    const size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) throw Error("PTX line {}: no '{}' follows", line_, end);
    const std::string_view part = text_.substr(at_, found - at_);
    advance(part.size() + end.size());
    return part;
  }
  std::string_view name() {
    skip();
    size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }
  bool take(std::string_view word) {
    skip();
    if (!rest().starts_with(word)) return false;
    if (word.size() > 1 && word.size() < rest().size() && is_name(rest()[word.size()]))
      return false;  // .loc is not .local
    advance(word.size());
    return true;
  }

 private:
  void skip() {  // blanks and comments
    for (;;) {
      const size_t found = text_.find_first_not_of(kBlank, at_);
      advance((found == std::string_view::npos ? text_.size() : found) - at_);
      if (rest().starts_with("//"))
        advance(std::min(rest().find('\n'), rest().size()));
      else if (rest().starts_with("/*"))
        until("*/");
      else
        return;
    }
  }
  std::string_view text_;
  size_t at_ = 0;
  int line_;
};

// ".shared .align 16 .b8 name[1024]" without the semicolon; several names of a .reg stay together in `name`.
Declaration read_declaration(std::string_view text) {
  Declaration d;
  Cursor c(text, 0);
  while (c.peek() == '.') {
    c.advance(1);
    const std::string_view word = c.name();
    if (word == "extern")
      d.is_extern = true;
    else if (word == "visible" || word == "weak")
      continue;
    else if (word == "align")
      d.align = static_cast<int>(number(c.name()));
    else if (d.space.empty())
      d.space = word;
    else
      d.type = word;
  }
  d.name = trimmed(c.rest());
  if (d.space == "reg") return d;
  if (const size_t initial = d.name.find('='); initial != std::string_view::npos) {
    d.has_values = true;
    d.name = d.name.substr(0, initial);
  }
  if (const size_t bracket = d.name.find('['); bracket != std::string_view::npos) {
    const std::string_view size = trimmed(d.name.substr(bracket + 1, d.name.find(']') - bracket - 1));
    d.count = size.empty() ? 0 : number(size);
    d.name = trimmed(d.name.substr(0, bracket));
  }
  return d;
}

// ".param .u64 .ptr .global .align 16 name" or ".param .align 8 .b8 name[24]".
Parameter read_parameter(std::string_view text, int& offset) {
  Parameter p;
  int align = 0, bytes = 0;
  int64_t count = 1;
  Cursor c(text, 0);
  bool pointer = false;
  while (c.peek() == '.') {
    c.advance(1);
    const std::string_view word = c.name();
    if (word == "align") {
      const int value = static_cast<int>(number(c.name()));
      if (!pointer) align = value;  // .ptr .align is what it points at
    } else if (word == "ptr") {
      pointer = true;
    } else if (word != "param" && !pointer) {
      bytes = type_bytes(word);
    }
  }
  p.name = c.name();
  if (c.peek() == '[') {
    c.advance(1);
    count = number(c.until("]"));
  }
  if (align == 0) align = bytes;
  offset = (offset + align - 1) / align * align;
  p.offset = offset;
  p.bytes = static_cast<int>(bytes * count);
  offset += p.bytes;
  return p;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    if (const std::string_view part = trimmed(text.substr(start, i - start)); !part.empty()) parts.push_back(part);
    start = i + 1;
  }
  return parts;
}

int type_bytes(std::string_view type) {
  if (type == "pred") return 0;
  if (type == "f16x2" || type == "bf16x2") return 4;
  if (type == "bf16") return 2;
  const std::string_view digits = type.substr(std::min<size_t>(1, type.size()));
  if (digits == "8") return 1;
  if (digits == "16") return 2;
  if (digits == "32") return 4;
  if (digits == "64") return 8;
  throw Error("PTX: type '{}' is not supported", type);
}

Module::Module(std::string text) : text_(std::move(text)) {
  Cursor c(text_, 1);
  std::string version;
  while (!c.done()) {
    if (c.take(".version")) {
      const std::string_view major = c.name();
      c.take(".");
      version = fmt::format("{}.{}", major, c.name());
      if (const int64_t n = number(major); n < 7 || n > 9)
        throw Error("PTX {} is not supported; versions 7 to 9 are", version);
    } else if (c.take(".target")) {
      target_ = c.name();
      while (c.take(",")) c.name();  // options such as debug
    } else if (c.take(".address_size")) {
      if (const std::string_view bits = c.name(); bits != "64") throw Error("PTX: addresses of {} bits", bits);
    } else if (c.take(".file")) {
      const int file = static_cast<int>(number(c.name()));
      c.take("\"");
      files_[file] = c.until("\"");
      while (c.take(",")) c.name();  // its date and size
    } else if (c.take(".visible") || c.take(".weak")) {
      continue;
    } else if (c.take(".entry")) {
      EntryText e;
      e.name = c.name();
      if (c.take("("))
        for (const std::string_view p : split_operands(c.until(")")))
          e.parameters.push_back(read_parameter(p, e.parameter_bytes));
      while (c.peek() == '.') {  // .maxntid 256, 1, 1
        c.advance(1);
        const std::string_view what = c.name();
        int64_t product = number(c.name());
        while (c.take(",")) product *= number(c.name());
        if (what == "maxntid" || what == "reqntid") e.max_threads = static_cast<int>(product);
      }
      if (!c.take("{")) throw Error("PTX line {}: no body of {} follows", c.line(), e.name);
      e.line = c.line();
      const size_t begin = c.position();
      for (int depth = 1; depth > 0;) {
        const size_t brace = c.rest().find_first_of("{}");
        if (brace == std::string_view::npos) throw Error("PTX: the body of {} does not end", e.name);
        depth += c.rest()[brace] == '{' ? 1 : -1;
        c.advance(brace + 1);
      }
      e.body = std::string_view(text_).substr(begin, c.position() - begin - 1);
      entries_.push_back(std::move(e));
    } else if (c.take(".section")) {  // debug information: {...}, of braces alone at line ends
      c.until("{");
      c.until("\n}");
    } else if (c.take(".pragma")) {
      c.until(";");
    } else if (c.take(".func")) {
      throw Error("PTX line {}: functions that are called (.func) are not supported", c.line());
    } else if (c.peek() == '.') {
      variables_.push_back(read_declaration(trimmed(c.until(";"))));
    } else {
      throw Error("PTX line {}: '{}' is not understood", c.line(), c.rest().substr(0, 40));
    }
  }
  if (version.empty()) throw Error("PTX: a text without .version");
}

std::string Module::file(int number) const {
  const auto found = files_.find(number);
  return found == files_.end() ? "" : found->second;
}

std::vector<Statement> Module::statements(const EntryText& entry) const {
  std::vector<Statement> all;
  Cursor c(entry.body, entry.line);
  SourceLine source;
  while (!c.done()) {
    Statement s;
    s.line = c.line();
    s.source = source;
    if (c.take("{")) {
      s.kind = Statement::Kind::open;
    } else if (c.take("}")) {
      s.kind = Statement::Kind::close;
    } else if (c.take(";")) {
      continue;
    } else if (c.take(".loc")) {  // .loc 1 23 0, function_name ..., inlined_at 1 34 5
      source.file = static_cast<int>(number(c.name()));
      source.line = static_cast<int>(number(c.name()));
      c.advance(std::min(c.rest().find('\n'), c.rest().size()));
      continue;
    } else if (c.take(".pragma")) {
      c.until(";");
      continue;
    } else if (c.peek() == '.') {
      s.kind = Statement::Kind::declaration;
      s.declaration = read_declaration(trimmed(c.until(";")));
    } else {
      const Cursor start = c;
      const std::string_view word = c.name();
      if (!word.empty() && c.peek() == ':' && !c.rest().starts_with("::")) {
        c.advance(1);
        s.kind = Statement::Kind::label;
        s.opcode = word;
      } else {
        c = start;
        std::string_view text = trimmed(c.until(";"));
        if (text.starts_with('@')) {
          const size_t blank = text.find_first_of(kBlank);
          s.predicate = text.substr(1, blank - 1);
          text = trimmed(text.substr(std::min(blank, text.size())));
        }
        const size_t blank = std::min(text.find_first_of(kBlank), text.size());
        s.opcode = text.substr(0, blank);
        s.operands = split_operands(text.substr(blank));
      }
    }
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace duet::softgpu
