// SPDX-License-Identifier: Apache-2.0
// Stands in for libcuda.so.1 in plan_test.cpp: the functions of the CUDA driver that cuDNN asks for while it makes a
// plan. It loads kernels and gets handles that nothing follows; nothing is launched.
#include <cstddef>

namespace {
int anything[64];
int give(void** handle) {
  *handle = anything;
  return 0;
}
int give_number(int* number, int value) {
  *number = value;
  return 0;
}
}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
int cuCtxGetCurrent(void** context) { return give(context); }
int cuCtxPopCurrent(void** context) { return give(context); }
int cuCtxPushCurrent(void*) { return 0; }
int cuCtxGetLimit(size_t* value, int) {
  *value = 0;
  return 0;
}
int cuStreamGetCtx(void*, void** context) { return give(context); }
int cuDeviceGet(int* device, int) { return give_number(device, 0); }
int cuDeviceGetCount(int* count) { return give_number(count, 1); }
int cuDriverGetVersion(int* version) { return give_number(version, 13000); }
int cuGetErrorName(int, const char** text) {
  *text = "an error";
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "an error";
  return 0;
}
int cuLibraryLoadData(void** library) { return give(library); }
int cuLibraryLoadFromFile(void** library) { return give(library); }
int cuLibraryGetKernel(void** kernel) { return give(kernel); }
int cuLibraryUnload(void*) { return 0; }
int cuKernelGetAttribute(int* value) { return give_number(value, 0); }
int cuKernelSetAttribute() { return 0; }
int cuOccupancyMaxPotentialClusterSize(int* blocks) { return give_number(blocks, 8); }
int cuLinkCreate() { return 0; }
int cuLinkAddData() { return 0; }
int cuLinkComplete() { return 0; }
int cuLinkDestroy() { return 0; }
int cuLaunchKernel() { return 1; }
int cuLaunchKernelEx() { return 1; }
int cuLaunchCooperativeKernel() { return 1; }
}
// NOLINTEND(readability-identifier-naming)
