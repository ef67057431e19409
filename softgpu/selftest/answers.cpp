// SPDX-License-Identifier: Apache-2.0
// Known answers of instructions. Sources are named beside them; none comes from our own code.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "softgpu/device.h"
#include "softgpu/selftest/selftest.h"

namespace duet::softgpu {
namespace {
uint32_t bits(float f) { return std::bit_cast<uint32_t>(f); }

// Each lane computes the same: `code` leaves its result in %r9.
void one_value(Tally& t, const std::string& code, uint32_t want) {
  uint32_t got = 0;
  std::string failure;
  try {
    got = run(kernel_text(code + "\nst.global.u32 [%rd3], %r9;"))[7];
  } catch (const std::exception& e) {
    failure = e.what();
  }
  t.expect(failure.empty() && got == want, fmt::format("{} gives {:#x}, not {:#x} {}", code, got, want, failure));
}

void instruction_answers(Tally& t) {
  // PTX ISA, Integer Arithmetic, Logic and Shift, prmt, bfe, bfi: by their pseudo-code, worked out by hand.
  one_value(t, "mov.u32 %r1, 0x76543210; mov.u32 %r2, 0xfedcba98; prmt.b32 %r9, %r1, %r2, 0x7410;", 0xfe983210);
  one_value(t, "mov.u32 %r1, 0x00008034; prmt.b32 %r9, %r1, 0, 0x8098;", 0x0034ff00);
  one_value(t, "mov.u32 %r1, 0x80ff0203; mov.u32 %r2, 0x7f02ff05; dp4a.s32.s32 %r9, %r1, %r2, 100;",
            static_cast<uint32_t>(-128 * 127 - 2 - 2 + 15 + 100));
  one_value(t, "mov.u32 %r1, 0xabcd1234; bfe.u32 %r9, %r1, 8, 12;", 0xd12);
  one_value(t, "mov.u32 %r1, 0xabcd1234; bfe.s32 %r9, %r1, 24, 8;", 0xffffffab);
  one_value(t, "mov.u32 %r1, 0x80000000; bfe.s32 %r9, %r1, 28, 16;", 0xfffffff8);  // beyond the value: its sign
  one_value(t, "mov.u32 %r1, 0xff; mov.u32 %r2, 0; bfi.b32 %r9, %r1, %r2, 4, 4;", 0xf0);
  one_value(t, "mov.u32 %r1, 1; mov.u32 %r2, 40; shl.b32 %r9, %r1, %r2;", 0);  // shifts are clamped
  one_value(t, "mov.u32 %r1, 0x80000000; mov.u32 %r2, 40; shr.s32 %r9, %r1, %r2;", 0xffffffff);
  one_value(t, "mov.u32 %r1, 0x12345678; mov.u32 %r2, 0x9abcdef0; shf.l.wrap.b32 %r9, %r1, %r2, 8;", 0xbcdef012);
  one_value(t, "mov.u32 %r1, 0x12345678; mov.u32 %r2, 0x9abcdef0; shf.r.wrap.b32 %r9, %r1, %r2, 8;", 0xf0123456);
  one_value(t, "mov.u32 %r1, 0xffffffff; mul.hi.u32 %r9, %r1, %r1;", 0xfffffffe);
  one_value(t, "mov.u32 %r1, 0xffffffff; mul.hi.s32 %r9, %r1, %r1;", 0);
  one_value(t, "mov.u32 %r1, 0xff00ff00; popc.b32 %r9, %r1;", 16);
  one_value(t, "mov.u32 %r1, 0x00ff0000; clz.b32 %r9, %r1;", 8);
  one_value(t, "mov.u32 %r1, 1; brev.b32 %r9, %r1;", 0x80000000);
  one_value(t, "mov.u32 %r1, 0xf0f0f0f0; mov.u32 %r2, 0xcccccccc; lop3.b32 %r9, %r1, %r2, 0xaaaaaaaa, 0x80;",
            0x80808080);
  // Directions of rounding (IEEE 754): 1 + 2^-24 lies half way between 1 and the next f32.
  const std::string tie = "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f33800000; ";
  one_value(t, tie + "add.rn.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;", 0x3f800000);
  one_value(t, tie + "add.rp.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;", 0x3f800001);
  one_value(t, tie + "add.rz.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;", 0x3f800000);
  one_value(t, tie + "neg.f32 %f1, %f1; neg.f32 %f2, %f2; add.rm.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;", 0xbf800001);
  one_value(t, tie + "fma.rp.f32 %f3, %f1, %f1, %f2; mov.b32 %r9, %f3;", 0x3f800001);
  one_value(t, "mov.f32 %f1, 0f7FC00000; mov.f32 %f2, 0f40000000; max.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;", bits(2));
  one_value(t, "mov.f32 %f1, 0f80000000; mov.f32 %f2, 0f00000000; min.f32 %f3, %f2, %f1; mov.b32 %r9, %f3;",
            0x80000000);
  // cvt: "float-to-integer conversions saturate", NaN becomes 0; halves to nearest, ties to even.
  one_value(t, "mov.f32 %f1, 0f4F800000; cvt.rzi.s32.f32 %r9, %f1;", 0x7fffffff);
  one_value(t, "mov.f32 %f1, 0fBF800000; cvt.rzi.u32.f32 %r9, %f1;", 0);
  one_value(t, "mov.f32 %f1, 0f7FC00000; cvt.rzi.s32.f32 %r9, %f1;", 0);
  one_value(t, "mov.f32 %f1, 0f40200000; cvt.rni.s32.f32 %r9, %f1;", 2);  // 2.5
  one_value(t, "mov.f32 %f1, 0fC0200000; cvt.rmi.s32.f32 %r9, %f1;", 0xfffffffd);
  one_value(t, "mov.f32 %f1, 0f3F808000; cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", 0x3f80);
  one_value(t, "mov.f32 %f1, 0f3F818000; cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", 0x3f82);
  one_value(t, "mov.f32 %f1, 0f477FF000; cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", 0x7c00);  // 65520
  one_value(t, "mov.f32 %f1, 0f33800000; cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", 1);       // 2^-24
  one_value(t, "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; cvt.rn.bf16x2.f32 %r9, %f1, %f2;", 0x3f804000);
  one_value(t, "mov.u32 %r1, 0xfffffff0; cvt.s64.s32 %rd4, %r1; shr.u64 %rd4, %rd4, 32; cvt.u32.u64 %r9, %rd4;",
            0xffffffff);
  one_value(t, "mov.u32 %r1, 0x1ff; cvt.u8.u32 %h1, %r1; cvt.u32.u16 %r9, %h1;", 0xff);
  one_value(t, "mov.u32 %r1, 0x01000001; cvt.rz.f32.u32 %f1, %r1; mov.b32 %r9, %f1;", bits(16777216));
  // Moves of parts: the first one is the lowest.
  one_value(t, "mov.u16 %h1, 0x1111; mov.u16 %h2, 0x2222; mov.b32 %r9, {%h1, %h2};", 0x22221111);
  one_value(t, "mov.u64 %rd4, 0x1122334455667788; mov.b64 {%r1, %r9}, %rd4;", 0x11223344);
  // Scopes of inline assembly may use a name again.
  one_value(t, "mov.u32 %r9, 5; { .reg .b32 %r9; mov.u32 %r9, 6; }", 5);

  const auto lanes = [&](const std::string& code, const std::function<uint32_t(uint32_t)>& want) {
    std::vector<uint32_t> got;
    try {
      got = run(kernel_text(code + "\nst.global.u32 [%rd3], %r9;"));
    } catch (const std::exception& e) {
      return t.expect(false, code + ": " + e.what());
    }
    uint32_t l = 0;
    while (l < kLanes && got[l] == want(l)) ++l;
    t.expect(l == kLanes, fmt::format("{}: lane {} has {:#x}", code, l, l < kLanes ? got[l] : 0));
  };
  // PTX ISA, "shfl.sync": lanes whose source is out of range keep their own value.
  lanes("shfl.sync.up.b32 %r9|%p1, %r0, 1, 0, -1;", [](uint32_t l) { return l ? l - 1 : 0; });
  lanes("shfl.sync.down.b32 %r9|%p1, %r0, 3, 31, -1;", [](uint32_t l) { return l + 3 < 32 ? l + 3 : l; });
  lanes("shfl.sync.bfly.b32 %r9, %r0, 5, 31, -1;", [](uint32_t l) { return l ^ 5; });
  lanes("shfl.sync.idx.b32 %r9, %r0, 2, 0x181f, -1;", [](uint32_t l) { return (l & 24) + 2; });  // segments of 8
  lanes("shfl.sync.down.b32 %r9|%p1, %r0, 6, 0x1807, -1; selp.u32 %r9, 1, 0, %p1;",
        [](uint32_t l) { return l % 8 < 2; });
  lanes("setp.lt.u32 %p1, %r0, 5; vote.sync.ballot.b32 %r9, %p1, -1;", [](uint32_t) { return 31; });
  lanes("setp.lt.u32 %p1, %r0, 5; vote.sync.any.pred %p2, !%p1, -1; selp.u32 %r9, 1, 0, %p2;",
        [](uint32_t) { return 1; });
  lanes("redux.sync.add.s32 %r9, %r0, -1;", [](uint32_t) { return 496; });
  lanes("redux.sync.max.u32 %r9, %r0, -1;", [](uint32_t) { return 31; });
  // Divergence: each half takes its own way and they meet again.
  lanes(
      "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; mov.u32 %r9, 2; bra B; A: mov.u32 %r9, 1; B: redux.sync.add.u32 %r9, %r9, "
      "-1;",
      [](uint32_t) { return 48; });
  // A loop of as many rounds as the lane's number.
  lanes(
      "mov.u32 %r9, 0; mov.u32 %r1, 0; L: setp.ge.u32 %p1, %r1, %r0; @%p1 bra D; add.u32 %r9, %r9, %r1; add.u32 %r1, "
      "%r1, 1; "
      "bra L; D: bar.warp.sync -1;",
      [](uint32_t l) { return l * (l - 1) / 2; });
}

// PTX ISA, "Matrix Fragments" of mma.m16n8k16 with 16-bit types, .m16n8k8 with tf32, .m16n8k32 with 8-bit types. With
// g = lane / 4, q = lane % 4, and i the index of an element in a lane's fragment, of which a register has n:
// A: row g where i / n is even, else g + 8; column n q + i % n, plus half of the depth for the upper half of i.
// B: row n q + i % n, plus half of the depth for the upper half of i; column g.
// C: row g for i < 2, else g + 8; column 2 q + i % 2.
struct MatrixType {
  const char* form;
  int depth, each;                      // each: elements of a register
  std::function<uint32_t(int)> encode;  // a small whole number
  bool whole;                           // sums of s32, not of f32
};
void matrix_answers(Tally& t, const MatrixType& type) {
  std::vector<uint32_t> input(kWords, 0);
  int a[16][32], b[32][8];
  for (int r = 0; r < 16; ++r)
    for (int k = 0; k < type.depth; ++k) a[r][k] = (r * 7 + k * 3) % 11 - 5;
  for (int k = 0; k < type.depth; ++k)
    for (int c = 0; c < 8; ++c) b[k][c] = (k * 5 + c * 2) % 13 - 6;
  const int each = type.each, half = type.depth / 2, width = 32 / each;
  for (int l = 0; l < kLanes; ++l) {
    const int g = l >> 2, q = l & 3;
    const auto set = [&](int word, int place, int value) {
      const uint32_t mask = width == 32 ? 0xffffffff : (uint32_t{1} << width) - 1;
      input[static_cast<size_t>(l * 8 + word)] |= (type.encode(value) & mask) << (width * place);
    };
    for (int i = 0; i < 4 * each; ++i)
      set(i / each, i % each, a[i / each % 2 == 0 ? g : g + 8][each * q + i % each + (i >= 2 * each ? half : 0)]);
    for (int i = 0; i < 2 * each; ++i) set(4 + i / each, i % each, b[each * q + i % each + (i >= each ? half : 0)][g]);
  }
  const std::string sums = type.whole ? "{%r11, %r12, %r13, %r14}" : "{%f4, %f5, %f6, %f7}";
  const std::string start = type.whole ? "{%r9, %r9, %r9, %r9}" : "{%f1, %f1, %f1, %f1}";
  const std::string code =
      "shl.b64 %rd4, %rd2, 3; add.s64 %rd5, %rd0, %rd4; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd5]; "
      "ld.global.v2.u32 {%r5, %r6}, [%rd5+16]; mov.f32 %f1, 0f3F800000; mov.u32 %r9, 1; bar.warp.sync -1; "
      "mma.sync.aligned." +
      std::string(type.form) + " " + sums + ", {%r1, %r2, %r3, %r4}, {%r5, %r6}, " + start +
      "; shl.b64 %rd6, %rd2, 2; add.s64 %rd7, %rd0, %rd6; st.global.v4." + (type.whole ? "u32" : "f32") +
      " [%rd7+2048], " + sums + ";";
  int right = 0;
  try {
    const auto out = run(kernel_text(code), input);
    for (int l = 0; l < kLanes; ++l)
      for (int i = 0; i < 4; ++i) {
        const int row = i < 2 ? l >> 2 : (l >> 2) + 8, column = 2 * (l & 3) + (i & 1);
        int want = 1;
        for (int k = 0; k < type.depth; ++k) want += a[row][k] * b[k][column];
        right += out[static_cast<size_t>(512 + l * 4 + i)] ==
                 (type.whole ? static_cast<uint32_t>(want) : bits(static_cast<float>(want)));
      }
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
  }
  t.expect(right == 128, fmt::format("mma.{}: {} of 128 elements", type.form, right));
}

void all_matrix_answers(Tally& t) {
  const auto bf16 = [](int n) { return bits(static_cast<float>(n)) >> 16; };
  // Of whole numbers up to 7: sign, exponent with bias 15, fraction.
  const auto f16 = [](int n) -> uint32_t {
    if (n == 0) return 0;
    const int size = std::abs(n), exponent = size >= 4 ? 2 : size >= 2 ? 1 : 0;
    const int fraction = (size - (1 << exponent)) << (10 - exponent);
    return static_cast<uint32_t>((n < 0) << 15 | (exponent + 15) << 10 | fraction);
  };
  const auto tf32 = [](int n) { return bits(static_cast<float>(n)); };
  const auto s8 = [](int n) { return static_cast<uint32_t>(n); };
  // Of whole numbers up to 7: sign, exponent with bias 7, 3 bits of fraction.
  const auto e4m3 = [](int n) -> uint32_t {
    if (n == 0) return 0;
    const int size = std::abs(n), exponent = size >= 4 ? 2 : size >= 2 ? 1 : 0;
    const int fraction = (size - (1 << exponent)) << (3 - exponent);
    return static_cast<uint32_t>((n < 0) << 7 | (exponent + 7) << 3 | fraction);
  };
  matrix_answers(t, {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 2, bf16, false});
  matrix_answers(t, {"m16n8k16.row.col.f32.f16.f16.f32", 16, 2, f16, false});
  matrix_answers(t, {"m16n8k8.row.col.f32.tf32.tf32.f32", 8, 1, tf32, false});
  matrix_answers(t, {"m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 4, e4m3, false});
  matrix_answers(t, {"m16n8k32.row.col.s32.s8.s8.s32", 32, 4, s8, true});
}

// PTX ISA, "ldmatrix": lane l holds, of each matrix, row l / 4 and columns 2 (l % 4) and the next; .trans exchanges
// them.
void ldmatrix_answers(Tally& t) {
  for (const bool transposed : {false, true}) {
    const std::string code =
        "mov.u32 %r1, tile; mov.u32 %r4, 0; "
        "F: shl.b32 %r2, %r0, 4; shl.b32 %r3, %r4, 1; add.u32 %r2, %r2, %r3; add.u32 %r2, %r1, %r2; shl.b32 %r5, %r0, "
        "8; "
        "or.b32 %r5, %r5, %r4; cvt.u16.u32 %h1, %r5; st.shared.u16 [%r2], %h1; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, "
        "%r4, 8; "
        "@%p1 bra F; bar.warp.sync -1; shl.b32 %r6, %r0, 4; add.u32 %r6, %r1, %r6; "
        "ldmatrix.sync.aligned.m8n8.x4" +
        std::string(transposed ? ".trans" : "") +
        ".shared.b16 {%r11, %r12, %r13, %r14}, [%r6]; shl.b64 %rd4, %rd2, 2; add.s64 %rd5, %rd0, %rd4; "
        "st.global.v4.u32 [%rd5], {%r11, %r12, %r13, %r14};";
    int right = 0;
    try {
      const auto out = run(kernel_text(code, ".shared .align 16 .b8 tile[512];\n"));
      for (uint32_t l = 0; l < kLanes; ++l)
        for (uint32_t m = 0; m < 4; ++m) {
          const auto element = [&](uint32_t row, uint32_t column) { return (m * 8 + row) << 8 | column; };
          const uint32_t r = l / 4, c = 2 * (l % 4);
          const uint32_t want =
              transposed ? element(c, r) | element(c + 1, r) << 16 : element(r, c) | element(r, c + 1) << 16;
          right += out[l * 4 + m] == want;
        }
    } catch (const std::exception& e) {
      std::printf("%s\n", e.what());
    }
    t.expect(right == 128, fmt::format("ldmatrix.x4{}: {} of 128 registers", transposed ? ".trans" : "", right));
  }
}

// PTX ISA, "cp.async": bytes behind the source's size become 0. "cp.async.wait_group N": until at most the N most
// recent groups are pending, so that with N = 1 the first of two groups is complete.
void copy_answers(Tally& t) {
  const std::string fill =
      "st.global.u32 [%rd0], 0x11; st.global.u32 [%rd0+4], 0x22; st.global.u32 [%rd0+8], 0x33; st.global.u32 "
      "[%rd0+12], 0x44; ";
  const std::string tile = ".shared .align 16 .b8 tile[128];\n";
  const auto gives = [&](const std::string& what, const std::string& code, uint32_t want) {
    uint32_t got = 0;
    std::string failure;
    try {
      got =
          run(kernel_text(fill + "mov.u32 %r1, tile; " + code + "\nst.global.u32 [%rd0+512], %r9;", tile), {}, 1)[128];
    } catch (const std::exception& e) {
      failure = e.what();
    }
    t.expect(failure.empty() && got == want,
             fmt::format("cp.async, {}: {:#x}, not {:#x} {}", what, got, want, failure));
  };
  const std::string copy = "cp.async.cg.shared.global [%r1], [%rd0], 16; ";
  const std::string all = "cp.async.wait_all; ";
  gives("the last word", copy + all + "ld.shared.u32 %r9, [%r1+12];", 0x44);
  gives("behind the source's size",
        "cp.async.cg.shared.global [%r1], [%rd0], 16, 8; " + all + "ld.shared.u32 %r9, [%r1+8];", 0);
  gives("before it", "cp.async.cg.shared.global [%r1], [%rd0], 16, 8; " + all + "ld.shared.u32 %r9, [%r1+4];", 0x22);
  gives("4 bytes", "cp.async.ca.shared.global [%r1+4], [%rd0+8], 4; " + all + "ld.shared.u32 %r9, [%r1+4];", 0x33);
  gives("the first of two groups",
        copy +
            "cp.async.commit_group; cp.async.ca.shared.global [%r1+16], [%rd0+4], 4; cp.async.commit_group; "
            "cp.async.wait_group 1; ld.shared.u32 %r9, [%r1];",
        0x11);
  gives("both groups",
        copy +
            "cp.async.commit_group; cp.async.ca.shared.global [%r1+16], [%rd0+4], 4; cp.async.commit_group; "
            "cp.async.wait_group 0; ld.shared.u32 %r9, [%r1+16];",
        0x22);
}

// PTX ISA, "Constant State Space": ld.const takes addresses of the space; cvta.const makes generic ones of them.
void constant_answers(Tally& t) {
  const auto gives = [&](const std::string& code, uint32_t want) {
    uint32_t got = 0;
    std::string failure;
    try {
      got =
          run(kernel_text(code + "\nst.global.u32 [%rd0+512], %r9;", ".const .align 16 .b8 bank[128];\n"), {}, 1)[128];
    } catch (const std::exception& e) {
      failure = e.what();
    }
    t.expect(failure.empty() && got == want, fmt::format("{} gives {}, not {} {}", code, got, want, failure));
  };
  gives("ld.const.u32 %r9, [bank];", 100);
  gives("ld.const.u32 %r9, [bank+124];", 131);
  gives("ld.const.f32 %f1, [bank+8]; mov.b32 %r9, %f1;", 102);
  gives("ld.const.u8 %r9, [bank+4];", 101);
  gives("ld.const.v2.u32 {%r1, %r9}, [bank+8];", 103);
  gives("ld.const.v4.u32 {%r1, %r2, %r3, %r9}, [bank+16];", 107);
  gives("mov.u64 %rd4, bank; ld.const.u32 %r9, [%rd4+12];", 103);
  gives("mov.u64 %rd4, bank; cvta.const.u64 %rd5, %rd4; ld.u32 %r9, [%rd5+20];", 105);
  gives("mov.u64 %rd4, bank; cvta.const.u64 %rd5, %rd4; cvta.to.const.u64 %rd6, %rd5; ld.const.u32 %r9, [%rd6];", 100);
}

// PTX ISA, "tex": an unfiltered fetch by an integer index; CUDA Programming Guide, "Texture Object API".
void texture_answers(Tally& t) {
  Device& d = Device::get();
  void* memory = d.memory.allocate(512);
  const auto address = reinterpret_cast<uint64_t>(memory);
  const uint32_t words[4] = {bits(1.5f), bits(-2), 7, 0xfffffff9};
  d.memory.write(address, words, sizeof words);
  const auto gives = [&](char kind, const std::string& code, uint32_t want) {
    d.textures[d.next_texture] = {address, 4, kind};
    const std::string texture = fmt::format("mov.u64 %rd4, {}; ", d.next_texture);
    uint32_t got = 0;
    std::string failure;
    try {
      got = run(kernel_text(texture + code + "\nst.global.u32 [%rd0+512], %r9;"), {}, 1)[128];
    } catch (const std::exception& e) {
      failure = e.what();
    }
    d.textures.erase(d.next_texture++);
    t.expect(failure.empty() && got == want, fmt::format("{} gives {:#x}, not {:#x} {}", code, got, want, failure));
  };
  const std::string floats = "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd4, {%r1}]; mov.b32 %r9, %f1;";
  gives('f', "mov.u32 %r1, 0; " + floats, bits(1.5f));
  gives('f', "mov.u32 %r1, 1; " + floats, bits(-2));
  gives('s', "mov.u32 %r1, 3; tex.1d.v4.s32.s32 {%r9, %r2, %r3, %r4}, [%rd4, {%r1}];", 0xfffffff9);
  gives('u', "mov.u32 %r1, 2; tex.1d.v4.u32.s32 {%r9, %r2, %r3, %r4}, [%rd4, {%r1}];", 7);
  // In the other lanes nothing changes.
  gives('u',
        "mov.u32 %r1, 9; mov.u32 %r9, 5; setp.eq.u32 %p1, %r0, 1; @%p1 tex.1d.v4.u32.s32 {%r9, %r2, %r3, %r4}, [%rd4, "
        "{%r1}];",
        5);
  d.memory.release(memory);
}

// The registers of a wgmma's sums: code that clears them, and their list.
struct SumRegisters {
  std::string clear, list;
  explicit SumRegisters(int count) {
    for (int i = 0; i < count; ++i) {
      clear += fmt::format("mov.f32 %s{}, 0f00000000; ", i);
      list += fmt::format("{}%s{}", i ? ", " : "", i);
    }
  }
};

// Runs code whose thread t has `count` sums (row + 1) n of a wgmma, of which it stores 0, 3 and the one before the
// last. Returns how many of the stored ones are right.
int right_sums(const std::string& code, const char* shared, int count, std::string& failure) {
  const std::string store = fmt::format(
      "shl.b64 %rd4, %rd2, 2; add.s64 %rd5, %rd0, %rd4; mov.f32 %f4, 0f00000000; "
      "st.global.v4.f32 [%rd5], {{%s0, %s3, %s{}, %f4}};",
      count - 2);
  const auto last = static_cast<uint32_t>(2 * count - 8);  // the first column of the last eight
  int right = 0;
  try {
    std::string text = kernel_text(code + store, shared);
    text.insert(text.find(".reg .f64"), fmt::format(".reg .f32 %s<{}>;\n", count));
    const auto out = run(text, {}, 128);
    for (uint32_t thread = 0; thread < 128; ++thread) {
      const uint32_t row = thread / 32 * 16 + thread % 32 / 4, q = thread % 4;
      const auto sum = [&](uint32_t r, uint32_t n) { return bits(static_cast<float>((r + 1) * n)); };
      right += out[thread * 4] == sum(row, 2 * q);
      right += out[thread * 4 + 1] == sum(row + 8, 2 * q + 1);
      right += out[thread * 4 + 2] == sum(row + 8, last + 2 * q);
    }
  } catch (const std::exception& e) {
    failure = e.what();
  }
  return right;
}
}  // namespace

// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16" and "Shared Memory Matrix Layout", without swizzle: one
// depth of a and b is set, so that each sum tells its row and column.
int right_sums_of_wgmma(const std::string& behind, std::string& failure) {
  const SumRegisters sums(128);
  // b[k][n] = n for k = 3, else 0; a[row][k] = row + 1 for k = 3, else 0: the sums are (row + 1) n, exact in bf16.
  // Thread t of 128 fills n = t and n = t + 128. Column n of b lies at n / 8 * 256 + n % 8 * 16, depth k at k * 2 for
  // k < 8.
  const std::string column =
      "shr.u32 %r2, %r1, 3; shl.b32 %r2, %r2, 8; and.b32 %r3, %r1, 7; shl.b32 %r3, %r3, 4; add.u32 %r2, %r2, %r3; "
      "mov.u32 %r3, tile; add.u32 %r2, %r2, %r3; mov.u32 %r4, 0; "
      "st.shared.v4.u32 [%r2], {%r4, %r4, %r4, %r4}; st.shared.v4.u32 [%r2+128], {%r4, %r4, %r4, %r4}; "
      "cvt.rn.f32.u32 %f1, %r1; cvt.rn.bf16.f32 %h1, %f1; st.shared.u16 [%r2+6], %h1; ";
  // a: lane l of a warp has rows l / 4 and l / 4 + 8, depths 2 (l % 4) and the next in registers 0 and 1. Depth 3 is
  // the upper half for l % 4 = 1.
  const std::string code =
      "mov.u32 %r1, %r0; " + column + "add.u32 %r1, %r0, 128; " + column +
      "bar.sync 0; and.b32 %r5, %r0, 31; shr.u32 %r6, %r0, 5; shl.b32 %r6, %r6, 4; shr.u32 %r7, %r5, 2; add.u32 %r6, "
      "%r6, "
      "%r7; add.u32 %r6, %r6, 1; and.b32 %r8, %r5, 3; setp.eq.u32 %p1, %r8, 1; "
      "cvt.rn.f32.u32 %f1, %r6; cvt.rn.bf16.f32 %h1, %f1; mov.u16 %h2, 0; mov.b32 %r10, {%h2, %h1}; add.u32 %r6, %r6, "
      "8; "
      "cvt.rn.f32.u32 %f1, %r6; cvt.rn.bf16.f32 %h1, %f1; mov.b32 %r11, {%h2, %h1}; "
      "selp.b32 %r10, %r10, 0, %p1; selp.b32 %r11, %r11, 0, %p1; mov.u32 %r12, 0; "
      "mov.u32 %r13, tile; shr.u32 %r13, %r13, 4; cvt.u64.u32 %rd10, %r13; or.b64 %rd10, %rd10, 0x1000080000; " +
      sums.clear + "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" + sums.list +
      "}, {%r10, %r11, %r12, %r12}, %rd10, 1, 1, 1, 0; " + behind;
  return right_sums(code, ".shared .align 1024 .b8 tile[8192];\n", 128, failure);
}

namespace {
// The same with a in shared memory, and 128 columns: a[row][3] = row + 1 and b[3][n] = n, all else 0. swizzled: lines
// of 128 bytes of a row, or, transposed, of a depth, whose pieces of 16 bytes are permuted by their number; 64 rows lie
// 2048 bytes apart. Else a core matrix is 8 rows of 8 depths, or, transposed, 8 depths of 8 rows; the next depths
// follow 128 bytes behind, the next rows 256.
void sums_of_shared_wgmma(Tally& t, bool swizzled, bool transpose_a, bool transpose_b) {
  const SumRegisters sums(64);
  // Into %r2: where depth 3 of row %r0 lies in `tile`.
  const auto place = [&](const char* tile, bool transposed) {
    const std::string begin = fmt::format("mov.u32 %r2, {}; ", tile);
    if (!swizzled)
      return begin + fmt::format(
                         "shr.u32 %r3, %r0, 3; shl.b32 %r3, %r3, 8; add.u32 %r2, %r2, %r3; and.b32 %r3, %r0, 7; "
                         "shl.b32 %r3, %r3, {}; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, {}; ",
                         transposed ? 1 : 4, transposed ? 48 : 6);
    if (transposed)  // r / 64 * 2048 + 3 * 128 + (r / 8 % 8 ^ 3) * 16 + r % 8 * 2
      return begin +
             "shr.u32 %r3, %r0, 6; shl.b32 %r3, %r3, 11; add.u32 %r2, %r2, %r3; shr.u32 %r3, %r0, 3; and.b32 %r3, "
             "%r3, 7; xor.b32 %r3, %r3, 3; shl.b32 %r3, %r3, 4; add.u32 %r2, %r2, %r3; and.b32 %r3, %r0, 7; shl.b32 "
             "%r3, %r3, 1; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, 384; ";
    return begin +  // r * 128 + r % 8 * 16 + 6
           "shl.b32 %r3, %r0, 7; add.u32 %r2, %r2, %r3; and.b32 %r3, %r0, 7; shl.b32 %r3, %r3, 4; add.u32 %r2, %r2, "
           "%r3; add.u32 %r2, %r2, 6; ";
  };
  const auto description = [&](const char* tile, const char* to) {
    return fmt::format("mov.u32 %r3, {}; shr.u32 %r3, %r3, 4; cvt.u64.u32 {}, %r3; or.b64 {}, {}, {}; ", tile, to, to,
                       to, swizzled ? "0x4000004000800000" : "0x1000080000");
  };
  std::string zero = "mov.u32 %r4, 0; shl.b32 %r5, %r0, 4; mov.u32 %r6, a; add.u32 %r5, %r5, %r6; ";
  constexpr int kBytes = 8192 + 16384;
  for (int i = 0; i < kBytes; i += 128 * 16)
    zero += fmt::format("st.shared.v4.u32 [%r5+{}], {{%r4, %r4, %r4, %r4}}; ", i);
  const std::string code =
      zero + "bar.sync 0; mov.u32 %r6, a; add.u32 %r7, %r6, 8192; " + place("%r7", transpose_b) +
      "cvt.rn.f32.u32 %f1, %r0; cvt.rn.bf16.f32 %h1, %f1; st.shared.u16 [%r2], %h1; " + place("%r6", transpose_a) +
      "setp.lt.u32 %p1, %r0, 64; add.u32 %r4, %r0, 1; cvt.rn.f32.u32 %f1, %r4; " +
      "cvt.rn.bf16.f32 %h1, %f1; @%p1 st.shared.u16 [%r2], %h1; fence.proxy.async.shared::cta; bar.sync 0; " +
      description("%r6", "%rd9") + description("%r7", "%rd10") + sums.clear +
      "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" + sums.list +
      fmt::format("}}, %rd9, %rd10, 1, 1, 1, {}, {}; ", int{transpose_a}, int{transpose_b}) + kWaitForSums;
  std::string failure;
  const int right = right_sums(code, ".shared .align 1024 .b8 a[24576];\n", 64, failure);
  t.expect(right == kSumsOfWgmma, fmt::format("wgmma.m64n128k16, swizzled {}, transposed {} {}: {} of {} sums {}",
                                              swizzled, transpose_a, transpose_b, right, kSumsOfWgmma, failure));
}
}  // namespace

void known_answers(Tally& t) {
  instruction_answers(t);
  all_matrix_answers(t);
  ldmatrix_answers(t);
  copy_answers(t);
  constant_answers(t);
  texture_answers(t);
  std::string failure;
  const int right = right_sums_of_wgmma(kWaitForSums, failure);
  t.expect(right == kSumsOfWgmma, fmt::format("wgmma.m64n256k16: {} of {} sums {}", right, kSumsOfWgmma, failure));
  for (const bool swizzled : {false, true})
    for (const bool a : {false, true})
      for (const bool b : {false, true}) sums_of_shared_wgmma(t, swizzled, a, b);
}

}  // namespace duet::softgpu
