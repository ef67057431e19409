// SPDX-License-Identifier: Apache-2.0
// From the statements of a kernel to instructions: forms are looked up, registers and constants get their places.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <unordered_map>

#include "core/error.h"
#include "softgpu/forms.h"
#include "softgpu/lanes.h"
#include "softgpu/program.h"

namespace duet::softgpu {
namespace {

constexpr int kPredicate = 0;  // as a number of bytes

struct Register {
  int bytes = 0;
  int place = kNone;  // kNone until an instruction uses it
};

// Names of one pair of braces. Inline assembly opens scopes of its own and may use a name again.
struct Scope {
  struct Family {  // .reg .b32 %r<12>
    int count = 0, bytes = 0;
  };
  std::map<std::string, Family, std::less<>> families;
  std::map<std::string, Register, std::less<>> registers;
};

class Decoder {
 public:
  Decoder(const Module& module, const EntryText& entry, const Addresses& constants, Kernel& kernel)
      : module_(module), addresses_(constants), kernel_(kernel) {
    kernel.name = entry.name;
    kernel.parameters = entry.parameters;
    kernel.parameter_bytes = entry.parameter_bytes;
    kernel.max_threads = entry.max_threads;
    kernel.module = &module;
    // Registers are aligned to cache lines: the first place is too.
    scopes_.emplace_back();
    declare_variables(entry.body);
  }

  void run(const std::vector<Statement>& statements) {
    for (const Statement& s : statements) {
      line_ = s.line;
      switch (s.kind) {
        case Statement::Kind::open:
          scopes_.emplace_back();
          break;
        case Statement::Kind::close:
          scopes_.pop_back();
          break;
        case Statement::Kind::label:
          labels_[std::string(s.opcode)] = static_cast<int>(kernel_.code.size());
          break;
        case Statement::Kind::declaration:
          declare(s.declaration);
          break;
        case Statement::Kind::instruction:
          instruction(s);
          break;
      }
    }
    Instruction end;  // a body may end without ret
    end.handler = forms().at("ret").handler;
    end.flow = Flow::exit;
    end.line = line_;
    kernel_.code.push_back(end);
    for (const auto& [index, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) fail("branch to '{}', which is no label", label);
      kernel_.code[index].target = found->second;
    }
    const uint32_t align = kernel_.dynamic_shared_align;
    kernel_.shared_bytes = (kernel_.shared_bytes + align - 1) / align * align;
    const uint64_t dynamic = kernel_.shared_bytes;  // where it begins: known only now
    for (const auto& [place, bytes] : dynamic_addresses_)
      for (int l = 0; l < kLanes; ++l)
        std::memcpy(&kernel_.registers[static_cast<size_t>(place + l * bytes)], &dynamic, static_cast<size_t>(bytes));
  }

 private:
  template <class First, class... Rest>
  [[noreturn]] void fail(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) const {
    throw Error("{}, PTX line {}: {}", readable_name(kernel_.name), line_,
                fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

  int make_place(int bytes) {
    const size_t place = kernel_.registers.size();
    kernel_.registers.resize(place + static_cast<size_t>(bytes == kPredicate ? 64 : std::max(64, bytes * kLanes)),
                             0xFF);
    return static_cast<int>(place);
  }

  int constant(uint64_t value, int bytes) {
    const auto [at, is_new] = constants_.try_emplace({value, bytes}, 0);
    if (!is_new) return at->second;
    at->second = make_place(bytes);
    uint8_t* to = &kernel_.registers[static_cast<size_t>(at->second)];
    if (bytes == kPredicate) {
      const uint32_t bits = value ? kAllLanes : 0;
      std::memcpy(to, &bits, sizeof bits);
    } else {
      for (int l = 0; l < kLanes; ++l) std::memcpy(to + l * bytes, &value, static_cast<size_t>(bytes));
    }
    return at->second;
  }

  // Shared variables of the module that this kernel names.
  void declare_variables(std::string_view body) {
    for (const bool dynamic : {true, false})
      for (const Declaration& d : module_.variables())
        if (d.space == "shared" && (d.count == 0) == dynamic && body.find(d.name) != std::string_view::npos) declare(d);
  }

  void declare(const Declaration& d) {
    if (d.space == "reg") {
      for (const std::string_view name : split_operands(d.name)) {
        const size_t open = name.find('<');
        const int bytes = type_bytes(d.type);
        if (open == std::string_view::npos)
          scopes_.back().registers[std::string(name)] = {bytes, kNone};
        else
          scopes_.back().families[std::string(name.substr(0, open))] = {
              static_cast<int>(integer(name.substr(open + 1, name.find('>') - open - 1))), bytes};
      }
      return;
    }
    if (d.has_values || (d.space != "shared" && d.space != "local"))
      fail("variable '{}' in .{} is not supported", d.name, d.space);
    const std::string name(d.name);
    if (d.space == "shared" && d.count == 0) {
      kernel_.dynamic_shared_align = std::max(kernel_.dynamic_shared_align, static_cast<uint32_t>(d.align));
      variables_[name] = kDynamic;
      return;
    }
    uint32_t& used = d.space == "shared" ? kernel_.shared_bytes : kernel_.local_bytes;
    const int element = type_bytes(d.type);
    const auto align = static_cast<uint32_t>(std::max(d.align, element));
    used = (used + align - 1) / align * align;
    variables_[name] = used;
    used += static_cast<uint32_t>(d.count * element);
  }

  int64_t integer(std::string_view text) const {
    bool negative = false;
    std::string_view digits = text;
    if (digits.starts_with('-')) {
      negative = true;
      digits.remove_prefix(1);
    }
    if (digits.ends_with('U')) digits.remove_suffix(1);
    int base = 10;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
      base = 16;
      digits.remove_prefix(2);
    }
    uint64_t value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (status != std::errc() || end != digits.data() + digits.size()) fail("'{}' is no number", text);
    return static_cast<int64_t>(negative ? 0 - value : value);
  }

  // 12, -3, 0f3F800000 (bits of an f32), 0d3FF0000000000000.
  uint64_t literal(std::string_view text) const {
    if (text.size() > 2 && text[0] == '0' && std::string_view("fFdD").find(text[1]) != std::string_view::npos) {
      uint64_t bits = 0;
      std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
      return bits;
    }
    return static_cast<uint64_t>(integer(text));
  }

  Register* find_register(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->registers.find(name); found != scope->registers.end()) return &found->second;
      const size_t digits = name.find_last_not_of("0123456789") + 1;
      if (digits == name.size()) continue;
      const auto family = scope->families.find(name.substr(0, digits));
      if (family == scope->families.end() || integer(name.substr(digits)) >= family->second.count) continue;
      return &(scope->registers[std::string(name)] = {family->second.bytes, kNone});
    }
    return nullptr;
  }

  static bool is_special(std::string_view name) {
    for (const char* known : {"%tid.", "%ntid.", "%ctaid.", "%nctaid."})
      if (name.starts_with(known)) return true;
    for (const char* known :
         {"%laneid", "%warpid", "%nwarpid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge",
          "%lanemask_gt", "%dynamic_smem_size", "%total_smem_size", "%smid", "%nsmid", "%WARP_SZ"})
      if (name == known) return true;
    return false;
  }

  int special(std::string_view name) {
    for (const SpecialRegister& s : kernel_.specials)
      if (s.name == name) return s.place;
    kernel_.specials.push_back({std::string(name), make_place(4)});
    return kernel_.specials.back().place;
  }

  // The place of an operand of `bytes` bytes. A register must have just that width.
  int operand(std::string_view text, int bytes) {
    if (text == "_") return kNone;
    if (Register* r = find_register(text)) {
      if (r->bytes != bytes) fail("register {} of {} bytes where {} are expected", text, r->bytes, bytes);
      if (r->place == kNone) r->place = make_place(bytes);
      return r->place;
    }
    if (text.starts_with('%')) {
      if (!is_special(text)) fail("register {} is not supported", text);
      if (bytes != 4) fail("register {} has 4 bytes where {} are expected", text, bytes);
      return special(text);
    }
    if (const auto found = variables_.find(std::string(text)); found != variables_.end()) {
      if (found->second != kDynamic) return constant(found->second, bytes);
      const int place = make_place(bytes);
      dynamic_addresses_.emplace_back(place, bytes);
      return place;
    }
    for (const Declaration& d : module_.variables())
      if (d.space == "const" && d.name == text) return constant(address_of(d), bytes);
    for (const Parameter& p : kernel_.parameters)
      if (p.name == text) return constant(static_cast<uint64_t>(p.offset), bytes);
    if (text == "WARP_SZ") return constant(kLanes, bytes);
    if (!text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'))) return constant(literal(text), bytes);
    fail("operand '{}' is not understood", text);
  }

  uint64_t address_of(const Declaration& d) const {
    if (d.has_values) fail("variable '{}' in .const that has values from the start is not supported", d.name);
    const auto found = addresses_.find(d.name);
    if (found == addresses_.end()) fail("variable '{}' in .const is not registered", d.name);
    return found->second;
  }

  int register_bytes(std::string_view text, int otherwise) {
    const Register* r = find_register(text);
    return r ? r->bytes : otherwise;
  }

  // [register + 16], [variable], [parameter + 8]
  void address(std::string_view text, Instruction& i) {
    if (!text.starts_with('[') || !text.ends_with(']')) fail("'{}' is no address", text);
    std::string_view inside = trimmed(text.substr(1, text.size() - 2));
    if (const size_t plus = inside.find('+'); plus != std::string_view::npos) {
      i.offset = integer(trimmed(inside.substr(plus + 1)));
      inside = trimmed(inside.substr(0, plus));
    }
    const int bytes = register_bytes(inside, 8);
    i.wide_address = bytes == 8;
    i.a = operand(inside, bytes);
  }

  std::vector<std::string_view> elements(std::string_view text) const {
    if (!text.starts_with('{')) return {text};
    return split_operands(text.substr(1, text.size() - 2));
  }

  // Elements of a load or a store, and the handler for the width of their registers.
  void moved(std::string_view text, const Form& form, Instruction& i) {
    const auto parts = elements(text);
    int bytes = std::max(2, form.dst_bytes);
    for (const std::string_view part : parts)
      if (const Register* r = find_register(part)) bytes = r->bytes;
    i.handler = form.by_register[bytes == 2 ? 0 : bytes == 4 ? 1 : 2];
    if (!i.handler) fail("{} bytes in a register of {}", form.dst_bytes, bytes);
    if (parts.size() > 4) fail("a vector of {} elements", parts.size());
    for (size_t e = 0; e < parts.size(); ++e) i.list[e] = operand(parts[e], bytes);
    i.dst = i.list[0];
    i.count = static_cast<uint8_t>(parts.size());
  }

  void require_operands(const Statement& s, size_t fewest, size_t most) const {
    if (s.operands.size() < fewest || s.operands.size() > most)
      fail("'{}' with {} operands", s.opcode, s.operands.size());
  }

  // A predicate as an operand: %p, !%p, 0, 1. !%p is turned over into a place of its own.
  int predicate(std::string_view text, const Instruction& like) {
    if (!text.starts_with('!')) return operand(text, kPredicate);
    Instruction turn = like;
    turn.handler = forms().at("not.pred").handler;
    turn.flow = Flow::next;
    turn.a = operand(text.substr(1), kPredicate);
    turn.b = kNone;
    turn.dst = make_place(kPredicate);
    kernel_.code.push_back(turn);
    return turn.dst;
  }

  void instruction(const Statement& s) {
    Instruction i;
    i.line = s.line;
    i.source = s.source;
    if (!s.predicate.empty()) {
      i.negated = s.predicate.starts_with('!');
      i.predicate = operand(i.negated ? s.predicate.substr(1) : s.predicate, kPredicate);
    }
    std::string name = canonical_name(s.opcode);
    if (name.starts_with("mov.")) {
      require_operands(s, 2, 2);
      if (s.operands[1].starts_with('{')) return pack(s, i);
      if (s.operands[0].starts_with('{')) return unpack(s, i);
      if (s.operands[1].starts_with("%globaltimer") || s.operands[1] == "%clock64") {
        name = "mov.u64.globaltimer";
        kernel_.reads_clock = true;
      }
    }
    const auto found = forms().find(name);
    if (found == forms().end()) fail("the form '{}' is not supported", s.opcode);
    const Form& form = found->second;
    i.handler = form.handler;
    i.flow = form.flow;
    switch (form.shape) {
      case Shape::plain:
        plain(s, form, name, i);
        break;
      case Shape::predicate: {
        require_operands(s, 3, 4);
        const size_t bar = s.operands[0].find('|');
        i.dst = operand(trimmed(s.operands[0].substr(0, bar)), kPredicate);
        if (bar != std::string_view::npos) i.d = operand(trimmed(s.operands[0].substr(bar + 1)), kPredicate);
        i.a = operand(s.operands[1], form.a_bytes);
        i.b = operand(s.operands[2], form.b_bytes);
        if (s.operands.size() > 3) i.c = predicate(s.operands[3], i);
        break;
      }
      case Shape::convert:
        return convert(s, form, i);
      case Shape::load:
        require_operands(s, 2, 2);
        moved(s.operands[0], form, i);
        address(s.operands[1], i);
        break;
      case Shape::store:
        require_operands(s, 2, 2);
        moved(s.operands[1], form, i);
        address(s.operands[0], i);
        break;
      case Shape::load_local:
      case Shape::store_local: {
        require_operands(s, 2, 2);
        const bool is_load = form.shape == Shape::load_local;
        moved(s.operands[is_load ? 0 : 1], form, i);
        address(s.operands[is_load ? 1 : 0], i);
        if (!i.wide_address) fail("'{}' with an address of 32 bits", s.opcode);
        i.offset += static_cast<int64_t>(kLocalWindow);
        break;
      }
      case Shape::parameter:
        require_operands(s, 2, 2);
        moved(s.operands[0], form, i);
        address(s.operands[1], i);
        break;
      case Shape::atomic:
        require_operands(s, 3, 4);
        address(s.operands[1], i);
        i.dst = operand(s.operands[0], form.dst_bytes);
        i.b = operand(s.operands[2], form.b_bytes);
        if (s.operands.size() > 3) i.c = operand(s.operands[3], form.c_bytes);
        break;
      case Shape::reduce:
        require_operands(s, 2, 2);
        address(s.operands[0], i);
        i.b = operand(s.operands[1], form.b_bytes);
        break;
      case Shape::shuffle: {
        require_operands(s, 5, 5);
        const size_t bar = s.operands[0].find('|');
        i.dst = operand(trimmed(s.operands[0].substr(0, bar)), 4);
        if (bar != std::string_view::npos) i.d = operand(trimmed(s.operands[0].substr(bar + 1)), kPredicate);
        i.a = operand(s.operands[1], 4);
        i.b = operand(s.operands[2], 4);
        i.c = operand(s.operands[3], 4);
        i.members = operand(s.operands[4], 4);
        break;
      }
      case Shape::vote:
        require_operands(s, 3, 3);
        i.dst = operand(s.operands[0], form.dst_bytes);
        if (s.operands[1].starts_with('!')) i.offset = kAllLanes;
        i.a = operand(s.operands[1].substr(s.operands[1].starts_with('!') ? 1 : 0), kPredicate);
        i.members = operand(s.operands[2], 4);
        break;
      case Shape::members:
        require_operands(s, 3, 3);
        i.dst = operand(s.operands[0], form.dst_bytes);
        i.a = operand(s.operands[1], form.a_bytes);
        i.members = operand(s.operands[2], 4);
        break;
      case Shape::matrix:
        require_operands(s, 4, 4);
        i.more = static_cast<uint32_t>(kernel_.operands.size());
        for (const std::string_view fragment : s.operands)
          for (const std::string_view part : elements(fragment)) kernel_.operands.push_back(operand(part, 4));
        break;
      case Shape::warpgroup: {
        require_operands(s, 4, 8);
        i.more = static_cast<uint32_t>(kernel_.operands.size());
        const auto sums = elements(s.operands[0]);
        const size_t columns = s.opcode.find("n64k") != s.opcode.npos    ? 64
                               : s.opcode.find("n128k") != s.opcode.npos ? 128
                                                                         : 256;
        if (sums.size() != columns / 2) fail("'{}' with {} sums", s.opcode, sums.size());
        for (const std::string_view part : sums) kernel_.operands.push_back(operand(part, 4));
        i.count = static_cast<uint8_t>(sums.size());
        const bool in_registers = s.operands[1].starts_with('{');
        if (in_registers) {
          const auto parts = elements(s.operands[1]);
          if (parts.size() != 4) fail("'{}' with a in {} registers", s.opcode, parts.size());
          for (const std::string_view part : parts) kernel_.operands.push_back(operand(part, 4));
        } else {
          i.a = operand(s.operands[1], 8);
        }
        i.b = operand(s.operands[2], 8);
        // The scale of the sums, the signs of a and b, then which of the operands in shared memory are transposed.
        i.list[0] = i.list[1] = 0;
        const size_t signs = 6;
        for (size_t o = 3; o < s.operands.size(); ++o) {
          const bool order = o >= signs && (s.operands[o] == "0" || s.operands[o] == "1");
          if (!order && (o >= signs || s.operands[o] != "1")) fail("'{}' with operand '{}'", s.opcode, s.operands[o]);
          if (order) i.list[in_registers ? 1 : o - signs] = s.operands[o] == "1";
        }
        break;
      }
      case Shape::ldmatrix: {
        require_operands(s, 2, 2);
        const auto parts = elements(s.operands[0]);
        if (parts.size() > 4) fail("ldmatrix into {} registers", parts.size());
        for (size_t e = 0; e < parts.size(); ++e) i.list[e] = operand(parts[e], 4);
        i.dst = i.list[0];
        address(s.operands[1], i);
        break;
      }
      case Shape::texture: {
        require_operands(s, 2, 2);
        const auto parts = elements(s.operands[0]);
        const auto source = split_operands(s.operands[1].substr(1, s.operands[1].size() - 2));
        if (parts.size() != 4 || source.size() != 2) fail("'{}' of {} registers", s.opcode, parts.size());
        for (size_t e = 0; e < parts.size(); ++e) i.list[e] = operand(parts[e], 4);
        i.a = operand(source[0], 8);
        const auto index = elements(source[1]);
        if (index.size() != 1) fail("'{}' with an index of {} parts", s.opcode, index.size());
        i.b = operand(index[0], 4);
        break;
      }
      case Shape::copy: {
        require_operands(s, 3, 4);
        Instruction source;
        address(s.operands[1], source);
        address(s.operands[0], i);
        i.b = source.a;
        i.list[0] = static_cast<int>(source.offset);
        i.count = static_cast<uint8_t>(integer(s.operands[2]));
        if (s.operands.size() > 3) i.c = operand(s.operands[3], 4);
        if (!source.wide_address) fail("'{}' with a source address of 32 bits", s.opcode);
        break;
      }
      case Shape::constant:
        require_operands(s, 1, 1);
        if (form.flow == Flow::members)
          i.members = operand(s.operands[0], 4);
        else
          i.offset = integer(s.operands[0]);
        break;
      case Shape::barrier:
        require_operands(s, 1, 2);
        i.offset = name.find("arrive") != std::string::npos;
        i.a = operand(s.operands[0], 4);
        if (s.operands.size() > 1) i.b = operand(s.operands[1], 4);
        break;
      case Shape::branch:
        require_operands(s, 1, 1);
        branches_.emplace_back(kernel_.code.size(), std::string(s.operands[0]));
        break;
      case Shape::bare:
        if (name == "cp.async.wait_all") i.offset = -1;
        break;
    }
    kernel_.code.push_back(i);
  }

  void plain(const Statement& s, const Form& form, const std::string& name, Instruction& i) {
    require_operands(s, 1, 5);
    i.dst = operand(s.operands[0], form.dst_bytes);
    if (name == "mov.u64.globaltimer") return;
    const bool of_predicates = form.a_bytes == kPredicate;
    if (s.operands.size() > 1) i.a = of_predicates ? predicate(s.operands[1], i) : operand(s.operands[1], form.a_bytes);
    if (s.operands.size() > 2)
      i.b = form.b_bytes == kPredicate ? predicate(s.operands[2], i) : operand(s.operands[2], form.b_bytes);
    if (s.operands.size() > 3)
      i.c = form.c_bytes == kPredicate ? predicate(s.operands[3], i) : operand(s.operands[3], form.c_bytes);
    if (s.operands.size() > 4) i.d = operand(s.operands[4], 4);
  }

  // Registers of cvt may be wider than its types: "the low bits are used" of the source, and the result is extended.
  void convert(const Statement& s, const Form& form, Instruction i) {
    require_operands(s, 2, 3);
    const auto resize = [&](int from, int from_bytes, int to, int to_bytes, bool sign) {
      Instruction r = i;
      r.flow = Flow::next;
      r.handler = resize_handler(from_bytes, to_bytes, sign);
      r.a = from;
      r.dst = to;
      kernel_.code.push_back(r);
    };
    const auto source = [&](std::string_view text, int bytes) {
      const int stored = register_bytes(text, bytes);
      const int place = operand(text, stored);
      if (stored == bytes) return place;
      const int narrow = make_place(bytes);
      resize(place, stored, narrow, bytes, false);
      return narrow;
    };
    i.a = source(s.operands[1], form.a_bytes);
    if (s.operands.size() > 2) i.b = source(s.operands[2], form.b_bytes);
    const int stored = register_bytes(s.operands[0], form.dst_bytes);
    const int place = operand(s.operands[0], stored);
    if (stored == form.dst_bytes) {
      i.dst = place;
      kernel_.code.push_back(i);
      return;
    }
    i.dst = make_place(form.dst_bytes);
    kernel_.code.push_back(i);
    const std::string_view op = s.opcode;
    const std::string_view types = op.substr(0, op.rfind('.'));
    resize(i.dst, form.dst_bytes, place, stored, types[types.rfind('.') + 1] == 's');
  }

  void pack(const Statement& s, Instruction& i) {
    const int bytes = type_bytes(s.opcode.substr(s.opcode.rfind('.') + 1));
    const auto parts = elements(s.operands[1]);
    const int each = bytes / static_cast<int>(parts.size());
    for (size_t e = 0; e < parts.size() && e < 4; ++e) i.list[e] = operand(parts[e], each);
    i.dst = operand(s.operands[0], bytes);
    i.handler = join_handler(bytes, each);
    if (!i.handler) fail("'{}' of {} parts", s.opcode, parts.size());
    kernel_.code.push_back(i);
  }

  void unpack(const Statement& s, Instruction& i) {
    const int bytes = type_bytes(s.opcode.substr(s.opcode.rfind('.') + 1));
    const auto parts = elements(s.operands[0]);
    const int each = bytes / static_cast<int>(parts.size());
    for (size_t e = 0; e < parts.size() && e < 4; ++e) i.list[e] = operand(parts[e], each);
    i.a = operand(s.operands[1], bytes);
    i.handler = split_handler(bytes, each);
    if (!i.handler) fail("'{}' into {} parts", s.opcode, parts.size());
    kernel_.code.push_back(i);
  }

  static constexpr uint32_t kDynamic = 0xffffffff;  // the offset is known at the end
  const Module& module_;
  const Addresses& addresses_;
  Kernel& kernel_;
  int line_ = 0;
  std::vector<Scope> scopes_;
  std::map<std::pair<uint64_t, int>, int> constants_;
  std::unordered_map<std::string, uint32_t> variables_;
  std::unordered_map<std::string, int> labels_;
  std::vector<std::pair<size_t, std::string>> branches_;
  std::vector<std::pair<int, int>> dynamic_addresses_;
};
}  // namespace

std::unique_ptr<Kernel> decode(const Module& module, const EntryText& entry, const Addresses& constants) {
  auto kernel = std::make_unique<Kernel>();
  Decoder decoder(module, entry, constants, *kernel);
  decoder.run(module.statements(entry));
  return kernel;
}

}  // namespace duet::softgpu
