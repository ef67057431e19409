// SPDX-License-Identifier: Apache-2.0
// Kernels with planted errors.
#include "softgpu/selftest/selftest.h"

namespace duet::softgpu {

// Each kernel is wrong in one way, and the report has to say which.
void planted_errors(Tally& t) {
  const auto dies = [&](const std::string& what, const std::string& code, const std::string& report,
                        const std::string& declarations = "", uint32_t threads = kLanes) {
    std::string got = "nothing was reported";
    try {
      run(kernel_text(code, declarations), {}, threads);
    } catch (const std::exception& e) {
      got = e.what();
    }
    t.expect(got.find(report) != std::string::npos, fmt::format("{}: {}", what, got));
  };
  const std::string tile = ".shared .align 16 .b8 tile[128];\n";
  dies("a store behind the tensor", "st.global.u32 [%rd3+4096], %r0;", "behind the end of buffer");
  dies("a store before the tensor", "st.global.u32 [%rd3+-4], %r0;", "out of bounds");
  dies("a misaligned store", "st.global.u32 [%rd3+2], %r0;", "misaligned");
  dies("a misaligned vector", "st.global.v2.u32 [%rd3], {%r0, %r0};", "misaligned");
  dies("a load of what was never written", "ld.global.u32 %r1, [%rd3];", "never written");
  dies("an atomic on what was never written", "red.global.add.u32 [%rd0], 1;", "never written");
  dies("a null pointer", "mov.u64 %rd4, 0; st.global.u32 [%rd4], %r0;", "no device memory");
  dies("a store behind shared memory", "shl.b32 %r1, %r0, 3; st.shared.u32 [%r1], %r0;", "shared memory", tile);
  dies("a load of shared memory never written", "ld.shared.u32 %r1, [tile];", "never written", tile);
  dies("a barrier that half of a warp reaches",
       "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; bra B; A: bar.sync 0; B: mov.u32 %r1, 0; bar.warp.sync -1;", "wait for");
  dies("a shuffle without some of its lanes", "setp.lt.u32 %p1, %r0, 16; @%p1 shfl.sync.idx.b32 %r1, %r0, 0, 31, -1;",
       "do not come");
  dies("a shuffle outside its own mask", "shfl.sync.idx.b32 %r1, %r0, 0, 31, 1;", "not in the mask");
  dies("a barrier for too few threads", "bar.sync 1, 40;", "no multiple of 32");
  dies("warps at different barriers", "shr.u32 %r1, %r0, 5; bar.sync %r1;", "wait for ever", "", 64);
  dies("a kernel without an end", "L: bra L;", "does not end");
  dies("an unknown instruction", "frobnicate.b32 %r1, %r0;", "'frobnicate.b32' is not supported");
  dies("an unknown form", "add.sat.u17 %r1, %r0, %r0;", "'add.sat.u17' is not supported");
  dies("a register of the wrong width", "add.u32 %r1, %rd0, %r0;", "where 4 are expected");
  dies("a copy that has no wait",
       "st.global.u32 [%rd0], 1; st.global.u32 [%rd0+4], 1; st.global.u32 [%rd0+8], 1; st.global.u32 [%rd0+12], 1; "
       "mov.u32 %r1, tile; cp.async.cg.shared.global [%r1], [%rd0], 16; cp.async.commit_group; ld.shared.u32 %r2, "
       "[%r1];",
       "never written", tile);
  dies("a misaligned ldmatrix", "mov.u32 %r1, 8; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];", "misaligned",
       tile);
  dies(
      "a matrix product of half a warp",
      "setp.lt.u32 %p1, %r0, 16; @%p1 bra E; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, "
      "{%r0, %r0, %r0, %r0}, {%r0, %r0}, {%f1, %f2, %f3, %f4}; E: mov.u32 %r1, 0;",
      "all have to be");
  dies("a trap", "trap;", "trap");
  const std::string bank = ".const .align 16 .b8 bank[128];\n";
  dies("a load behind a variable in constant memory", "ld.const.u32 %r1, [bank+128];", "0 bytes behind the end of bank",
       bank);
  dies("a load half behind it", "ld.const.v4.u32 {%r1, %r2, %r3, %r4}, [bank+120];", "misaligned", bank);
  dies("a load of other memory as constant", "ld.const.u32 %r1, [%rd0];", "a load outside of constant memory", bank);
  dies("a store into constant memory", "mov.u64 %rd4, bank; cvta.const.u64 %rd5, %rd4; st.u32 [%rd5+4], %r0;",
       "a store of 4 bytes in constant memory, which kernels only load from", bank);
  dies("an atomic on constant memory", "mov.u64 %rd4, bank; cvta.const.u64 %rd5, %rd4; red.add.u32 [%rd5], 1;",
       "a atomic update of 4 bytes in constant memory", bank);
  dies("a variable that has values from the start", "ld.const.u32 %r1, [bank];", "has values from the start",
       ".const .align 4 .b8 bank[4] = {1, 0, 0, 0};\n");
  // b of a wgmma belongs to it until the wait, whichever warp stores there; a load is allowed.
  const std::string commit = "wgmma.commit_group.sync.aligned; ";
  for (const std::string& behind :
       {"mov.u32 %r9, tile; st.shared.u32 [%r9], %r0; " + commit + "wgmma.wait_group.sync.aligned 0; ",
        commit + "mov.u32 %r9, tile; st.shared.u32 [%r9+8188], %r0; wgmma.wait_group.sync.aligned 0; ",
        commit + "wgmma.wait_group.sync.aligned 1; mov.u32 %r9, tile; st.shared.u32 [%r9+64], %r0; "}) {
    std::string failure;
    right_sums_of_wgmma(behind, failure);
    t.expect(failure.find("that a wgmma still reads") != std::string::npos,
             fmt::format("a store into b of a wgmma, '{}': {}", behind, failure));
  }
  for (const std::string& behind :
       {"mov.u32 %r9, tile; ld.shared.u32 %r8, [%r9]; " + commit + "wgmma.wait_group.sync.aligned 0; ",
        commit + "wgmma.wait_group.sync.aligned 0; bar.sync 0; mov.u32 %r9, tile; st.shared.u32 [%r9], %r0; "}) {
    std::string failure;
    const int right = right_sums_of_wgmma(behind, failure);
    t.expect(right == kSumsOfWgmma, fmt::format("... '{}' is allowed: {}", behind, failure));
  }
  // Of sums that nothing waits for nothing is reported: they are wrong.
  for (const char* behind : {"", "wgmma.commit_group.sync.aligned; ", "wgmma.wait_group.sync.aligned 0; ",
                             "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; "}) {
    std::string failure;
    const int right = right_sums_of_wgmma(behind, failure);
    t.expect(failure.empty() && right == 0,
             fmt::format("sums of wgmma that '{}' does not wait for: {} of {} are right {}", behind, right,
                         kSumsOfWgmma, failure));
  }
}

}  // namespace duet::softgpu
