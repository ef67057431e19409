// SPDX-License-Identifier: Apache-2.0
// Forward: one thread per element of y. Backward: one thread per element of dtable, which visits all tokens and adds
// those of its word. Sums are in double, so that rounding is small for any number of tokens.
#include "simt/launch.h"
#include "ops/embedding/embedding.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(elements / kThreads) blocks of kThreads, no shared memory. token: (B, T), table: (words, cols), position: (T,
// cols) or null, y: (B, T, cols).
template <class T>
__global__ void embedding_kernel(const int32_t* token, const T* table, const T* position, T* y, int64_t elements,
                                 int64_t length, int64_t words, int64_t cols) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t row = i / cols, c = i % cols, word = token[row];
  const T value = word >= 0 && word < words ? table[word * cols + c] : T(0.0f);
  y[i] = position ? T(float(value) + float(position[row % length * cols + c])) : value;
}

Plan embedding_naive(const Embedding& p, GpuContext& gpu) {
  using P = Embedding;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.tokens() * p.C;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(embedding_kernel<T>, grid, t[P::token].as<const int32_t>(), t[P::table].as<const T>(),
             p.position ? t[P::place].as<const T>() : nullptr, t[P::y].as<T>(), elements, p.T, p.V, p.C);
    };
  });
}
DUET_REGISTER(embedding_naive);

// ceil(words * cols / kThreads) blocks of kThreads, no shared memory. token: (tokens), dy: (tokens, cols), dtable:
// (words, cols).
template <class T>
__global__ void words_kernel(const int32_t* token, const T* dy, T* dtable, int64_t tokens, int64_t words, int64_t cols,
                             bool accumulate) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= words * cols) return;
  const int64_t word = i / cols, c = i % cols;
  double sum = accumulate ? float(dtable[i]) : 0;
  for (int64_t k = 0; k < tokens; ++k)
    if (token[k] == word) sum += float(dy[k * cols + c]);
  dtable[i] = T(static_cast<float>(sum));
}

// ceil(length * cols / kThreads) blocks of kThreads, no shared memory. dy: (sequences, length, cols), dposition:
// (length, cols).
template <class T>
__global__ void positions_kernel(const T* dy, T* dposition, int64_t sequences, int64_t elements) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  double sum = 0;
  for (int64_t b = 0; b < sequences; ++b) sum += float(dy[b * elements + i]);
  dposition[i] = T(static_cast<float>(sum));
}

Plan embedding_backward_naive(const EmbeddingBackward& p, GpuContext& gpu) {
  using P = EmbeddingBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const auto grid = [&](int64_t n) {
        return Grid{.blocks = ceil_div(n, kThreads), .threads = kThreads, .stream = stream};
      };
      const T* dy = t[P::dy].as<const T>();
      launch(words_kernel<T>, grid(p.V * p.C), t[P::token].as<const int32_t>(), dy, t[P::dtable].as<T>(), p.tokens(),
             p.V, p.C, p.accumulate);
      if (p.position) launch(positions_kernel<T>, grid(p.T * p.C), dy, t[P::dposition].as<T>(), p.B, p.T * p.C);
    };
  });
}
DUET_REGISTER(embedding_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
