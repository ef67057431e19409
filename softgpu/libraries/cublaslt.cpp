// SPDX-License-Identifier: Apache-2.0
// Stands in for the functions of cuBLASLt that need a device, as far as Duet calls them. Descriptors, layouts and
// preferences are cuBLASLt's own, which checks names and sizes of attributes; the stand-in reads them.
//
// Rules that are kept: an algorithm runs only on matrices as aligned as it was asked for, with its workspace and the
// shapes and epilogue that it was found for.
#include <cublasLt.h>

#include <set>

#include "softgpu/libraries/product.h"

namespace {
using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

struct Handle {};
std::set<Handle*> handles;

constexpr uint64_t kWorkspaceBytes = 4096;  // more than none, so that a call without a workspace is refused

// What an algorithm was found for, in its opaque data.
struct Algorithm {
  uint64_t alignment, workspace_bytes, m, n, k, batches, epilogue;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

template <class T>
T read(auto get, auto object, auto which, const char* of) {
  T value{};
  size_t written = 0;
  if (get(object, which, &value, sizeof value, &written) != CUBLAS_STATUS_SUCCESS)
    throw duet::Error("cuBLASLt: attribute {} of a {}", static_cast<int>(which), of);
  return value;
}
template <class T>
T attribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which) {
  return read<T>(cublasLtMatmulDescGetAttribute, d, which, "product");
}
template <class T>
T attribute(cublasLtMatrixLayout_t d, cublasLtMatrixLayoutAttribute_t which) {
  return read<T>(cublasLtMatrixLayoutGetAttribute, d, which, "layout");
}
template <class T>
T attribute(cublasLtMatmulPreference_t d, cublasLtMatmulPreferenceAttributes_t which) {
  return read<T>(cublasLtMatmulPreferenceGetAttribute, d, which, "preference");
}

Matrix matrix_of(const void* data, cublasLtMatrixLayout_t layout) {
  if (attribute<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER) != CUBLASLT_ORDER_COL)
    throw duet::Error("cuBLASLt: a layout that is not column-major");
  return {data,
          static_cast<cudaDataType>(attribute<uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE)),
          static_cast<int64_t>(attribute<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS)),
          static_cast<int64_t>(attribute<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS)),
          attribute<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD),
          attribute<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)};
}

// Of a layout; the four of a product must have the same.
int64_t batches_of(std::initializer_list<cublasLtMatrixLayout_t> layouts) {
  const auto batches_in = [](cublasLtMatrixLayout_t layout) {
    return attribute<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  };
  const int32_t first = batches_in(*layouts.begin());
  for (const cublasLtMatrixLayout_t layout : layouts)
    if (batches_in(layout) != first) throw duet::Error("cuBLASLt: {} and {} batches", first, batches_in(layout));
  return first;
}

Product product_of(cublasLtMatmulDesc_t description, const void* a, cublasLtMatrixLayout_t la, const void* b,
                   cublasLtMatrixLayout_t lb, const void* c, cublasLtMatrixLayout_t lc, void* d,
                   cublasLtMatrixLayout_t ld) {
  const auto compute =
      static_cast<cublasComputeType_t>(attribute<int32_t>(description, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE));
  Product p;
  p.call = "cublasLtMatmul";
  p.transpose_a = attribute<int32_t>(description, CUBLASLT_MATMUL_DESC_TRANSA) != CUBLAS_OP_N;
  p.transpose_b = attribute<int32_t>(description, CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N;
  p.a = matrix_of(a, la);
  p.b = matrix_of(b, lb);
  p.c = matrix_of(c, lc);
  p.d = matrix_of(d, ld);
  p.batches = batches_of({la, lb, lc, ld});
  p.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type == CUDA_R_32F;
  const bool integers = compute == CUBLAS_COMPUTE_32I;
  if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32 && !integers)
    throw duet::Error("cuBLASLt: another precision than f32, TF32 and i32");
  if (attribute<int32_t>(description, CUBLASLT_MATMUL_DESC_SCALE_TYPE) != (integers ? CUDA_R_32I : CUDA_R_32F) ||
      attribute<int32_t>(description, CUBLASLT_MATMUL_DESC_POINTER_MODE) != CUBLASLT_POINTER_MODE_HOST)
    throw duet::Error("cuBLASLt: factors that are not of the compute type on the host");
  if (integers != (p.a.type == CUDA_R_8I) || integers != (p.b.type == CUDA_R_8I) ||
      integers != (p.d.type == CUDA_R_32I))
    throw duet::Error("cuBLASLt: sums in i32 are for factors of i8 and a result of i32 alone");
  const bool bytes = p.a.type == CUDA_R_8F_E4M3;
  if (bytes != (p.b.type == CUDA_R_8F_E4M3) || (bytes && p.d.type != CUDA_R_16BF))
    throw duet::Error("cuBLASLt: f8e4m3 is multiplied by itself, with a result in bf16");
  return p;
}

cublasLtEpilogue_t epilogue_of(cublasLtMatmulDesc_t description) {
  return static_cast<cublasLtEpilogue_t>(attribute<uint32_t>(description, CUBLASLT_MATMUL_DESC_EPILOGUE));
}
bool known(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS ||
         e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || e == CUBLASLT_EPILOGUE_DGELU_BGRAD || e == CUBLASLT_EPILOGUE_BGRADB;
}
bool has_aux(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || e == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}

// By tanh, as cuBLASLt computes it.
constexpr double kGeluFactor = 0.7978845608028654, kGeluCubic = 0.044715;  // sqrt(2 / pi)
double gelu(double x) { return 0.5 * x * (1 + std::tanh(kGeluFactor * (x + kGeluCubic * x * x * x))); }
double gelu_slope(double x) {
  const double w = kGeluFactor * (x + kGeluCubic * x * x * x), cosh = std::cosh(w);
  return 0.5 * (1 + std::tanh(w)) + 0.5 * x * kGeluFactor * (1 + 3 * kGeluCubic * x * x) / (cosh * cosh);
}

// Everything of the epilogue that lies in memory.
struct Epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  Element bias_type = Element::f32, aux_type = Element::f32;
  int64_t aux_ld = 0;
};

void run(const Product& p, const Epilogue& e) {
  if (e.kind == CUBLASLT_EPILOGUE_DEFAULT) return p.run();
  Elements bias(e.bias, e.bias_type, p.call + ", bias");
  if (e.kind == CUBLASLT_EPILOGUE_BGRADB) {  // the sums of op(b) over k, one for each column of d
    const Elements b(p.b.data, *element_of(p.b.type), p.call + ", b");
    std::vector<double> sums(static_cast<size_t>(p.n()));
    for (int64_t j = 0; j < p.n(); ++j)
      for (int64_t l = 0; l < p.k(); ++l)
        sums[static_cast<size_t>(j)] += b.load(p.transpose_b ? j + l * p.b.ld : l + j * p.b.ld);
    p.run();
    for (int64_t j = 0; j < p.n(); ++j) bias.store(j, sums[static_cast<size_t>(j)]);
    return;
  }
  if (!has_aux(e.kind))
    return p.run([&](int64_t i, int64_t, double sum) {
      const double biased = sum + bias.load(i);
      return e.kind == CUBLASLT_EPILOGUE_RELU_BIAS && biased <= 0 ? 0 : biased;
    });
  Elements aux(e.aux, e.aux_type, p.call + ", aux");
  if (e.kind == CUBLASLT_EPILOGUE_DGELU_BGRAD) {  // bias: the sums of the rows of d
    std::vector<double> sums(static_cast<size_t>(p.m()));
    p.run([&](int64_t i, int64_t j, double sum) {
      const double value = sum * gelu_slope(aux.load(i + j * e.aux_ld));
      sums[static_cast<size_t>(i)] += value;
      return value;
    });
    for (int64_t i = 0; i < p.m(); ++i) bias.store(i, sums[static_cast<size_t>(i)]);
    return;
  }
  p.run([&](int64_t i, int64_t j, double sum) {
    const double biased = sum + bias.load(i);
    aux.store(i + j * e.aux_ld, biased);
    return gelu(biased);
  });
}
}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return library_call(CUBLAS_STATUS_NOT_INITIALIZED, [&]() -> cublasStatus_t {
    if (breaks_capture()) return refuse_call(CUBLAS_STATUS_NOT_INITIALIZED, "cublasLtCreate during a capture");
    auto* h = new Handle;
    handles.insert(h);
    *handle = reinterpret_cast<cublasLtHandle_t>(h);
    return CUBLAS_STATUS_SUCCESS;
  });
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return library_call(CUBLAS_STATUS_NOT_INITIALIZED, [&]() -> cublasStatus_t {
    auto* h = reinterpret_cast<Handle*>(handle);
    if (handles.erase(h) == 0) return refuse_call(CUBLAS_STATUS_NOT_INITIALIZED, "cuBLASLt: no such handle");
    delete h;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  return library_call(CUBLAS_STATUS_NOT_SUPPORTED, [&]() -> cublasStatus_t {
    if (!handles.count(reinterpret_cast<Handle*>(handle)) || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    int anything = 0;  // pointers are not known yet
    const Product p = product_of(description, &anything, a, &anything, b, &anything, c, &anything, d);
    if (const std::string why = p.invalid(); !why.empty()) return refuse_call(CUBLAS_STATUS_INVALID_VALUE, why);
    const cublasLtEpilogue_t epilogue = epilogue_of(description);
    if (!known(epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
    // Extents and leading dimensions of elements of 8 bits are multiples of it; of f8e4m3 columns are free.
    const int64_t multiple = p.a.type == CUDA_R_8I ? 4 : p.a.type == CUDA_R_8F_E4M3 ? 16 : 1;
    const bool whole = p.m() % multiple == 0 && (p.a.type == CUDA_R_8F_E4M3 || p.n() % multiple == 0) &&
                       p.k() % multiple == 0 && p.a.ld % multiple == 0 && p.b.ld % multiple == 0 &&
                       p.d.ld % multiple == 0;
    if (multiple > 1 && (!p.transpose_a || p.transpose_b || epilogue != CUBLASLT_EPILOGUE_DEFAULT || !whole))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    uint32_t alignment = 256;
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      alignment = std::min(alignment, attribute<uint32_t>(preference, which));
    const auto max_bytes = attribute<uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
    const Algorithm algorithm{alignment,
                              std::min(max_bytes, kWorkspaceBytes),
                              static_cast<uint64_t>(p.m()),
                              static_cast<uint64_t>(p.n()),
                              static_cast<uint64_t>(p.k()),
                              static_cast<uint64_t>(p.batches),
                              static_cast<uint64_t>(epilogue)};
    *results = {};
    std::memcpy(&results->algo, &algorithm, sizeof algorithm);
    results->workspaceSize = algorithm.workspace_bytes;
    results->state = CUBLAS_STATUS_SUCCESS;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb,
                              const void* beta, const void* c, cublasLtMatrixLayout_t lc, void* d,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  return library_call(CUBLAS_STATUS_EXECUTION_FAILED, [&]() -> cublasStatus_t {
    const auto refused = [](const std::string& why) {
      return refuse_call(CUBLAS_STATUS_INVALID_VALUE, "cublasLtMatmul: " + why);
    };
    if (!handles.count(reinterpret_cast<Handle*>(handle))) return refused("no such handle");
    if (!is_stream(stream)) return refused("no such stream");
    if (!alpha || !beta || !chosen) return refused("a factor or the algorithm is null");
    Product p = product_of(description, a, la, b, lb, c, lc, d, ld);
    const auto factor = [&](const void* value) {
      return p.a.type == CUDA_R_8I ? *static_cast<const int32_t*>(value) : double{*static_cast<const float*>(value)};
    };
    p.alpha = factor(alpha);
    p.beta = factor(beta);
    if (const std::string why = p.invalid(); !why.empty()) return refuse_call(CUBLAS_STATUS_INVALID_VALUE, why);

    Algorithm algorithm;
    std::memcpy(&algorithm, chosen, sizeof algorithm);
    Epilogue e;
    e.kind = epilogue_of(description);
    if (algorithm.m != static_cast<uint64_t>(p.m()) || algorithm.n != static_cast<uint64_t>(p.n()) ||
        algorithm.k != static_cast<uint64_t>(p.k()) || algorithm.batches != static_cast<uint64_t>(p.batches) ||
        algorithm.epilogue != static_cast<uint64_t>(e.kind))
      return refused("the algorithm was found for another product");
    if (workspace_bytes < algorithm.workspace_bytes || (algorithm.workspace_bytes > 0 && !workspace))
      return refused("the workspace is less than the algorithm needs");
    const auto aligned = [&](const void* memory) {
      return reinterpret_cast<uintptr_t>(memory) % algorithm.alignment == 0;
    };
    if (!aligned(a) || !aligned(b) || !aligned(c) || !aligned(d) || !aligned(workspace))
      return refused(fmt::format("memory that is not aligned to the {} bytes asked for", algorithm.alignment));
    if (e.kind != CUBLASLT_EPILOGUE_DEFAULT) {
      e.bias = attribute<void*>(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
      const auto type = attribute<int32_t>(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
      e.bias_type = *element_of(type < 0 ? p.d.type : static_cast<cudaDataType>(type));
      if (!e.bias) return refused("an epilogue without the pointer of its bias");
    }
    if (has_aux(e.kind)) {
      e.aux = attribute<void*>(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
      e.aux_ld = attribute<int64_t>(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
      e.aux_type = *element_of(p.d.type);
      constexpr int64_t kColumns = 8;
      if (!e.aux || e.aux_ld < p.m() || e.aux_ld % kColumns != 0)
        return refused("the input of gelu needs a pointer, and a leading dimension that is a multiple of 8");
    }
    enqueue(stream, [p, e, workspace, workspace_bytes] {
      spoil(workspace, workspace_bytes, p.call + ", workspace");
      run(p, e);
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}
}
// NOLINTEND(readability-identifier-naming)
