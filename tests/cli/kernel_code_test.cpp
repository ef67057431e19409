// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_code.h"

#include <elf.h>
#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "cli/kernel_resources.h"

namespace duet {
namespace {

using Bytes = std::vector<uint8_t>;

template <class T>
void append(Bytes& bytes, const T& value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// An ELF file with one section of code, as long as these opcodes.
Bytes cubin(const std::string& section, const std::vector<uint64_t>& opcodes) {
  std::string names = std::string("\0.shstrtab\0", 11) + section + '\0';
  Bytes code;
  for (const uint64_t opcode : opcodes) {
    append(code, opcode | 0x7000);  // not predicated
    append(code, uint64_t{0});
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  header.e_shoff = sizeof header + names.size() + code.size();
  Elf64_Shdr none{}, strings{}, text{};
  strings.sh_name = 1;
  strings.sh_type = SHT_STRTAB;
  strings.sh_offset = sizeof header;
  strings.sh_size = names.size();
  text.sh_name = 11;
  text.sh_type = SHT_PROGBITS;
  text.sh_offset = sizeof header + names.size();
  text.sh_size = code.size();
  Bytes elf;
  append(elf, header);
  elf.insert(elf.end(), names.begin(), names.end());
  elf.insert(elf.end(), code.begin(), code.end());
  for (const Elf64_Shdr& s : {none, strings, text}) append(elf, s);
  return elf;
}

// A part of a fat binary: of kind 2 (machine code) or 1 (PTX), for an architecture.
Bytes part(uint16_t kind, uint32_t architecture, const Bytes& data, uint64_t flags = 0) {
  Bytes bytes;
  append(bytes, kind);
  append(bytes, uint16_t{0x101});
  append(bytes, uint32_t{64});
  append(bytes, uint64_t{data.size()});
  append(bytes, uint64_t{0});  // not compressed
  append(bytes, uint32_t{0});
  append(bytes, architecture);
  append(bytes, uint64_t{0});
  append(bytes, flags);
  bytes.resize(64);
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

Bytes fat_binary(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& p : parts) all.insert(all.end(), p.begin(), p.end());
  Bytes bytes;
  append(bytes, uint32_t{0xBA55ED50});
  append(bytes, uint16_t{1});
  append(bytes, uint16_t{16});
  append(bytes, uint64_t{all.size()});
  bytes.insert(bytes.end(), all.begin(), all.end());
  return bytes;
}

constexpr uint64_t kMove = 0x202, kNop = 0x918, kExit = 0x94d;

TEST(KernelCode, InstructionsWithoutPadding) {
  const Bytes code = cubin(".text._Z10add_kernelPf", {kMove, kMove, kExit, kNop, kNop});
  Bytes section = fat_binary({part(1, 90, Bytes(24)), part(2, 90, code), part(2, 80, code, 0x8000)});
  section.resize((section.size() + 15) / 8 * 8);  // a gap before the next one
  const Bytes second = fat_binary({part(2, 100, cubin(".text._Z3onev", {kExit}))});
  section.insert(section.end(), second.begin(), second.end());
  const std::vector<KernelCode> all = parse_fat_binaries(section);
  ASSERT_EQ(all.size(), 2U) << "code compressed with zstd is left out";
  EXPECT_EQ(all[0].kernel, "add_kernel");
  EXPECT_EQ(all[0].file, "") << "no anonymous namespace tells it";
  EXPECT_EQ(all[0].architecture, 90);
  EXPECT_EQ(all[0].instructions, 3);
  EXPECT_EQ(all[1].kernel, "one");
  EXPECT_EQ(all[1].architecture, 100);
  EXPECT_EQ(all[1].instructions, 1);
}

TEST(KernelCode, CodeCompressedWithLz4IsExpanded) {
  const Bytes code = cubin(".text._Z10add_kernelPf", {kMove, kMove, kExit, kNop});
  Bytes block{0xf0};  // one sequence of literals alone
  size_t more = code.size() - 15;
  for (; more >= 255; more -= 255) block.push_back(255);
  block.push_back(static_cast<uint8_t>(more));
  block.insert(block.end(), code.begin(), code.end());
  const auto compressed = [&](uint32_t bytes, uint64_t expanded) {
    Bytes one = part(2, 90, block, 0x2000);
    std::memcpy(one.data() + 16, &bytes, sizeof bytes);
    std::memcpy(one.data() + 56, &expanded, sizeof expanded);
    return parse_fat_binaries(fat_binary({one}));
  };
  const auto size = static_cast<uint32_t>(block.size());
  const std::vector<KernelCode> all = compressed(size, code.size());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kernel, "add_kernel");
  EXPECT_EQ(all[0].instructions, 3);
  EXPECT_TRUE(compressed(size, code.size() + 1).empty()) << "damaged";
  EXPECT_TRUE(compressed(size + 1, code.size()).empty()) << "longer than its part";
}

TEST(KernelCode, FilesAreToldByTheirAnonymousNamespace) {
  const char* const kName =
      ".text._ZN4duet4cuda55_GLOBAL__N__ba45d0b1_16_unscale_naive_cu_93873d6a_1733212clear_kernelEPi";
  const std::vector<KernelCode> all = parse_fat_binaries(fat_binary({part(2, 90, cubin(kName, {kMove, kExit}))}));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kernel, "clear_kernel");
  EXPECT_EQ(all[0].file, "unscale_naive.cu");
}

TEST(KernelCode, OfAKernelIsThatOfItsFile) {
  const std::vector<KernelCode> all = {
      {"k", "a.cu", 90, 10}, {"k", "b.cu", 90, 20}, {"k", "b.cu", 80, 30}, {"l", "a.cu", 90, 40}, {"m", "", 90, 50}};
  const auto of = [&](const std::string& kernel, const std::string& file) {
    std::vector<int64_t> counts;
    for (const KernelCode& c : of_kernel(
             all, kernel, file, [](const KernelCode&a, const KernelCode&b) { return a.instructions > b.instructions; }))
      counts.push_back(c.instructions);
    return counts;
  };
  EXPECT_EQ(of("k", "a.cu"), std::vector<int64_t>{10});
  EXPECT_EQ(of("k", "b.cu"), (std::vector<int64_t>{20, 30}));
  EXPECT_EQ(of("k", ""), (std::vector<int64_t>{20, 30})) << "of copies that files share, the longest";
  EXPECT_EQ(of("m", "c.cu"), std::vector<int64_t>{50}) << "code of an unknown file";
}

// A function that is this file's own has no .cu file.
TEST(KernelCode, SourceFilesAreThoseOfKernels) {
  EXPECT_EQ(source_file_of(reinterpret_cast<const void*>(&cubin)), "");
  EXPECT_EQ(source_file_of(nullptr), "");
}

TEST(KernelCode, WhatIsCutShortIsNotRead) {
  const Bytes whole = fat_binary({part(2, 90, cubin(".text._Z3onev", {kExit, kExit}))});
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_TRUE(parse_fat_binaries({whole.data(), bytes}).empty()) << bytes;
  EXPECT_EQ(parse_fat_binaries(whole).size(), 1U);
}

// Of this program: the code of each kernel that nvcc reported, and no other.
TEST(KernelCode, EveryKernelOfThisProgramHasCode) {
  std::set<std::string> reported, found;
  for (const KernelResources& r : kernel_resources()) reported.insert(r.kernel);
  for (const KernelCode& c : kernel_code()) {
    EXPECT_GT(c.instructions, 0) << c.kernel;
    found.insert(c.kernel);
  }
  for (const std::string& kernel : reported) EXPECT_TRUE(found.contains(kernel)) << kernel;
}

}  // namespace
}  // namespace duet
