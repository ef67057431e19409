// SPDX-License-Identifier: Apache-2.0
// Programs that use the CUDA runtime wrongly: launches, parameters, stream order, captures, memory. Each runs in a
// process of its own, since an error may lose the device, and has to be reported with the text that is named.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "core/device_scope.h"
#include "softgpu/selftest/selftest.h"

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*);
void __cudaRegisterVar(void** handle, char* shadow, char*, const char* name, int, size_t bytes, int constant, int);
void duet_softgpu_declare(void* memory, size_t bytes, const char* name);
}
// NOLINTEND(readability-identifier-naming)

namespace duet {
// As the build embeds what ptxas reported.
extern const char* const duet_kernel_resources;
const char* const duet_kernel_resources =
    "ptxas info    : Compiling entry function 'fill' for 'sm_90a'\n"
    "ptxas info    : Used 72 registers, used 0 barriers\n";
}  // namespace duet

namespace duet::softgpu {
namespace {
constexpr int kThreads = 32, kBytes = kThreads * 4;
char bank;  // the shadow of the variable in constant memory

// add(out, in, n): out[i] = in[i] + n for the 32 threads of a block. fill(out, n): out[i] = n. meet(counter, n): each
// block but number n adds 1 to counter, and waits until all have. pass_on(data, counter): each thread stores into data,
// and behind such a barrier of the grid loads what a thread of the next block has stored. look(out): out[i] = bank[i],
// in constant memory. sample(out, texture, n): out[i] = texture[i + n], an f32.
constexpr const char* kKernels = R"(.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.const .align 4 .b8 bank[128];
.visible .entry add(.param .u64 add_out, .param .u64 add_in, .param .u32 add_n)
{
.reg .b32 %r<10>;
.reg .b64 %rd<10>;
ld.param.u64 %rd1, [add_out];
ld.param.u64 %rd2, [add_in];
ld.param.u32 %r1, [add_n];
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd3, %r2, 4;
add.s64 %rd4, %rd1, %rd3;
add.s64 %rd5, %rd2, %rd3;
ld.global.u32 %r3, [%rd5];
add.u32 %r4, %r3, %r1;
st.global.u32 [%rd4], %r4;
ret;
}
.visible .entry fill(.param .u64 fill_out, .param .u32 fill_n)
{
.reg .b32 %r<10>;
.reg .b64 %rd<10>;
ld.param.u64 %rd1, [fill_out];
ld.param.u32 %r1, [fill_n];
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd3, %r2, 4;
add.s64 %rd4, %rd1, %rd3;
st.global.u32 [%rd4], %r1;
ret;
}
.visible .entry meet(.param .u64 meet_counter, .param .u32 meet_n)
{
.reg .pred %p<4>;
.reg .b32 %r<10>;
.reg .b64 %rd<10>;
ld.param.u64 %rd1, [meet_counter];
ld.param.u32 %r1, [meet_n];
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %nctaid.x;
setp.eq.u32 %p1, %r1, %r2;
@%p1 ret;
mov.u32 %r4, %tid.x;
setp.ne.u32 %p2, %r4, 0;
@%p2 bra MET;
membar.gl;
atom.global.add.u32 %r5, [%rd1], 1;
WAIT:
ld.volatile.global.u32 %r6, [%rd1];
setp.ge.u32 %p3, %r6, %r3;
@%p3 bra MET;
nanosleep.u32 32;
bra.uni WAIT;
MET:
membar.gl;
bar.sync 0;
ret;
}
.visible .entry look(.param .u64 look_out)
{
.reg .b32 %r<10>;
.reg .b64 %rd<10>;
ld.param.u64 %rd1, [look_out];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
mov.u64 %rd3, bank;
add.s64 %rd4, %rd3, %rd2;
ld.const.u32 %r2, [%rd4];
add.s64 %rd5, %rd1, %rd2;
st.global.u32 [%rd5], %r2;
ret;
}
.visible .entry sample(.param .u64 sample_out, .param .u64 sample_texture, .param .u32 sample_n)
{
.reg .b32 %r<10>;
.reg .f32 %f<10>;
.reg .b64 %rd<10>;
ld.param.u64 %rd1, [sample_out];
ld.param.u64 %rd2, [sample_texture];
ld.param.u32 %r1, [sample_n];
mov.u32 %r2, %tid.x;
add.u32 %r3, %r2, %r1;
tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd2, {%r3}];
mul.wide.u32 %rd3, %r2, 4;
add.s64 %rd4, %rd1, %rd3;
st.global.f32 [%rd4], %f1;
ret;
}
.visible .entry pass_on(.param .u64 pass_on_data, .param .u64 pass_on_counter)
{
.reg .pred %p<4>;
.reg .b32 %r<20>;
.reg .b64 %rd<10>;
ld.param.u64 %rd1, [pass_on_data];
ld.param.u64 %rd2, [pass_on_counter];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %ctaid.x;
mov.u32 %r4, %nctaid.x;
mad.lo.u32 %r5, %r3, %r2, %r1;
mul.wide.u32 %rd3, %r5, 4;
add.s64 %rd4, %rd1, %rd3;
st.global.u32 [%rd4], %r1;
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra BEHIND;
membar.gl;
atom.global.add.u32 %r6, [%rd2], 1;
AGAIN:
ld.volatile.global.u32 %r7, [%rd2];
setp.ge.u32 %p2, %r7, %r4;
@%p2 bra ALL;
nanosleep.u32 32;
bra.uni AGAIN;
ALL:
membar.gl;
BEHIND:
bar.sync 0;
add.u32 %r8, %r3, 1;
rem.u32 %r9, %r8, %r4;
mad.lo.u32 %r10, %r9, %r2, %r1;
mul.wide.u32 %rd5, %r10, 4;
add.s64 %rd6, %rd1, %rd5;
ld.global.u32 %r11, [%rd6];
ret;
}
.visible .entry staged()
{
.reg .b32 %r<10>;
mov.u32 %r1, dynamic;
st.shared.u32 [%r1+1020], %r1;
ret;
}
)";

// The image of a fat binary with PTX as nvcc writes it, without compression.
void register_kernels(const std::string& ptx, uint32_t capability) {
  struct Header {
    uint32_t magic = 0xba55ed50;
    uint16_t version = 1, header_bytes = 16;
    uint64_t bytes = 0;
  } header;
  struct Part {
    uint16_t kind = 1, version = 0x101;
    uint32_t header_bytes = 64;
    uint64_t bytes = 0;
    uint32_t compressed_bytes = 0, options_offset = 0;
    uint16_t minor = 0, major = 9;
    uint32_t capability = 0, name_offset = 0, name_bytes = 0;
    uint64_t flags = 0, reserved = 0, expanded_bytes = 0;
  } part;
  struct Wrapper {
    uint32_t magic = 0x466243b1, version = 1;
    const void* data = nullptr;
    const void* more = nullptr;
    std::vector<uint8_t> image;
  };
  static std::deque<Wrapper> wrappers;  // the device keeps their addresses
  Wrapper& wrapper = wrappers.emplace_back();
  std::vector<uint8_t>& image = wrapper.image;
  part.bytes = (ptx.size() + 8) / 8 * 8;
  part.capability = capability;
  header.bytes = sizeof part + part.bytes;
  image.assign(sizeof header + header.bytes, 0);
  std::memcpy(image.data(), &header, sizeof header);
  std::memcpy(image.data() + sizeof header, &part, sizeof part);
  std::memcpy(image.data() + sizeof header + sizeof part, ptx.data(), ptx.size());
  wrapper.data = image.data();
  void** handle = __cudaRegisterFatBinary(&wrapper);
  for (const char* name : {"add", "fill", "meet", "pass_on", "look", "sample", "staged"})
    __cudaRegisterFunction(handle, name, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterVar(handle, &bank, nullptr, "bank", 0, kBytes, 1, 0);
}

// The names of kernels are their stubs.
constexpr const char *kAdd = "add", *kFill = "fill", *kMeet = "meet", *kPassOn = "pass_on", *kLook = "look",
                     *kSample = "sample", *kStaged = "staged";

// What a call answered, to be seen in the output. Most programs below only need the text of the first failure.
cudaError_t say(cudaError_t status) {
  if (status != cudaSuccess) std::printf("refused: %s\n", cudaGetErrorString(status));
  return status;
}

// The end of a program in which all has to be allowed; what it did not release is not its subject.
[[noreturn]] void end(cudaError_t status) {
  if (say(status) == cudaSuccess) std::printf("done\n");
  std::fflush(nullptr);
  _exit(0);
}

void* device_memory(size_t bytes = kBytes) {
  void* memory = nullptr;
  say(cudaMalloc(&memory, bytes));
  return memory;
}
uint32_t* pinned_memory(uint32_t value) {
  void* memory = nullptr;
  say(cudaMallocHost(&memory, kBytes));
  auto* words = static_cast<uint32_t*>(memory);
  for (int i = 0; i < kThreads; ++i) words[i] = value;
  return words;
}
void set_ones(void* memory) {
  say(cudaMemsetAsync(memory, 1, kBytes, nullptr));
  say(cudaDeviceSynchronize());
}
cudaStream_t stream() {
  cudaStream_t s{};
  say(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return s;
}
cudaEvent_t event() {
  cudaEvent_t e{};
  say(cudaEventCreateWithFlags(&e, 0));
  return e;
}
cudaError_t launch(const char* kernel, cudaStream_t s, std::vector<void*> arguments, dim3 grid = 1,
                   dim3 block = kThreads, size_t shared = 0, bool cooperative = false) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = cooperative;
  cudaLaunchConfig_t c{};
  c.attrs = &attribute;
  c.numAttrs = 1;
  c.gridDim = grid;
  c.blockDim = block;
  c.dynamicSmemBytes = shared;
  c.stream = s;
  return say(cudaLaunchKernelExC(&c, kernel, arguments.data()));
}
cudaError_t add(cudaStream_t s, void* out, void* in, uint32_t n) { return launch(kAdd, s, {&out, &in, &n}); }
cudaError_t fill(cudaStream_t s, void* out, uint32_t n) { return launch(kFill, s, {&out, &n}); }
cudaError_t look(cudaStream_t s, void* out) { return launch(kLook, s, {&out}); }
cudaError_t copy_to_bank(cudaStream_t s, const void* from, size_t bytes = kBytes, size_t offset = 0) {
  return say(cudaMemcpyToSymbolAsync(&bank, from, bytes, offset, cudaMemcpyDeviceToDevice, s));
}
// Without the part that stands before `next`.
std::string without(std::string text, const std::string& part, const std::string& next) {
  return text.erase(text.find(part + next), part.size());
}

// With a part behind the first place of `before`.
std::string with_behind(std::string text, const std::string& before, const std::string& part) {
  return text.insert(text.find(before) + before.size(), part);
}

// What a program printed on both outputs, and how it ended.
std::string output_of(const std::function<void()>& program, const std::string& ptx, uint32_t capability) {
  std::fflush(nullptr);
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    register_kernels(ptx, capability);
    program();
    std::fflush(nullptr);
    std::exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return text + (WIFSIGNALED(status) ? fmt::format("signal {}\n", WTERMSIG(status))
                                     : fmt::format("exit {}\n", WEXITSTATUS(status)));
}

class Programs {
 public:
  explicit Programs(Tally& tally) : tally_(tally) {}
  void says(const std::string& what, const std::string& report, const std::function<void()>& program,
            const std::string& ptx = kKernels, uint32_t capability = 90) {
    const std::string got = output_of(program, ptx, capability);
    tally_.expect(got.find(report) != std::string::npos, fmt::format("{}: {}", what, got));
  }

 private:
  Tally& tally_;
};

void launches(Programs& p) {
  p.says("a block of 2048 threads", "2048 threads; at most 1024", [] {
    void* out = device_memory();
    uint32_t n = 1;
    launch(kFill, nullptr, {&out, &n}, 1, dim3(1024, 2));
  });
  p.says("more registers than a block has", "1024 threads of 72 registers; a block has 65536", [] {
    void* out = device_memory();
    uint32_t n = 1;
    launch(kFill, nullptr, {&out, &n}, 1, 1024);
  });
  // fill of __launch_bounds__(64).
  const std::string bounded = with_behind(kKernels, ".param .u32 fill_n)\n", ".maxntid 64, 1, 1\n");
  static const auto fill_by = [](dim3 block) {
    void* out = device_memory(128 * 4);
    uint32_t n = 1;
    launch(kFill, nullptr, {&out, &n}, 1, block);
    end(cudaDeviceSynchronize());
  };
  p.says(
      "more threads than the kernel's launch bounds", "fill: 96 threads; at most 64", [] { fill_by(96); }, bounded);
  p.says(
      "... in two dimensions", "fill: 80 threads; at most 64", [] { fill_by(dim3(16, 5)); }, bounded);
  p.says(
      "... of a block as large as they allow", "done", [] { fill_by(64); }, bounded);
  p.says(
      "... of another kernel", "done", [] { fill_by(96); },
      with_behind(kKernels, ".param .u32 add_n)\n", ".maxntid 64\n"));
  p.says("a block of depth 65", "depth 65; at most 64", [] {
    void* out = device_memory();
    uint32_t n = 1;
    launch(kFill, nullptr, {&out, &n}, 1, dim3(1, 1, 65));
  });
  p.says("a grid without blocks", "an empty grid", [] {
    void* out = device_memory();
    uint32_t n = 1;
    launch(kFill, nullptr, {&out, &n}, 0);
  });
  p.says("a grid of 65536 rows", "a grid of 1 x 65536 x 1", [] {
    void* out = device_memory();
    uint32_t n = 1;
    launch(kFill, nullptr, {&out, &n}, dim3(1, 65536));
  });
  p.says("more dynamic shared memory than was asked for", "where 49152 are allowed",
         [] { launch(kStaged, nullptr, {}, 1, 32, 64 << 10); });
  p.says("more dynamic shared memory than a block can have", "dynamic shared memory beside",
         [] { say(cudaFuncSetAttribute(kStaged, cudaFuncAttributeMaxDynamicSharedMemorySize, 256 << 10)); });
  p.says("too little dynamic shared memory", "byte 1020 of the block's 512 bytes", [] {
    launch(kStaged, nullptr, {}, 1, 32, 512);
    say(cudaDeviceSynchronize());
  });
  p.says("a block of more threads than the tensor has elements", "behind the end", [] {
    void* out = device_memory();
    uint32_t n = 1;
    launch(kFill, nullptr, {&out, &n}, 1, 2 * kThreads);
    say(cudaDeviceSynchronize());
  });
  p.says("a stream that was destroyed", "invalid resource handle", [] {
    cudaStream_t s = stream();
    say(cudaStreamDestroy(s));
    fill(s, device_memory(), 1);
  });
  p.says("a kernel that the program does not have", "no kernel is registered", [] { launch("multiply", nullptr, {}); });
  constexpr uint32_t kAllMeet = 1000;  // no block has this number
  static const auto meet = [](uint32_t blocks, bool cooperative, uint32_t n) {
    void* counter = device_memory();
    say(cudaMemsetAsync(counter, 0, kBytes, nullptr));
    launch(kMeet, nullptr, {&counter, &n}, blocks, kThreads, 0, cooperative);
    end(cudaDeviceSynchronize());
  };
  p.says("blocks that wait for each other, cooperatively", "done", [] { meet(128, true, kAllMeet); });
  p.says("... launched as usual", "waits for what never comes: meet", [] { meet(3, false, kAllMeet); });
  p.says("... of which one leaves", "waits for what never comes: meet", [] { meet(3, true, 1); });
  p.says("... of which more than fit are launched",
         "too many blocks in cooperative launch: meet: 129 blocks, of which 128", [] { meet(129, true, kAllMeet); });
  p.says("... of which more than the registers allow are launched", "fill: 13 blocks, of which 12", [] {
    void* out = device_memory();
    uint32_t n = 1;
    launch(kFill, nullptr, {&out, &n}, 13, 256, 0, true);
  });
  p.says("... of which more than the shared memory allows are launched", "staged: 5 blocks, of which 4", [] {
    constexpr int kHalf = 227 << 9;  // of what a block may have; a second one's own KiB is then missing
    say(cudaFuncSetAttribute(kStaged, cudaFuncAttributeMaxDynamicSharedMemorySize, kHalf));
    launch(kStaged, nullptr, {}, 5, 32, kHalf, true);
  });
  static const auto pass_on = [] {
    constexpr uint32_t kBlocks = 3, kTwoWarps = 64;
    void *data = device_memory(size_t{kBlocks} * kTwoWarps * 4), *counter = device_memory();
    say(cudaMemsetAsync(counter, 0, kBytes, nullptr));
    launch(kPassOn, nullptr, {&data, &counter}, kBlocks, kTwoWarps, 0, true);
    end(cudaDeviceSynchronize());
  };
  const std::string ptx = kKernels;
  p.says("a barrier of the grid in blocks of two warps", "done", pass_on);
  p.says("... that one warp announces while the other is on the way", "4 bytes that were never written", pass_on,
         without(ptx, "bar.sync 0;\n", "setp.ne.u32"));
  p.says("... for which one warp waits and the other does not", "4 bytes that were never written", pass_on,
         without(ptx, "bar.sync 0;\n", "add.u32 %r8"));
  p.says("another attribute of a launch", "an attribute other than", [] {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    cudaLaunchConfig_t c{};
    c.gridDim = c.blockDim = 1;
    c.attrs = &attribute;
    c.numAttrs = 1;
    say(cudaLaunchKernelExC(&c, kStaged, nullptr));
  });
  p.says("a failed kernel is reported by every later call", "refused: an illegal memory access", [] {
    fill(nullptr, nullptr, 1);
    cudaDeviceSynchronize();
    cudaGetLastError();
    void* memory = nullptr;
    say(cudaMalloc(&memory, 1));
  });
}

void parameters(Programs& p) {
  p.says("two pointers exchanged", "never written", [] {
    void *in = device_memory(), *out = device_memory();
    set_ones(in);
    add(nullptr, in, out, 1);
    say(cudaDeviceSynchronize());
  });
  p.says("a number in place of a pointer", "no device memory", [] {
    uint64_t number = 32;
    uint32_t n = 1;
    launch(kFill, nullptr, {&number, &n});
    say(cudaDeviceSynchronize());
  });
  p.says("a pointer to the host's memory", "no device memory", [] {
    static uint32_t words[kThreads];
    fill(nullptr, words, 1);
    say(cudaDeviceSynchronize());
  });
  p.says("a pointer behind the tensor's begin", "misaligned", [] {
    fill(nullptr, static_cast<char*>(device_memory(2 * kBytes)) + 2, 1);
    say(cudaDeviceSynchronize());
  });
  p.says("a pointer to another part of the allocation", "behind the end of x (128 bytes)", [] {
    auto* memory = static_cast<char*>(device_memory(4 * kBytes));
    duet_softgpu_declare(memory, kBytes, "x");
    fill(nullptr, memory + kBytes, 1);
    say(cudaDeviceSynchronize());
  });
}

// Work of a node that has some of the tensors of an arena: x may be written, y read.
void scopes(Programs& p) {
  const auto node = [](const std::function<void(cudaStream_t, char* arena)>& body, bool as_graph = false) {
    return [body, as_graph] {
      auto* arena = static_cast<char*>(device_memory(4 * kBytes));
      duet_softgpu_declare(arena, 4 * kBytes, "arena");
      say(cudaMemsetAsync(arena, 0, 4 * kBytes, nullptr));
      say(cudaDeviceSynchronize());
      using Access = ScopedTensor::Access;
      const ScopedTensor tensors[] = {{arena, 4 * kBytes, "an arena", Access::none},
                                      {arena, kBytes, "x", Access::write},
                                      {arena + 2 * kBytes, kBytes, "y", Access::read}};
      cudaStream_t s = stream();
      if (as_graph) say(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
      duet_softgpu_scope("node", tensors, 3);
      body(s, arena);
      duet_softgpu_scope(nullptr, nullptr, 0);
      if (as_graph) {
        cudaGraph_t graph{};
        cudaGraphExec_t executable{};
        say(cudaStreamEndCapture(s, &graph));
        say(cudaGraphInstantiate(&executable, graph, 0));
        say(cudaGraphLaunch(executable, s));
      } else {
        fill(s, arena + 3 * kBytes, 1);  // after the node: all is allowed
      }
      end(cudaStreamSynchronize(s));
    };
  };
  const std::string behind = "a store of 4 bytes by node, 0 bytes behind the end of x (128 bytes), in an arena";
  p.says("a store outside of a node's tensors", behind, node([](cudaStream_t s, char* a) { fill(s, a + kBytes, 1); }));
  p.says("... in a recorded graph", behind, node([](cudaStream_t s, char* a) { fill(s, a + kBytes, 1); }, true));
  p.says("a store half outside of a node's tensors", "a store of 4 bytes by node, 0 bytes behind the end of x",
         node([](cudaStream_t s, char* a) { fill(s, a + kBytes / 2, 1); }));
  p.says("a store into a tensor that the node only reads",
         "a store of 4 bytes by node, at byte 0 of y (128 bytes), which it only reads",
         node([](cudaStream_t s, char* a) { fill(s, a + 2 * kBytes, 1); }));
  p.says("a load of another node's tensor", "a load of 4 bytes by node, 0 bytes behind the end of y (128 bytes)",
         node([](cudaStream_t s, char* a) { add(s, a, a + 3 * kBytes, 1); }));
  p.says("a copy into another node's tensor", "a store of 128 bytes by node, 0 bytes behind the end of y",
         node([](cudaStream_t s, char* a) {
           say(cudaMemcpyAsync(a + 3 * kBytes, a, kBytes, cudaMemcpyDeviceToDevice, s));
         }));
  p.says("a fill of another node's tensor", "a store of 128 bytes by node, 0 bytes behind the end of y",
         node([](cudaStream_t s, char* a) { say(cudaMemsetAsync(a + 3 * kBytes, 0, kBytes, s)); }));
  const auto allowed = [](cudaStream_t s, char* a) {
    add(s, a, a + 2 * kBytes, 1);
    add(s, a, a, 1);
    say(cudaMemcpyAsync(a, a + 2 * kBytes, kBytes, cudaMemcpyDeviceToDevice, s));
  };
  p.says("... its own tensors are allowed", "done", node(allowed));
  p.says("... in a recorded graph as well", "done", node(allowed, true));
}

// What nvcc wrote for another GPU, or what is no PTX that we know.
void modules(Programs& p) {
  const auto launch_fill = [] {
    uint64_t pointer = 0;
    uint32_t n = 1;
    launch(kFill, nullptr, {&pointer, &n});
  };
  const std::string ptx = kKernels;
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = ptx;
    return text.replace(text.find(from), from.size(), to);
  };
  p.says("PTX for a newer GPU", "no PTX for fill", launch_fill, ptx, 100);
  p.says("... in one of the two objects that have a kernel", "done", [] {
    register_kernels(kKernels, 100);
    end(fill(nullptr, device_memory(), 1));
  });
  p.says("... with a launch by the other one", "done", [] {
    register_kernels(kKernels, 100);
    constexpr const char* kOtherStub = "stub of fill in the other object";
    __cudaRegisterFunction(nullptr, kOtherStub, nullptr, "fill", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    void* out = device_memory();
    uint32_t n = 1;
    end(launch(kOtherStub, nullptr, {&out, &n}));
  });
  p.says("PTX of an unknown version", "version", launch_fill, changed(".version 9.0", ".version 17.3"));
  p.says("text that is no PTX", "PTX", launch_fill, "int main() {}");
  p.says("a kernel that calls a function", "'call.uni' is not supported", launch_fill,
         changed("ld.param.u64 %rd1, [fill_out];", "call.uni fill, (fill_out);"));
  p.says("a kernel that the PTX lacks", "no PTX for fill", launch_fill, changed(".entry fill(", ".entry filled("));
}

void constant_memory(Programs& p) {
  p.says("what a copy brings to constant memory", "read 7 and 9", [] {
    void *x = device_memory(), *y = device_memory();
    uint32_t* host = pinned_memory(0);
    fill(nullptr, x, 7);
    copy_to_bank(nullptr, x);
    fill(nullptr, x, 9);
    copy_to_bank(nullptr, x, kBytes / 2, kBytes / 2);
    look(nullptr, y);
    say(cudaMemcpy(host, y, kBytes, cudaMemcpyDeviceToHost));
    std::printf("read %u and %u\n", host[0], host[kThreads - 1]);
    std::fflush(nullptr);
    _exit(0);
  });
  p.says("... by its address as well", "done", [] {
    void *x = device_memory(), *at = nullptr;
    fill(nullptr, x, 7);
    say(cudaGetSymbolAddress(&at, &bank));
    say(cudaMemcpyAsync(at, x, kBytes, cudaMemcpyDeviceToDevice, nullptr));
    look(nullptr, x);
    end(cudaDeviceSynchronize());
  });
  p.says("... by each launch of a graph", "read 9", [] {
    void *x = device_memory(), *y = device_memory();
    cudaStream_t s = stream();
    fill(s, x, 7);
    say(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    copy_to_bank(s, x);
    look(s, y);
    cudaGraph_t graph{};
    cudaGraphExec_t executable{};
    say(cudaStreamEndCapture(s, &graph));
    say(cudaGraphInstantiate(&executable, graph, 0));
    say(cudaGraphLaunch(executable, s));
    fill(s, x, 9);
    say(cudaGraphLaunch(executable, s));
    say(cudaStreamSynchronize(s));
    uint32_t* host = pinned_memory(0);
    say(cudaMemcpy(host, y, kBytes, cudaMemcpyDeviceToHost));
    std::printf("read %u\n", host[0]);
    std::fflush(nullptr);
    _exit(0);
  });
  p.says("constant memory that was never written", "a load of 4 bytes that were never written", [] {
    look(nullptr, device_memory());
    say(cudaDeviceSynchronize());
  });
  p.says("... of which a part was not", "byte 64 of bank (128 bytes)", [] {
    void* x = device_memory();
    fill(nullptr, x, 7);
    copy_to_bank(nullptr, x, kBytes / 2);
    look(nullptr, x);
    say(cudaDeviceSynchronize());
  });
  p.says("... that is copied to the host", "of which 128 were never written", [] {
    static char words[kBytes];
    void* at = nullptr;
    say(cudaGetSymbolAddress(&at, &bank));
    say(cudaMemcpy(words, at, kBytes, cudaMemcpyDeviceToHost));
  });
  p.says("more threads than elements in constant memory", "0 bytes behind the end of bank (128 bytes)", [] {
    void *x = device_memory(2 * kBytes), *ones = device_memory();
    fill(nullptr, ones, 1);
    copy_to_bank(nullptr, ones);
    launch(kLook, nullptr, {&x}, 1, 2 * kThreads);
    say(cudaDeviceSynchronize());
  });
  p.says("a kernel that stores into constant memory", "in constant memory, which kernels only load from", [] {
    void* at = nullptr;
    say(cudaGetSymbolAddress(&at, &bank));
    fill(nullptr, at, 1);
    say(cudaDeviceSynchronize());
  });
  p.says("a copy of more than the variable holds", "a copy of 132 bytes to byte 0 of a variable of 128 bytes",
         [] { copy_to_bank(nullptr, device_memory(2 * kBytes), kBytes + 4); });
  p.says("... from an element on", "a copy of 128 bytes to byte 4 of a variable of 128 bytes",
         [] { copy_to_bank(nullptr, device_memory(2 * kBytes), kBytes, 4); });
  p.says("a copy to what is no variable of the device", "invalid device symbol", [] {
    static const char other = 0;
    say(cudaMemcpyToSymbolAsync(&other, device_memory(), 1, 0, cudaMemcpyDeviceToDevice, nullptr));
  });
  p.says("a copy from the host that says it is within the device", "a copy from host to device memory", [] {
    static char words[kBytes];
    copy_to_bank(nullptr, words);
  });
  p.says("a copy to constant memory that another stream reads", "without an order between them", [] {
    cudaStream_t a = stream(), b = stream();
    void *x = device_memory(), *y = device_memory();
    set_ones(x);
    copy_to_bank(nullptr, x);
    say(cudaDeviceSynchronize());
    look(a, y);
    copy_to_bank(b, x);
    say(cudaDeviceSynchronize());
  });
  std::string ptx = kKernels;
  const std::string declared = "bank[128]";
  p.says(
      "a variable that the program does not register", "variable 'other' in .const is not registered",
      [] { look(nullptr, device_memory()); },
      ptx.replace(ptx.find(declared), declared.size(), "other[128]")
          .replace(ptx.find("mov.u64 %rd3, bank"), 18, "mov.u64 %rd3, other"));
}

cudaTextureObject_t texture(void* memory, size_t bytes = kBytes,
                            cudaChannelFormatKind kind = cudaChannelFormatKindFloat, int bits = 32) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = {bits, 0, 0, 0, kind};
  resource.res.linear.sizeInBytes = bytes;
  cudaTextureDesc how{};
  cudaTextureObject_t made = 0;
  say(cudaCreateTextureObject(&made, &resource, &how, nullptr));
  return made;
}
cudaError_t sample(cudaStream_t s, void* out, cudaTextureObject_t from, uint32_t n = 0) {
  return launch(kSample, s, {&out, &from, &n});
}

void textures(Programs& p) {
  p.says("what a texture gives", "read 7", [] {
    void *x = device_memory(), *y = device_memory();
    uint32_t* host = pinned_memory(0);
    fill(nullptr, x, 7);
    sample(nullptr, y, texture(x));
    say(cudaMemcpy(host, y, kBytes, cudaMemcpyDeviceToHost));
    std::printf("read %u\n", host[kThreads - 1]);
    std::fflush(nullptr);
    _exit(0);
  });
  const auto of_ones = [](const std::function<void(void*)>& body) {
    return [body] {
      void* x = device_memory(2 * kBytes);
      duet_softgpu_declare(x, kBytes, "x");
      set_ones(x);
      body(x);
      end(cudaDeviceSynchronize());
    };
  };
  p.says("a fetch behind the texture", "a fetch of element 32 from a texture of 32",
         of_ones([](void* x) { sample(nullptr, device_memory(), texture(x), 1); }));
  p.says("a fetch before it", "a fetch of element -1 from a texture of 32",
         of_ones([](void* x) { sample(nullptr, device_memory(), texture(x), ~0u); }));
  p.says("a texture that is larger than the tensor", "0 bytes behind the end of x (128 bytes)",
         of_ones([](void* x) { sample(nullptr, device_memory(), texture(x, 2 * kBytes), 1); }));
  p.says("a texture that is larger than the allocation", "a texture of 260 bytes at",
         of_ones([](void* x) { texture(x, 2 * kBytes + 4); }));
  p.says("a texture that is not aligned", "not aligned to 512 bytes",
         of_ones([](void* x) { texture(static_cast<char*>(x) + 4); }));
  p.says("a texture of memory that was never written", "never written", [] {
    sample(nullptr, device_memory(), texture(device_memory()));
    say(cudaDeviceSynchronize());
  });
  p.says("a texture of released memory", "released memory", [] {
    void *x = device_memory(), *y = device_memory();
    const cudaTextureObject_t of_x = texture(x);
    set_ones(x);
    say(cudaFree(x));
    sample(nullptr, y, of_x);
    say(cudaDeviceSynchronize());
  });
  p.says("a texture of memory that is not the device's", "a texture of 128 bytes at address",
         [] { texture(pinned_memory(0)); });
  p.says("a texture of other elements than the kernel fetches", "a fetch of .f32 from a texture of .s32",
         of_ones([](void* x) { sample(nullptr, device_memory(), texture(x, kBytes, cudaChannelFormatKindSigned)); }));
  p.says("a texture of halves", "a texture of 16, 0, 0 and 0 bits",
         of_ones([](void* x) { texture(x, kBytes, cudaChannelFormatKindFloat, 16); }));
  p.says("a texture that was destroyed", "a fetch from a texture that was destroyed", of_ones([](void* x) {
           const cudaTextureObject_t of_x = texture(x);
           say(cudaDestroyTextureObject(of_x));
           sample(nullptr, device_memory(), of_x);
         }));
  p.says("... while a kernel that reads it is enqueued", "a fetch from a texture that was destroyed",
         of_ones([](void* x) {
           const cudaTextureObject_t of_x = texture(x);
           sample(nullptr, device_memory(), of_x);
           say(cudaDestroyTextureObject(of_x));
         }));
  p.says("... twice", "a texture that does not exist is destroyed", of_ones([](void* x) {
           const cudaTextureObject_t of_x = texture(x);
           say(cudaDestroyTextureObject(of_x));
           say(cudaDestroyTextureObject(of_x));
         }));
  p.says("a pointer in place of a texture", "which is no texture",
         of_ones([](void* x) { sample(nullptr, device_memory(), reinterpret_cast<uint64_t>(x)); }));
  p.says("a texture of what another stream writes", "without an order between them", of_ones([](void* x) {
           cudaStream_t a = stream(), b = stream();
           sample(a, device_memory(), texture(x));
           fill(b, x, 1);
         }));
}

void stream_order(Programs& p) {
  const auto two_streams = [](const std::function<void(cudaStream_t, cudaStream_t, void*, void*)>& work) {
    return [work] {
      cudaStream_t a = stream(), b = stream();
      void *x = device_memory(), *y = device_memory();
      set_ones(x);
      set_ones(y);
      work(a, b, x, y);
      say(cudaDeviceSynchronize());
      std::printf("ended\n");
      std::fflush(nullptr);
      _exit(0);  // leaks are another matter
    };
  };
  p.says("a right order is accepted", "ended\nexit 0", two_streams([](auto a, auto b, void* x, void* y) {
           cudaEvent_t written = event();
           fill(a, x, 1);
           say(cudaEventRecord(written, a));
           say(cudaStreamWaitEvent(b, written, 0));
           add(b, y, x, 1);
           say(cudaStreamSynchronize(b));
           fill(a, x, 2);
         }));
  p.says("a wait outlives its event", "ended\nexit 0", two_streams([](auto a, auto b, void* x, void*) {
           cudaEvent_t written = event();
           fill(a, x, 1);
           say(cudaEventRecord(written, a));
           say(cudaStreamWaitEvent(b, written, 0));
           say(cudaEventDestroy(written));
           fill(b, x, 2);
           say(cudaStreamSynchronize(b));
         }));
  p.says("a wait is for the record before it, not for a later one", "without an order between them",
         two_streams([](auto a, auto b, void* x, void*) {
           cudaEvent_t written = event();
           say(cudaEventRecord(written, a));
           say(cudaStreamWaitEvent(b, written, 0));
           fill(b, x, 1);
           fill(a, x, 2);
           say(cudaEventRecord(written, a));
           say(cudaStreamSynchronize(a));
           say(cudaStreamSynchronize(b));
         }));
  p.says("a wait for an event of a capture, by a stream outside of it", "an event that a capture has recorded",
         two_streams([](auto a, auto b, void* x, void*) {
           cudaEvent_t written = event();
           say(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
           fill(a, x, 1);
           say(cudaEventRecord(written, a));
           say(cudaStreamWaitEvent(b, written, 0));
         }));
  p.says("a copy that does not wait for a stream that wrote", "without an order between them",
         two_streams([](auto a, auto, void* x, void*) {
           uint32_t* host = pinned_memory(0);
           fill(a, x, 1);
           say(cudaMemcpy(host, x, kBytes, cudaMemcpyDeviceToHost));
         }));
  p.says("reads on a second stream without a wait", "without an order between them",
         two_streams([](auto a, auto b, void* x, void* y) {
           fill(a, x, 1);
           add(b, y, x, 1);
         }));
  p.says("writes on a second stream while the first reads", "without an order between them",
         two_streams([](auto a, auto b, void* x, void* y) {
           add(a, y, x, 1);
           fill(b, x, 1);
         }));
  p.says("two streams that write one tensor", "without an order between them",
         two_streams([](auto a, auto b, void* x, void*) {
           fill(a, x, 1);
           fill(b, x, 2);
         }));
  p.says("an event recorded before the work it stands for", "without an order between them",
         two_streams([](auto a, auto b, void* x, void* y) {
           cudaEvent_t written = event();
           say(cudaEventRecord(written, a));
           fill(a, x, 1);
           say(cudaStreamWaitEvent(b, written, 0));
           add(b, y, x, 1);
         }));
  p.says("a wait on the wrong stream", "without an order between them",
         two_streams([](auto a, auto b, void* x, void* y) {
           cudaEvent_t written = event();
           fill(a, x, 1);
           say(cudaEventRecord(written, a));
           say(cudaStreamWaitEvent(a, written, 0));
           add(b, y, x, 1);
         }));
  p.says("a copy on a second stream without a wait", "without an order between them",
         two_streams([](auto a, auto b, void* x, void* y) {
           fill(a, x, 1);
           say(cudaMemcpyAsync(y, x, kBytes, cudaMemcpyDeviceToDevice, b));
         }));
  p.says("memory released on a second stream without a wait", "without an order between them",
         two_streams([](auto a, auto b, void* x, void*) {
           fill(a, x, 1);
           say(cudaFreeAsync(x, b));
         }));
  p.says("work that is enqueued behind a release", "released memory", two_streams([](auto a, auto, void* x, void*) {
           say(cudaFreeAsync(x, a));
           fill(a, x, 1);
         }));
  // Without a wait, the host reads its own poison, or the device what the host wrote too early.
  p.says("a result that is read before the wait", "read 4294967295", two_streams([](auto a, auto, void* x, void*) {
           uint32_t* host = pinned_memory(0xffffffff);
           fill(a, x, 7);
           say(cudaMemcpyAsync(host, x, kBytes, cudaMemcpyDeviceToHost, a));
           std::printf("read %u\n", host[0]);
         }));
  p.says("an input that is overwritten before the wait", "read 9", two_streams([](auto a, auto, void* x, void*) {
           uint32_t *from = pinned_memory(7), *to = pinned_memory(0);
           say(cudaMemcpyAsync(x, from, kBytes, cudaMemcpyHostToDevice, a));
           from[0] = 9;
           say(cudaMemcpyAsync(to, x, kBytes, cudaMemcpyDeviceToHost, a));
           say(cudaStreamSynchronize(a));
           std::printf("read %u\n", to[0]);
         }));
  p.says("the time of an event that has not taken place", "device not ready",
         two_streams([](auto a, auto, void* x, void*) {
           cudaEvent_t start = event(), stop = event();
           say(cudaEventRecord(start, a));
           fill(a, x, 1);
           say(cudaEventRecord(stop, a));
           float ms = 0;
           say(cudaEventElapsedTime(&ms, start, stop));
         }));
}

void captures(Programs& p) {
  const auto capturing = [](const std::function<void(cudaStream_t)>& body) {
    return [body] {
      cudaStream_t s = stream();
      say(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
      body(s);
      cudaGraph_t graph{};
      if (say(cudaStreamEndCapture(s, &graph)) != cudaSuccess) std::printf("no graph\n");
      std::fflush(nullptr);
      _exit(0);
    };
  };
  const std::string refused = "refused: operation not permitted when stream is capturing";
  p.says("a synchronisation inside a capture", refused, capturing([](auto s) { say(cudaStreamSynchronize(s)); }));
  p.says("... ends it without a graph", "no graph", capturing([](auto s) { cudaStreamSynchronize(s); }));
  p.says("a wait for the device inside a capture", refused, capturing([](auto) { say(cudaDeviceSynchronize()); }));
  p.says("an allocation inside a capture", refused, capturing([](auto) { device_memory(); }));
  p.says("pinned memory inside a capture", refused, capturing([](auto) {
           void* memory = nullptr;
           say(cudaMallocHost(&memory, kBytes));
         }));
  p.says("a blocking copy inside a capture", refused, capturing([](auto) {
           uint32_t word = 0;
           say(cudaMemcpy(&word, &word, 4, cudaMemcpyHostToHost));
         }));
  p.says("a wait for an event inside a capture", refused, capturing([](auto s) {
           cudaEvent_t e = event();
           say(cudaEventRecord(e, s));
           say(cudaEventSynchronize(e));
         }));
  p.says("a capture inside a capture", "capturing already",
         capturing([](auto s) { say(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)); }));
  p.says("a capture that did not begin", "the stream is not capturing", [] {
    cudaGraph_t graph{};
    say(cudaStreamEndCapture(stream(), &graph));
  });
  p.says("work of a capture runs when the graph is launched, not before", "read 5, then 1", [] {
    cudaStream_t s = stream();
    void* x = device_memory();
    uint32_t* host = pinned_memory(0);
    fill(s, x, 5);
    say(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    fill(s, x, 1);
    cudaGraph_t graph{};
    cudaGraphExec_t executable{};
    say(cudaStreamEndCapture(s, &graph));
    say(cudaGraphInstantiate(&executable, graph, 0));
    say(cudaStreamSynchronize(s));
    say(cudaMemcpy(host, x, kBytes, cudaMemcpyDeviceToHost));
    const uint32_t before = host[0];
    say(cudaGraphLaunch(executable, s));
    say(cudaStreamSynchronize(s));
    say(cudaMemcpy(host, x, kBytes, cudaMemcpyDeviceToHost));
    std::printf("read %u, then %u\n", before, host[0]);
    std::fflush(nullptr);
    _exit(0);
  });
  p.says("a graph that was destroyed", "invalid resource handle", [] {
    cudaStream_t s = stream();
    say(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph{};
    cudaGraphExec_t executable{};
    say(cudaStreamEndCapture(s, &graph));
    say(cudaGraphInstantiate(&executable, graph, 0));
    say(cudaGraphExecDestroy(executable));
    say(cudaGraphLaunch(executable, s));
  });
}

void memory(Programs& p) {
  p.says("memory released twice", "released memory", [] {
    void* x = device_memory();
    say(cudaFree(x));
    say(cudaFree(x));
  });
  p.says("a release of the middle of an allocation", "invalid argument",
         [] { say(cudaFree(static_cast<char*>(device_memory()) + 16)); });
  p.says("a copy behind the end of an allocation", "a copy to the device of 256 bytes", [] {
    static char words[2 * kBytes];
    say(cudaMemcpy(device_memory(), words, 2 * kBytes, cudaMemcpyHostToDevice));
  });
  p.says("a copy of memory that was never written", "of which 64 were never written; the first is", [] {
    static char words[kBytes];
    void* x = device_memory();
    say(cudaMemcpy(x, words, kBytes / 2, cudaMemcpyHostToDevice));
    say(cudaMemcpy(words, x, kBytes, cudaMemcpyDeviceToHost));
  });
  p.says("a copy of a copy of memory that was never written", "of which 128 were never written", [] {
    static char words[kBytes];
    void *x = device_memory(), *y = device_memory();
    say(cudaMemcpy(y, x, kBytes, cudaMemcpyDeviceToDevice));
    say(cudaMemcpy(words, y, kBytes, cudaMemcpyDeviceToHost));
  });
  const auto two_tensors = [](const std::function<void(char*)>& body) {
    return [body] {
      auto* both = static_cast<char*>(device_memory(3 * kBytes));
      duet_softgpu_declare(both, kBytes, "x");
      duet_softgpu_declare(both + 2 * kBytes, kBytes, "y");
      body(both);
      end(cudaDeviceSynchronize());
    };
  };
  static char words[3 * kBytes];
  const std::string crosses = "which goes from one tensor into the next";
  p.says("a copy from one tensor into the next", crosses,
         two_tensors([](char* x) { say(cudaMemcpy(x, words, 2 * kBytes + 4, cudaMemcpyHostToDevice)); }));
  p.says("a copy that begins too early", crosses,
         two_tensors([](char* x) { say(cudaMemcpy(x + kBytes, words, kBytes + 4, cudaMemcpyHostToDevice)); }));
  p.says("a copy within the device that is too long", crosses,
         two_tensors([](char* x) { say(cudaMemcpy(x + 4, x + 2 * kBytes, kBytes, cudaMemcpyDeviceToDevice)); }));
  p.says("a fill that is too long", crosses,
         two_tensors([](char* x) { say(cudaMemsetAsync(x + 4, 0, kBytes, nullptr)); }));
  p.says("... copies and fills of whole tensors are allowed", "done", two_tensors([](char* x) {
           say(cudaMemcpy(x, words, 3 * kBytes, cudaMemcpyHostToDevice));
           say(cudaMemcpy(x + 2 * kBytes, x, kBytes, cudaMemcpyDeviceToDevice));
           say(cudaMemsetAsync(x + kBytes, 0, kBytes, nullptr));
           say(cudaMemsetAsync(x + 4, 0, kBytes - 4, nullptr));
         }));
  p.says("a copy in the wrong direction", "a copy from host to device memory", [] {
    static char words[kBytes];
    say(cudaMemcpy(device_memory(), words, kBytes, cudaMemcpyDeviceToHost));
  });
  p.says("host code that follows a device pointer", "host code accesses device memory: address", [] {
    auto* x = static_cast<volatile uint32_t*>(device_memory());
    x[3] = 1;
  });
  const auto leak = [&](const std::string& what, const std::function<void()>& program) {
    p.says("a leak: " + what, "1 " + what + " not released\nexit 70", program);
  };
  leak("allocations of device memory", [] { device_memory(); });
  leak("allocations of pinned memory", [] { pinned_memory(0); });
  leak("streams", [] { stream(); });
  leak("events", [] { event(); });
  p.says("a leak: textures", "1 textures not released\nexit 70", [] {
    void* x = device_memory();
    texture(x);
    say(cudaFree(x));
  });
  p.says("leaks of a graph and its executable",
         "1 graphs not released\nsoftware GPU: at the end of the program: 1 executable", [] {
           cudaStream_t s = stream();
           say(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
           cudaGraph_t graph{};
           cudaGraphExec_t executable{};
           say(cudaStreamEndCapture(s, &graph));
           say(cudaGraphInstantiate(&executable, graph, 0));
           say(cudaStreamDestroy(s));
         });
}
}  // namespace

void planted_programs(Tally& tally) {
  Programs p(tally);
  launches(p);
  parameters(p);
  scopes(p);
  modules(p);
  constant_memory(p);
  textures(p);
  stream_order(p);
  captures(p);
  memory(p);
}

}  // namespace duet::softgpu
