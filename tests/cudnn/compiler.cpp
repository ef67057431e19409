// SPDX-License-Identifier: Apache-2.0
// Stands in for libnvrtc.so in plan_test.cpp: the functions by which cuDNN compiles the kernels of a plan. They give it
// an empty kernel at once; the real ones take about half a second for each plan.
#include <cstddef>
#include <cstring>

namespace {
constexpr size_t kBytes = 64;
int anything[64];
int give_size(size_t* bytes) {
  *bytes = kBytes;
  return 0;
}
int give_empty(char* to) {
  std::memset(to, 0, kBytes);
  return 0;
}
}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
int nvrtcCreateProgram(void** program) {
  *program = anything;
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram() { return 0; }
int __nvrtcCPEx() { return 0; }  // what cuDNN calls instead of nvrtcCompileProgram
int nvrtcGetPTXSize(void*, size_t* bytes) { return give_size(bytes); }
int nvrtcGetPTX(void*, char* to) { return give_empty(to); }
int nvrtcGetCUBINSize(void*, size_t* bytes) { return give_size(bytes); }
int nvrtcGetCUBIN(void*, char* to) { return give_empty(to); }
int nvrtcGetLTOIRSize(void*, size_t* bytes) { return give_size(bytes); }
int nvrtcGetLTOIR(void*, char* to) { return give_empty(to); }
int nvrtcGetProgramLogSize(void*, size_t* bytes) {
  *bytes = 1;
  return 0;
}
int nvrtcGetProgramLog(void*, char* to) {
  *to = 0;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "an error"; }
int nvrtcAddNameExpression() { return 0; }
int nvrtcGetLoweredName(void*, const char* name, const char** lowered) {
  *lowered = name;
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
