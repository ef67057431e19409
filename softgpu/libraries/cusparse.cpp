// SPDX-License-Identifier: Apache-2.0
// Stands in for the functions of cuSPARSE that need a device, as far as Duet calls them. Descriptors are the library's
// own. An index outside of its matrix is a read out of bounds here as well.
#include <cusparse.h>

#include <set>

#include "softgpu/libraries/elements.h"
#include "softgpu/libraries/product.h"

namespace {
using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

constexpr size_t kWorkspaceBytes = 512;

struct Handle {
  cudaStream_t stream = nullptr;
};
std::set<Handle*> handles;

// Runs `body` with the handle, which must exist.
template <class F>
cusparseStatus_t with(cusparseHandle_t handle, F&& body) {
  return library_call(CUSPARSE_STATUS_EXECUTION_FAILED, [&]() -> cusparseStatus_t {
    auto* h = reinterpret_cast<Handle*>(handle);
    if (!handles.count(h)) return refuse_call(CUSPARSE_STATUS_NOT_INITIALIZED, "cuSPARSE: no such handle");
    return body(*h);
  });
}

cusparseStatus_t not_supported(const char* what) {
  return refuse_call(CUSPARSE_STATUS_NOT_SUPPORTED, std::string("cusparseSpMM: ") + what);
}

Element stored_as(cudaDataType type) {
  const std::optional<Element> element = element_of(type);
  if (element == Element::f32 || element == Element::bf16 || element == Element::f16) return *element;
  throw duet::Error("cusparseSpMM: element type {} has no stand-in", static_cast<int>(type));
}

struct Sparse {
  int64_t rows = 0, cols = 0, entries = 0;
  void *row = nullptr, *col = nullptr, *value = nullptr;
  cusparseIndexType_t row_type{}, col_type{};
  cusparseIndexBase_t base{};
  cudaDataType type{};
  explicit Sparse(cusparseConstSpMatDescr_t a) {
    if (cusparseCsrGet(const_cast<cusparseSpMatDescr_t>(a), &rows, &cols, &entries, &row, &col, &value, &row_type,
                       &col_type, &base, &type) != CUSPARSE_STATUS_SUCCESS ||
        row_type != CUSPARSE_INDEX_32I || col_type != CUSPARSE_INDEX_32I || base != CUSPARSE_INDEX_BASE_ZERO)
      throw duet::Error("cusparseSpMM: a sparse matrix that has no stand-in");
  }
};
struct Dense {
  int64_t rows = 0, cols = 0, ld = 0;
  void* values = nullptr;
  cudaDataType type{};
  cusparseOrder_t order{};
  explicit Dense(cusparseConstDnMatDescr_t m) {
    if (cusparseDnMatGet(const_cast<cusparseDnMatDescr_t>(m), &rows, &cols, &ld, &values, &type, &order) !=
            CUSPARSE_STATUS_SUCCESS ||
        order != CUSPARSE_ORDER_ROW || ld < cols)
      throw duet::Error("cusparseSpMM: a dense matrix that has no stand-in");
  }
};
}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) {
  return library_call(CUSPARSE_STATUS_NOT_INITIALIZED, [&]() -> cusparseStatus_t {
    if (breaks_capture()) return refuse_call(CUSPARSE_STATUS_NOT_INITIALIZED, "cusparseCreate during a capture");
    auto* h = new Handle;
    handles.insert(h);
    *handle = reinterpret_cast<cusparseHandle_t>(h);
    return CUSPARSE_STATUS_SUCCESS;
  });
}
cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) {
  return with(handle, [](Handle& h) {
    device().run_everything();
    handles.erase(&h);
    delete &h;
    return CUSPARSE_STATUS_SUCCESS;
  });
}
cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
  return with(handle, [&](Handle& h) {
    if (!is_stream(stream)) return refuse_call(CUSPARSE_STATUS_INVALID_VALUE, "cusparseSetStream: no such stream");
    h.stream = stream;
    return CUSPARSE_STATUS_SUCCESS;
  });
}

cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t, cusparseOperation_t, const void*,
                                         cusparseConstSpMatDescr_t, cusparseConstDnMatDescr_t, const void*,
                                         cusparseDnMatDescr_t, cudaDataType, cusparseSpMMAlg_t, size_t* bytes) {
  return with(handle, [&](Handle&) {
    *bytes = kWorkspaceBytes;
    return CUSPARSE_STATUS_SUCCESS;
  });
}
cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t op_a, cusparseOperation_t op_b,
                              const void* alpha, cusparseConstSpMatDescr_t of_a, cusparseConstDnMatDescr_t of_b,
                              const void* beta, cusparseDnMatDescr_t of_c, cudaDataType compute, cusparseSpMMAlg_t,
                              void* workspace) {
  return with(handle, [&](Handle& h) -> cusparseStatus_t {
    if (op_a != CUSPARSE_OPERATION_NON_TRANSPOSE || op_b != CUSPARSE_OPERATION_NON_TRANSPOSE)
      return not_supported("a transposed matrix");
    if (compute != CUDA_R_32F) return not_supported("sums in another type than f32");
    if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
      return not_supported("factors other than 1 and 0");
    const Sparse a(of_a);
    const Dense b(of_b), c(of_c);
    if (a.cols != b.rows || a.rows != c.rows || b.cols != c.cols || a.type != b.type || a.type != c.type)
      return refuse_call(CUSPARSE_STATUS_INVALID_VALUE, "cusparseSpMM: matrices that do not fit each other");
    enqueue(h.stream, [=] {
      spoil(workspace, kWorkspaceBytes, "cusparseSpMM, workspace");
      const Element type = stored_as(a.type);
      const Elements row(a.row, Element::i32, "cusparseSpMM, rows of A"),
          col(a.col, Element::i32, "cusparseSpMM, columns of A"), value(a.value, type, "cusparseSpMM, values of A"),
          factor(b.values, type, "cusparseSpMM, B");
      Elements to(c.values, type, "cusparseSpMM, C");
      for (int64_t i = 0; i < c.rows; ++i)
        for (int64_t j = 0; j < c.cols; ++j) {
          double sum = 0;
          for (auto e = static_cast<int64_t>(row.load(i)); e < static_cast<int64_t>(row.load(i + 1)); ++e)
            sum += value.load(e) * factor.load(static_cast<int64_t>(col.load(e)) * b.ld + j);
          to.store(i * c.ld + j, sum);
        }
    });
    return CUSPARSE_STATUS_SUCCESS;
  });
}
}
// NOLINTEND(readability-identifier-naming)
