// SPDX-License-Identifier: Apache-2.0
// PTX as text: a module is cut into kernels, a kernel into declarations and statements. What a statement means is not
// known here: that is decode.h.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace duet::softgpu {

// A place in a CUDA source file, from .loc and .file.
struct SourceLine {
  int file = 0, line = 0;
};

struct Declaration {
  std::string_view space;  // reg, shared, local, const, global
  std::string_view type;   // b32
  std::string_view name;   // %r<12>, buffer
  int64_t count = 1;       // of an array; 0: its size is given at the launch
  int align = 0;
  bool is_extern = false, has_values = false;
};

struct Statement {
  enum class Kind : uint8_t { instruction, declaration, label, open, close } kind = Kind::instruction;
  std::string_view predicate;  // of an instruction: %p1, !%p1
  std::string_view opcode;     // or the label
  std::vector<std::string_view> operands;
  Declaration declaration;
  int line = 0;  // of the module
  SourceLine source;
};

struct Parameter {
  std::string_view name;
  int offset = 0, bytes = 0;
};

// One .entry: its signature, and where its body is.
struct EntryText {
  std::string name;
  std::vector<Parameter> parameters;
  int parameter_bytes = 0;
  int max_threads = 0;  // .maxntid, or 0
  std::string_view body;
  int line = 0;  // of the module, where the body begins
};

class Module {
 public:
  explicit Module(std::string text);  // throws Error where the text is no PTX module of a known version
  Module(const Module&) = delete;
  const std::string& target() const { return target_; }
  const std::vector<EntryText>& entries() const { return entries_; }
  const std::vector<Declaration>& variables() const { return variables_; }  // of the module's scope
  std::string file(int number) const;                                       // "" where unknown
  std::vector<Statement> statements(const EntryText& entry) const;

 private:
  std::string text_, target_;
  std::vector<EntryText> entries_;
  std::vector<Declaration> variables_;
  std::map<int, std::string> files_;
};

// Helpers of the readers.
std::string_view trimmed(std::string_view text);
// At commas outside braces and brackets.
std::vector<std::string_view> split_operands(std::string_view text);
// Bytes of a fundamental type: "f32" 4, "pred" 0. Throws Error for another.
int type_bytes(std::string_view type);

}  // namespace duet::softgpu
