// SPDX-License-Identifier: Apache-2.0
// Constant memory: a small bank that kernels only read, with a cache of its own. One read serves all lanes of a warp
// that ask for the same element; different elements follow one another.
//   DUET_CONSTANT(float, table, 1024);   at namespace scope of a kernel file: 1024 elements, an array for its kernels
// A plan calls load_constant() when it is made and fill_constant() in each run. The variable is one for all plans, so
// that runs that use it have to be on one stream.
#pragma once
#include "simt/launch.h"

#ifdef __CUDACC__
#include "core/cuda/constant.h"
#define DUET_CONSTANT(T, name, count) static __constant__ T name[count]
#else
#include "simt/host/constant.h"
#define DUET_CONSTANT(T, name, count) constexpr ::duet::simt::host::Constant<T, count> name(#name)
#endif

namespace duet::DUET_DEVICE {

inline constexpr int64_t kMaxConstantBytes = 64 << 10;  // of all variables of a kernel file

// Variable: what DUET_CONSTANT declares.
template <class Variable>
void load_constant([[maybe_unused]] const Variable& variable) {
#ifdef __CUDACC__
  load_constant_variable(&variable);
#endif
}

// Enqueues a copy of `count` elements from device memory to the beginning of the variable. Throws Error where they do
// not fit.
template <class Variable, class T>
void fill_constant(const Variable& variable, const T* from, int64_t count, [[maybe_unused]] CUstream_st* stream) {
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(variable[0])>, T>, "fill_constant: another element type");
#ifdef __CUDACC__
  fill_constant_variable(&variable, from, count * int64_t{sizeof(T)}, stream);
#else
  variable.fill(from, count);
#endif
}

}  // namespace duet::DUET_DEVICE
