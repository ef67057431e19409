// SPDX-License-Identifier: Apache-2.0
// cuDNN's flash attention. The graph API has its parts (products, reductions, pointwise functions) and one engine for
// the whole. The engine recognises the graph that NVIDIA's frontend builds, so the graphs here have that form.
#include "kernels/attention/attention_cudnn.h"

#include <cmath>

#include "kernels/attention/lengths_cudnn.h"

namespace duet::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;
using Dims = CudnnGraph::Dims;

// Adds tensors, all (B, H, rows, columns), and operations to a graph. Intermediate tensors are f32 unless stated
// otherwise.
class Builder {
 public:
  explicit Builder(const AttentionShape& shape) : Builder(shape, shape.rows()) {}
  explicit Builder(const PackedAttentionShape& shape) : Builder(shape.unpacked(), shape.rows()) {}
  Builder(const AttentionShape& shape, const AttentionRows& rows)
      : p(shape),
        q_strides(strides(rows.q)),
        k_strides(strides(rows.k)),  // and of v
        y_strides(strides(rows.y)),
        type(cudnn_dtype(shape.dtype)),
        scores{p.B, p.H, p.Tq, p.Tk},
        row{p.B, p.H, p.Tq, 1},
        queries{p.B, p.H, p.Tq, p.D} {
    if (!p.padded) return;
    query_counts = graph.scratch(DType::i32, {p.B, 1, 1, 1});
    key_counts = graph.scratch(DType::i32, {p.B, 1, 1, 1});
  }

  Tensor of_queries() { return graph.memory(type, queries, q_strides); }
  Tensor of_results() { return graph.memory(type, queries, y_strides); }
  Tensor of_keys() { return graph.memory(type, keys(), k_strides); }
  Tensor of_keys_transposed() { return graph.memory(type, transposed(keys()), transposed(k_strides)); }
  Tensor of_rows() { return graph.memory(CUDNN_DATA_FLOAT, row, CudnnGraph::dense(row)); }
  Tensor constant(double value) { return graph.constant(static_cast<float>(value), 4); }
  Tensor between(const Dims& dims, cudnnDataType_t t = CUDNN_DATA_FLOAT) {
    return graph.between(t, dims, CudnnGraph::dense(dims));
  }

  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y) {
    graph.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                    function(mode), CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y, cudnnDataType_t math = CUDNN_DATA_FLOAT) {
    graph.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                    function(mode, math), CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                    b, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }
  // The same with a new tensor of these dimensions as result.
  Tensor apply(cudnnPointwiseMode_t mode, Tensor x, const Dims& dims) {
    const Tensor y = between(dims);
    pointwise(mode, x, y);
    return y;
  }
  Tensor apply(cudnnPointwiseMode_t mode, Tensor x, Tensor b, const Dims& dims) {
    const Tensor y = between(dims);
    pointwise(mode, x, b, y);
    return y;
  }
  void reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor y) {
    const auto reduction = graph.add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR, op,
                                     CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    graph.operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction,
                    CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  }
  // rows, columns, terms: how many of them each sequence has, (B, 1, 1, 1); null: all.
  void product(Tensor a, Tensor b, Tensor c, Tensor rows, Tensor columns, Tensor terms) {
    const auto product = graph.add(CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    graph.operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC, product,
                    CUDNN_ATTR_OPERATION_MATMUL_ADESC, a, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b,
                    CUDNN_ATTR_OPERATION_MATMUL_CDESC, c, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, rows,
                    CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, columns,
                    CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, terms);
  }
  // The transpose of x, whose dimensions and strides are given.
  Tensor transpose(Tensor x, const Dims& dims, const Dims& strides, cudnnDataType_t t) {
    const Tensor y = graph.between(t, transposed(dims), transposed(strides));
    graph.operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x,
                    CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    return y;
  }

  // -infinity after the keys of the sequence (padded). Queries have an end as well, which none of them reaches: without
  // it no engine for sm_80 and sm_120 takes the backward graph.
  Tensor within_lengths(Tensor s) {
    if (!p.padded) return s;
    const Tensor is_query = compare(CUDNN_POINTWISE_CMP_LT, index(s, 2), query_counts);
    const Tensor is_key = compare(CUDNN_POINTWISE_CMP_LT, index(s, 3), key_counts);
    return where(compare(CUDNN_POINTWISE_LOGICAL_AND, is_query, is_key), s);
  }
  // -infinity where the key comes after the query (causal), and where it comes `window` or more before it.
  Tensor masked(Tensor s) {
    if (p.causal) s = where(compare(CUDNN_POINTWISE_CMP_GE, index(s, 2), index(s, 3)), s);
    if (p.window > 0) {
      const Tensor query = index(s, 2);
      const Tensor end = apply(CUDNN_POINTWISE_ADD, index(s, 3), constant(static_cast<double>(p.window)), scores);
      s = where(compare(CUDNN_POINTWISE_CMP_GT, end, query), s);
    }
    return s;
  }
  Tensor compare(cudnnPointwiseMode_t comparison, Tensor a, Tensor b) {
    const Tensor y = between(scores, CUDNN_DATA_BOOLEAN);
    pointwise(comparison, a, b, y, CUDNN_DATA_BOOLEAN);
    return y;
  }
  // s where `seen`, else -infinity.
  Tensor where(Tensor seen, Tensor s) {
    const Tensor y = between(scores);
    graph.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                    function(CUDNN_POINTWISE_BINARY_SELECT), CUDNN_ATTR_OPERATION_POINTWISE_XDESC, s,
                    CUDNN_ATTR_OPERATION_POINTWISE_BDESC, constant(-INFINITY), CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
                    seen, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return y;
  }

  static Dims transposed(Dims d) {
    std::swap(d[2], d[3]);
    return d;
  }
  Dims keys() const { return {p.B, p.kv_heads(), p.Tk, p.D}; }
  Dims keys_of_all_heads() const { return {p.B, p.H, p.Tk, p.D}; }

  static Dims strides(const HeadRows& rows) { return {rows.sequence, rows.head, rows.row, 1}; }

  const AttentionShape p;
  const Dims q_strides, k_strides, y_strides;
  const cudnnDataType_t type;
  const Dims scores, row, queries;
  CudnnGraph graph;
  Tensor query_counts = nullptr, key_counts = nullptr;  // (B, 1, 1, 1), of each sequence; null unless padded

 private:
  cudnnBackendDescriptor_t function(cudnnPointwiseMode_t mode, cudnnDataType_t math = CUDNN_DATA_FLOAT) {
    return graph.add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, mode,
                     CUDNN_ATTR_POINTWISE_MATH_PREC, math);
  }
  Tensor index(Tensor s, int64_t axis) {
    const Tensor y = between(scores, CUDNN_DATA_INT32);
    const auto generate =
        graph.add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX,
                  CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT, CUDNN_ATTR_POINTWISE_AXIS, axis);
    graph.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                    generate, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, s, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return y;
  }
};

CudnnGraph forward_graph(Builder b) {
  const AttentionShape& p = b.p;
  const Tensor q = b.of_queries(), k = b.of_keys_transposed(), v = b.of_keys(), y = b.of_results(), lse = b.of_rows();
  Tensor s = b.between(b.scores);
  b.product(q, k, s, b.query_counts, b.key_counts, nullptr);
  s = b.apply(CUDNN_POINTWISE_MUL, s, b.constant(p.factor()), b.scores);
  s = b.masked(b.within_lengths(s));

  const Tensor max = b.between(b.row), sum = b.between(b.row);
  b.reduce(CUDNN_REDUCE_TENSOR_MAX, s, max);
  const Tensor e = b.apply(CUDNN_POINTWISE_EXP, b.apply(CUDNN_POINTWISE_SUB, s, max, b.scores), b.scores);
  b.reduce(CUDNN_REDUCE_TENSOR_ADD, e, sum);
  b.pointwise(CUDNN_POINTWISE_ADD, max, b.apply(CUDNN_POINTWISE_LOG, sum, b.row), lse);
  const Tensor probabilities = b.between(b.scores, b.type);
  b.pointwise(CUDNN_POINTWISE_DIV, e, sum, probabilities);
  b.product(probabilities, v, y, b.query_counts, nullptr, b.key_counts);
  return std::move(b.graph);
}

CudnnGraph backward_graph(Builder b) {
  const AttentionShape& p = b.p;
  const Tensor q = b.of_queries(), k = b.of_keys_transposed(), v = b.of_keys_transposed(), y = b.of_results(),
               lse = b.of_rows(), dy = b.of_results();
  const Tensor dq = b.of_queries(), dk = b.of_keys(), dv = b.of_keys();
  const Tensor scale = b.constant(p.factor());

  // delta[i] = dy[i].y[i]. The factor 1 stands for the scale of dropout, which is not used here: the flash engine does
  // not recognise a graph without it.
  const Tensor sum = b.between(b.row), delta = b.graph.scratch(DType::f32, b.row);
  b.reduce(CUDNN_REDUCE_TENSOR_ADD, b.apply(CUDNN_POINTWISE_MUL, dy, y, b.queries), sum);
  b.pointwise(CUDNN_POINTWISE_MUL, sum, b.constant(1), delta);

  Tensor s = b.between(b.scores);
  b.product(q, k, s, b.query_counts, b.key_counts, nullptr);
  s = b.within_lengths(b.apply(CUDNN_POINTWISE_MUL, s, scale, b.scores));
  s = b.masked(b.apply(CUDNN_POINTWISE_SUB, s, lse, b.scores));
  const Tensor probabilities = b.apply(CUDNN_POINTWISE_EXP, s, b.scores);
  // The product of the transpose of `of_scores` and `rows`, summed over the query heads that share a head of k and v.
  const auto to_keys = [&](Tensor of_scores, Tensor rows, Tensor to) {
    const Tensor t = b.transpose(of_scores, b.scores, CudnnGraph::dense(b.scores), b.type);
    if (p.group() == 1) return b.product(t, rows, to, b.key_counts, nullptr, b.query_counts);
    const Tensor each = b.between(b.keys_of_all_heads(), b.type);
    b.product(t, rows, each, b.key_counts, nullptr, b.query_counts);
    b.reduce(CUDNN_REDUCE_TENSOR_ADD, each, to);
  };
  to_keys(probabilities, dy, dv);

  Tensor ds = b.between(b.scores);
  b.product(dy, v, ds, b.query_counts, b.key_counts, nullptr);
  ds = b.apply(CUDNN_POINTWISE_SUB, ds, delta, b.scores);
  ds = b.apply(CUDNN_POINTWISE_MUL, ds, probabilities, b.scores);
  ds = b.apply(CUDNN_POINTWISE_MUL, ds, scale, b.scores);
  to_keys(ds, q, dk);

  const Tensor rows_of_k = b.transpose(k, Builder::transposed(b.keys()), Builder::transposed(b.k_strides), b.type);
  const Tensor dq_sum = b.graph.scratch(DType::f32, b.queries);
  b.product(ds, rows_of_k, dq_sum, b.query_counts, nullptr, b.key_counts);
  b.pointwise(CUDNN_POINTWISE_IDENTITY, dq_sum, dq);
  return std::move(b.graph);
}

}  // namespace

CudnnGraph attention_graph(const Attention& p) { return forward_graph(Builder(p)); }
CudnnGraph attention_backward_graph(const AttentionBackward& p) { return backward_graph(Builder(p)); }
CudnnGraph attention_packed_graph(const AttentionPacked& p) { return forward_graph(Builder(p)); }
CudnnGraph attention_packed_backward_graph(const AttentionPackedBackward& p) { return backward_graph(Builder(p)); }

std::string attention_unsupported_reason(const AttentionShape& p, bool backward) {
  if (p.dtype != DType::bf16 && p.dtype != DType::f16) return "cuDNN's attention takes bf16 and f16";
  if (p.B * p.H * p.Tq * p.D == 0) return "cuDNN takes no empty tensor";
  if (p.scale < 0) return "a negative scale, of which cuDNN's engine gives infinities and NaN";
  if (p.D % 8 != 0) return "a number of features that is not a multiple of 8";
  if (backward && p.Tq == 1 && p.Tk == 1) return "one query and one key";
  if (cudnnGetVersion() < 91100) return "cuDNN before 9.11: its attention is wrong unless memory is cleared";
  if (backward && !p.padded && p.Tk % 128 != 0 && cudnnGetVersion() <= 91500)
    return "cuDNN before 9.15.1: the number of keys must be a multiple of 128";
  for (const int64_t d : {p.B, p.H, p.Tq, p.Tk, p.D})
    if (d > INT32_MAX) return "a dimension over 2^31 - 1";
  return "";
}

namespace {
// Fills the first scratch tensors of a graph with padding: Builder's query_counts and key_counts.
template <class P>
CudnnScratchFill fill_of_counts(const P& p, GpuContext& gpu) {
  if (!p.padded) return {};
  return [p, stream = gpu.stream()](Args t, std::span<void* const> scratch) {
    enqueue_lengths(p, t[P::lengths].template as<const int32_t>(), static_cast<int32_t*>(scratch[0]),
                    static_cast<int32_t*>(scratch[1]), stream);
  };
}

Plan attention_cudnn(const Attention& p, GpuContext& gpu) {
  using P = Attention;
  if (std::string why = attention_unsupported_reason(p, false); !why.empty()) return Unsupported{std::move(why)};
  return plan_of(attention_graph(p), gpu, {P::q, P::k, P::v, P::y, P::lse}, fill_of_counts(p, gpu));
}
DUET_REGISTER(attention_cudnn);

Plan attention_backward_cudnn(const AttentionBackward& p, GpuContext& gpu) {
  using P = AttentionBackward;
  if (std::string why = attention_unsupported_reason(p, true); !why.empty()) return Unsupported{std::move(why)};
  // Blocks of keys add to dq in the order in which they come.
  return plan_of(attention_backward_graph(p), gpu, {P::q, P::k, P::v, P::y, P::lse, P::dy, P::dq, P::dk, P::dv},
                 fill_of_counts(p, gpu))
      .varying();
}
DUET_REGISTER(attention_backward_cudnn);

// A part of a packed tensor.
CudnnMemory part(Slot slot, const PackedAttentionShape& p, int64_t which) {
  return {slot, p.rows_of_part(which).first * size_of(p.dtype)};
}

Plan attention_packed_cudnn(const AttentionPacked& p, GpuContext& gpu) {
  using P = AttentionPacked;
  if (std::string why = attention_unsupported_reason(p.unpacked(), false); !why.empty())
    return Unsupported{std::move(why)};
  return plan_of(attention_packed_graph(p), gpu,
                 {part(P::qkv, p, 0), part(P::qkv, p, 1), part(P::qkv, p, 2), P::y, P::lse});
}
DUET_REGISTER(attention_packed_cudnn);

Plan attention_packed_backward_cudnn(const AttentionPackedBackward& p, GpuContext& gpu) {
  using P = AttentionPackedBackward;
  if (std::string why = attention_unsupported_reason(p.unpacked(), true); !why.empty())
    return Unsupported{std::move(why)};
  return plan_of(attention_packed_backward_graph(p), gpu,
                 {part(P::qkv, p, 0), part(P::qkv, p, 1), part(P::qkv, p, 2), P::y, P::lse, P::dy, part(P::dqkv, p, 0),
                  part(P::dqkv, p, 1), part(P::dqkv, p, 2)})
      .varying();  // as attention_backward
}
DUET_REGISTER(attention_packed_backward_cudnn);
}  // namespace
}  // namespace duet::cuda
