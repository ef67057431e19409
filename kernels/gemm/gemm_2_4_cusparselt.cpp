// SPDX-License-Identifier: Apache-2.0
// cuSPARSELt's product on the sparse tensor cores. It has a form of its own for the sparse matrix, into which it
// compresses a dense one: that is prepared before the clock, as for the weights of a pruned model in use. The plan runs
// the fastest of the library's algorithms, which it searches on zeros.
#include <memory>

#include "core/alignment.h"
#include "core/cuda/cusparselt.h"
#include "kernels/gemm/expand_2_4.h"

namespace duet::cuda {
namespace {
constexpr uint32_t kAlignment = 16;   // of all matrices, in bytes
constexpr float kOne = 1, kZero = 0;  // c = 1 a b + 0 c

void* data(const Tensor& tensor) { return aligned_data(tensor, kAlignment); }

// The library's objects are structs that name each other by their addresses: they stay where they are.
class Product {
 public:
  Product(const CusparseLt& functions, cudaStream_t stream) : lt_(functions), stream_(stream) {}
  // Once. Throws Error, or reason() says why the library does not serve the case.
  void open(const Gemm24& p) {
    const cudaDataType_t type = p.dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_16F;
    constexpr auto kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
    constexpr auto kRows = CUSPARSE_ORDER_ROW;
    if (const cusparseStatus_t status = lt_.init(&handle_); status != CUSPARSE_STATUS_SUCCESS)
      reason_ = fmt::format("cuSPARSELt does not run on this GPU ({})", cusparseGetErrorName(status));
    has_handle_ = reason_.empty();
    has_a_ = accepts("such a sparse matrix", has_handle_, [&] {
      return lt_.structured_descriptor_init(&handle_, &a_, p.m, p.k, p.k, kAlignment, type, kRows,
                                            CUSPARSELT_SPARSITY_50_PERCENT);
    });
    has_b_ = accepts("such a dense matrix", has_a_,
                     [&] { return lt_.dense_descriptor_init(&handle_, &b_, p.k, p.n, p.n, kAlignment, type, kRows); });
    has_c_ = accepts("such a result", has_b_,
                     [&] { return lt_.dense_descriptor_init(&handle_, &c_, p.m, p.n, p.n, kAlignment, type, kRows); });
    has_choice_ = accepts("such a product", has_c_, [&] {
      const cusparseStatus_t status =
          lt_.matmul_descriptor_init(&handle_, &operation_, kAsIs, kAsIs, &a_, &b_, &c_, &c_, CUSPARSE_COMPUTE_32F);
      return status != CUSPARSE_STATUS_SUCCESS
                 ? status
                 : lt_.matmul_alg_selection_init(&handle_, &choice_, &operation_, CUSPARSELT_MATMUL_ALG_DEFAULT);
    });
    has_plan_ = accepts("such a product", has_choice_,
                        [&] { return lt_.matmul_plan_init(&handle_, &plan_, &operation_, &choice_); });
    if (!has_plan_) return;
    DUET_CUSPARSE(lt_.compressed_size(&handle_, &plan_, &compressed_bytes_, &buffer_bytes_));
    search(p);
    DUET_CUSPARSE(lt_.matmul_get_workspace(&handle_, &plan_, &workspace_bytes_));
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    const auto release = [](bool is_there, auto function, auto* object) {
      if (is_there) log_failure(function(object), "releasing an object of cuSPARSELt", __FILE__, __LINE__);
    };
    release(has_plan_, lt_.matmul_plan_destroy, &plan_);
    release(has_choice_, lt_.matmul_alg_selection_destroy, &choice_);
    release(has_c_, lt_.mat_descriptor_destroy, &c_);
    release(has_b_, lt_.mat_descriptor_destroy, &b_);
    release(has_a_, lt_.mat_descriptor_destroy, &a_);
    release(has_handle_, lt_.destroy, &handle_);
  }

  const std::string& reason() const { return reason_; }  // why there is no plan; else empty
  int64_t compressed_bytes() const { return static_cast<int64_t>(compressed_bytes_); }
  int64_t buffer_bytes() const { return static_cast<int64_t>(buffer_bytes_); }  // while it compresses
  int64_t workspace_bytes() const { return static_cast<int64_t>(workspace_bytes_); }
  std::string algorithm() const {
    int id = 0, count = 0;
    DUET_CUSPARSE(lt_.matmul_alg_get_attribute(&handle_, &choice_, CUSPARSELT_MATMUL_ALG_CONFIG_ID, &id, sizeof id));
    DUET_CUSPARSE(
        lt_.matmul_alg_get_attribute(&handle_, &choice_, CUSPARSELT_MATMUL_ALG_CONFIG_MAX_ID, &count, sizeof count));
    return fmt::format("2:4 sparse, algorithm {} of {}, the fastest in a search", id, count);
  }

  void enqueue_compressed(const void* dense, void* compressed, void* buffer) {
    DUET_CUSPARSE(lt_.compress(&handle_, &plan_, dense, compressed, buffer, stream_));
  }
  void enqueue(const void* compressed, const void* b, void* c, void* workspace) {
    DUET_CUSPARSE(lt_.matmul(&handle_, &plan_, &kOne, compressed, b, &kZero, c, c, workspace, &stream_, 1));
  }

 private:
  bool accepts(const char* what, cusparseStatus_t status) {
    if (status == CUSPARSE_STATUS_SUCCESS) return true;
    if (status != CUSPARSE_STATUS_NOT_SUPPORTED && status != CUSPARSE_STATUS_INVALID_VALUE) DUET_CUSPARSE(status);
    reason_ = fmt::format("cuSPARSELt does not serve {} ({})", what, cusparseGetErrorName(status));
    return false;
  }
  template <class F>
  bool accepts(const char* what, bool is_ready, F make) {
    return is_ready && accepts(what, make());
  }

  // Times the library's algorithms on matrices of zeros, and leaves the fastest in the plan.
  void search(const Gemm24& p) {
    const int64_t of_value = size_of(p.dtype), b_bytes = p.k * p.n * of_value, c_bytes = p.m * p.n * of_value;
    const DeviceMemory dense = zeros(p.m * p.k * of_value), compressed = zeros(compressed_bytes()),
                       buffer = zeros(buffer_bytes()), b = zeros(b_bytes), c = zeros(c_bytes);
    enqueue_compressed(dense.get(), compressed.get(), buffer.get());
    size_t bytes = 0;
    DUET_CUSPARSE(lt_.matmul_get_workspace(&handle_, &plan_, &bytes));
    const DeviceMemory workspace = zeros(static_cast<int64_t>(bytes));
    DUET_CUSPARSE(lt_.matmul_search(&handle_, &plan_, &kOne, compressed.get(), b.get(), &kZero, c.get(), c.get(),
                                    workspace.get(), &stream_, 1));
    DUET_CUDA(cudaStreamSynchronize(stream_));
  }
  DeviceMemory zeros(int64_t bytes) const {
    if (bytes == 0) return {};
    DeviceMemory memory = device_memory(bytes);
    DUET_CUDA(cudaMemsetAsync(memory.get(), 0, static_cast<size_t>(bytes), stream_));
    return memory;
  }

  const CusparseLt& lt_;
  cudaStream_t stream_;
  std::string reason_;
  bool has_handle_ = false, has_a_ = false, has_b_ = false, has_c_ = false, has_choice_ = false, has_plan_ = false;
  cusparseLtHandle_t handle_{};
  cusparseLtMatDescriptor_t a_{}, b_{}, c_{};
  cusparseLtMatmulDescriptor_t operation_{};
  cusparseLtMatmulAlgSelection_t choice_{};
  cusparseLtMatmulPlan_t plan_{};
  size_t compressed_bytes_ = 0, buffer_bytes_ = 0, workspace_bytes_ = 0;
};

Plan gemm_2_4_cusparselt(const Gemm24& p, GpuContext& gpu) {
  if (p.dtype == DType::f32) return Unsupported{"f32: its sparse tensor cores round to TF32"};
  if (p.m * p.n * p.k == 0) return Unsupported{"cuSPARSELt takes no empty matrix"};
  std::string reason;
  const CusparseLt* functions = cusparselt(reason);
  if (!functions) return Unsupported{"cuSPARSELt does not run on this GPU: " + reason};
  const auto product = std::make_shared<Product>(*functions, gpu.stream());
  product->open(p);
  if (!product->reason().empty()) return Unsupported{product->reason()};

  WorkspaceLayout workspace;
  const auto dense = workspace.add_bytes(p.m * p.k * int64_t{size_of(p.dtype)});
  const auto compressed = workspace.add_bytes(product->compressed_bytes());
  const auto buffer = workspace.add_bytes(product->buffer_bytes());
  const auto space = workspace.add_bytes(product->workspace_bytes());
  const auto prepare = [=, &gpu](const Args& t) {
    const auto expand = [&]<class T>(T* to) {
      enqueue_expanded(p, t[Gemm24::value].as<const T>(), t[Gemm24::meta].as<const uint8_t>(), to, gpu);
    };
    if (p.dtype == DType::bf16)
      expand(static_cast<__nv_bfloat16*>(t.workspace(dense)));
    else
      expand(static_cast<__half*>(t.workspace(dense)));
    product->enqueue_compressed(t.workspace(dense), t.workspace(compressed), t.workspace(buffer));
  };
  return Plan([=](const Args& t) {
           product->enqueue(t.workspace(compressed), data(t[Gemm24::b]), data(t[Gemm24::c]), t.workspace(space));
         })
      .with(product->algorithm(), std::move(workspace))
      .prepared({Gemm24::value, Gemm24::meta}, prepare);
}
DUET_REGISTER(gemm_2_4_cusparselt);
}  // namespace
}  // namespace duet::cuda
