// SPDX-License-Identifier: Apache-2.0
// Layout of a fat binary: a header, then parts, each with a header of its own. A part of machine code is an ELF file (a
// "cubin") with a section .text.<mangled name> for each kernel, of 16 bytes an instruction. nvcc gives an anonymous
// namespace a name with the file in it: "_GLOBAL__N__19c3a799_16_softmax_tuned_cu_652fc471_32662".
#include "cli/kernel_code.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <regex>

#include "cli/kernel_resources.h"
#include "core/lz4.h"

namespace duet {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint32_t kFatBinary = 0xBA55ED50;
constexpr uint16_t kMachineCode = 2;               // the other kind is PTX
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000;  // how a part is compressed
constexpr size_t kInstruction = 16;
constexpr uint64_t kNop = 0x918, kOpcodeMask = 0xfff;

struct FatHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // of the parts
};
struct PartHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes, options_offset;
  uint16_t minor, major;
  uint32_t architecture, name_offset, name_bytes;
  uint64_t flags, reserved, expanded_bytes;
};

template <class T>
std::optional<T> read(Bytes data, uint64_t offset) {
  if (offset > data.size() || data.size() - offset < sizeof(T)) return {};
  T value;
  std::memcpy(&value, data.data() + offset, sizeof value);
  return value;
}
Bytes part_of(Bytes data, uint64_t offset, uint64_t bytes) {
  return offset <= data.size() && bytes <= data.size() - offset ? data.subspan(offset, bytes) : Bytes{};
}

struct Section {
  std::string name;
  Bytes data;
};

std::vector<Section> sections_of(Bytes elf) {
  const auto header = read<Elf64_Ehdr>(elf, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
    return {};
  const auto section = [&](uint64_t i) { return read<Elf64_Shdr>(elf, header->e_shoff + i * sizeof(Elf64_Shdr)); };
  const auto names_section = section(header->e_shstrndx);
  if (!names_section) return {};
  const Bytes names = part_of(elf, names_section->sh_offset, names_section->sh_size);
  std::vector<Section> all;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto s = section(i);
    if (!s || s->sh_type == SHT_NOBITS || s->sh_name >= names.size()) continue;
    const auto* const name = reinterpret_cast<const char*>(names.data()) + s->sh_name;
    all.push_back(
        {std::string(name, strnlen(name, names.size() - s->sh_name)), part_of(elf, s->sh_offset, s->sh_size)});
  }
  return all;
}

int64_t instructions_in(Bytes code) {
  int64_t count = 0;
  for (size_t at = 0; at + kInstruction <= code.size(); at += kInstruction)
    count += (*read<uint64_t>(code, at) & kOpcodeMask) != kNop;
  return count;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         std::free);
  return text ? text.get() : name;
}

// The .cu file of a cubin, by its anonymous namespace; empty where none of its kernels is in one.
std::string file_of(const std::vector<Section>& cubin) {
  static const std::regex in_namespace(R"(_GLOBAL__N__[0-9a-f]+_[0-9]+_(\w+)_cu_[0-9a-f]+_)");
  for (const Section& s : cubin)
    if (std::smatch match; std::regex_search(s.name, match, in_namespace)) return match[1].str() + ".cu";
  return "";
}

// Calls use(sections) of this program's file.
template <class Use>
void read_this_program(const Use& use) {
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  struct stat status {};
  const bool known = fstat(file, &status) == 0 && status.st_size > 0;
  const auto bytes = static_cast<size_t>(known ? status.st_size : 0);
  void* const mapped = known ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (mapped == MAP_FAILED) return;
  use(sections_of({static_cast<const uint8_t*>(mapped), bytes}));
  munmap(mapped, bytes);
}

std::vector<KernelCode> of_this_program() {
  std::vector<KernelCode> all;
  read_this_program([&](const std::vector<Section>& sections) {
    for (const Section& s : sections)
      if (s.name == ".nv_fatbin") all = parse_fat_binaries(s.data);
  });
  return all;
}

// By address, before the program is loaded: the functions that are one .cu file's own. In the table of symbols, those
// of a file follow its name.
std::map<uint64_t, std::string> own_functions() {
  std::map<uint64_t, std::string> found;
  read_this_program([&](const std::vector<Section>& sections) {
    Bytes symbols, names;
    for (const Section& s : sections) {
      if (s.name == ".symtab") symbols = s.data;
      if (s.name == ".strtab") names = s.data;
    }
    std::string file;
    for (uint64_t at = 0; const auto symbol = read<Elf64_Sym>(symbols, at); at += sizeof(Elf64_Sym)) {
      if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL || symbol->st_name >= names.size()) continue;
      if (ELF64_ST_TYPE(symbol->st_info) == STT_FILE) {
        const auto* const name = reinterpret_cast<const char*>(names.data()) + symbol->st_name;
        file = std::string(name, strnlen(name, names.size() - symbol->st_name));
      } else if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && file.ends_with(".cu")) {
        found[symbol->st_value] = file;
      }
    }
  });
  return found;
}

uint64_t load_address() {
  uint64_t address = 0;  // the program is the first object
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* out) {
        *static_cast<uint64_t*>(out) = object->dlpi_addr;
        return 1;
      },
      &address);
  return address;
}

// nvcc compresses machine code where it is large. Empty where the data are damaged.
std::string expanded_or_empty(Bytes data, const PartHeader& part) {
  if (part.compressed_bytes > data.size()) return "";
  try {
    return expand_lz4(data.data(), part.compressed_bytes, part.expanded_bytes);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::vector<KernelCode> parse_fat_binaries(Bytes section) {
  const std::string text = ".text.";
  std::vector<KernelCode> all;
  for (uint64_t at = 0; const auto fat = read<FatHeader>(section, at);) {
    if (fat->magic != kFatBinary) {  // they are aligned
      at += 8;
      continue;
    }
    const Bytes parts = part_of(section, at + fat->header_bytes, fat->bytes);
    if (parts.empty()) break;
    for (uint64_t next = 0; const auto part = read<PartHeader>(parts, next);) {
      const Bytes elf = part_of(parts, next + part->header_bytes, part->bytes);
      if (elf.empty()) break;
      if (part->kind == kMachineCode && !(part->flags & kZstd)) {
        std::string expanded;
        if (part->flags & kLz4) expanded = expanded_or_empty(elf, *part);
        const std::vector<Section> sections = sections_of(
            part->flags & kLz4 ? Bytes(reinterpret_cast<const uint8_t*>(expanded.data()), expanded.size()) : elf);
        const std::string file = file_of(sections);
        for (const Section& s : sections)
          if (s.name.starts_with(text))
            all.push_back({short_kernel_name(demangled(s.name.substr(text.size()))), file,
                           static_cast<int>(part->architecture), instructions_in(s.data)});
      }
      next += part->header_bytes + part->bytes;
    }
    at = (at + fat->header_bytes + fat->bytes + 7) / 8 * 8;
  }
  return all;
}

const std::vector<KernelCode>& kernel_code() {
  static const std::vector<KernelCode> all = of_this_program();
  return all;
}

std::string source_file_of(const void* function) {
  static const std::map<uint64_t, std::string> files = own_functions();
  const auto found = files.find(reinterpret_cast<uint64_t>(function) - load_address());
  return found == files.end() ? "" : found->second;
}

}  // namespace duet
