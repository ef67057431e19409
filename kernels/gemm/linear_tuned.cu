// SPDX-License-Identifier: Apache-2.0
// Forward: a product (product.h) that applies bias and activation before a tile is stored. Backward: one pass masks dy
// and sums its columns for the bias gradient; two products follow.
#include "kernels/activation.cuh"
#include "kernels/gemm/masked.h"
#include "kernels/gemm/product.h"
#include "kernels/reduction/columns.cuh"
#include "ops/gemm/linear.h"

namespace duet::DUET_DEVICE {

namespace {
struct WherePositive {
  template <class T>
  __device__ T operator()(T y, T dy) const {
    return float(y) > 0 ? dy : T(0.0f);
  }
};
struct GeluGradient {
  template <class T>
  __device__ T operator()(T pre, T dy) const {
    return T(float(dy) * gelu_tanh_slope(float(pre)));
  }
};

template <class Op>
void enqueue_pair(const Op& op, DType dtype, int64_t n, const void* a, const void* b, void* to, cudaStream_t stream) {
  for_float(dtype, [&]<class T>() -> Plan {
    launch_map(stream, op, n, static_cast<T*>(to), static_cast<const T*>(a), static_cast<const T*>(b));
    return Unsupported{};
  });
}
}  // namespace

void enqueue_masked(DType dtype, int64_t n, const void* y, const void* dy, void* g, cudaStream_t stream) {
  enqueue_pair(WherePositive{}, dtype, n, y, dy, g, stream);
}
void enqueue_gelu_gradient(DType dtype, int64_t n, const void* pre, const void* dy, void* g, cudaStream_t stream) {
  enqueue_pair(GeluGradient{}, dtype, n, pre, dy, g, stream);
}

namespace {
// g = dy gelu'(pre), as a Load of columns.cuh that also stores g.
template <class T>
struct LoadGelu {
  static constexpr int kSums = 1;
  using Element = T;
  const T *pre, *dy;
  T* g;  // all (rows, cols)
  int64_t cols;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t row, int64_t c, float (&terms)[1][kSize]) const {
    const int64_t i = row * cols + c;
    const auto at = load_pack<kSize>(pre + i);
    auto pack = load_pack<kSize>(dy + i);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      pack.at[e] = GeluGradient{}(at.at[e], pack.at[e]);
      terms[0][e] = float(pack.at[e]);
    }
    store_pack(g + i, pack);
  }
  bool aligned() const { return aligned16(pre, dy, g); }
};

Plan linear_tuned(const Linear& p, GpuContext& gpu) {
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Product product{.m = p.n, .n = p.out, .k = p.in, .trans_b = true, .relu = p.act == Act::relu};
    return [product, gelu = p.act == Act::gelu, &gpu](Args t) {
      enqueue_product<T>(product, t[Linear::x].as<const T>(), t[Linear::w].as<const T>(), t[Linear::bias].as<const T>(),
                         t[Linear::y].as<T>(), gpu, gelu ? t[Linear::pre].as<T>() : nullptr);
    };
  });
}
DUET_REGISTER(linear_tuned);

Plan linear_backward_tuned(const LinearBackward& p, GpuContext& gpu) {
  using P = LinearBackward;
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  if (!ColumnSums<float>::supports(p.n)) return Unsupported{"more than 2^26 samples"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Product dx{.m = p.n, .n = p.in, .k = p.out}, dw{.m = p.out, .n = p.in, .k = p.n, .trans_a = true};
    WorkspaceLayout workspace;
    const ColumnSums<T> dbias(p.n, p.out, gpu, workspace);
    const auto masked_piece = workspace.add<T>(p.act == Act::none ? 0 : p.n * p.out);
    return Plan([act = p.act, out = p.out, dx, dw, dbias, masked_piece, &gpu](Args t) {
             T* const masked = t.workspace(masked_piece);
             const T *x = t[P::x].as<const T>(), *w = t[P::w].as<const T>(), *dy = t[P::dy].as<const T>();
             const T *gate = t[P::y].as<const T>(), *g = act == Act::none ? dy : masked;
             const StoreSum<T> store{t[P::dbias].as<T>()};
             if (act == Act::relu)
               dbias.enqueue(t, LoadMasked<T>{gate, dy, masked, out}, store);
             else if (act == Act::gelu)
               dbias.enqueue(t, LoadGelu<T>{gate, dy, masked, out}, store);
             else
               dbias.enqueue(t, LoadColumns<T>{dy, out}, store);
             enqueue_product<T>(dx, g, w, nullptr, t[P::dx].as<T>(), gpu);
             enqueue_product<T>(dw, g, x, nullptr, t[P::dw].as<T>(), gpu);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(linear_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
