// SPDX-License-Identifier: Apache-2.0
// Evaluates the operations of cuDNN's graphs one by one, in double, rounding each result to the type of its tensor.
// They are those of Duet's graphs: products, convolutions, reductions, pointwise functions, reshapes, layernorm and
// rmsnorm.
#include "softgpu/libraries/cudnn_program.h"

#include <array>
#include <optional>

#include "softgpu/libraries/cudnn.h"

namespace duet::softgpu {
namespace {

Dims four(const std::vector<int64_t>& values) {
  if (values.size() != 4) throw duet::Error("cuDNN's stand-in: a tensor of {} dimensions", values.size());
  return {values[0], values[1], values[2], values[3]};
}

template <class F>
void for_each_index(const Dims& d, F&& f) {
  Dims i;
  for (i[0] = 0; i[0] < d[0]; ++i[0])
    for (i[1] = 0; i[1] < d[1]; ++i[1])
      for (i[2] = 0; i[2] < d[2]; ++i[2])
        for (i[3] = 0; i[3] < d[3]; ++i[3]) f(i);
}

std::string name(const GraphTensor& t) { return fmt::format("cudnnBackendExecute, tensor {}", t.id); }
double rounded(cudnnDataType_t type, double value) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      return f32_of_bf16(bf16_of(static_cast<float>(value)));
    case CUDNN_DATA_HALF:
      return f32_of_f16(f16_of(static_cast<float>(value)));
    case CUDNN_DATA_BOOLEAN:
    case CUDNN_DATA_INT32:
      return value;
    default:
      return static_cast<float>(value);
  }
}
}  // namespace

const std::vector<double>& GraphValues::of(const GraphTensor& t) {
  const auto kept = kept_.find(t.id);
  if (kept != kept_.end()) return kept->second;
  std::vector<double>& values = kept_[t.id];
  values.assign(static_cast<size_t>(t.places()), 0);
  if (t.by_value) {
    values[0] = constants_.at(t.id);
    return values;
  }
  if (t.is_virtual) throw duet::Error("cuDNN's stand-in: tensor {} is used before it is computed", t.id);
  const Elements from(memory_.at(t.id), element_of(t.type), name(t));
  for_each_index(t.dims, [&](const Dims& i) {
    const int64_t place = t.at(i, t.dims);
    values[static_cast<size_t>(place)] = from.load(place);
  });
  return values;
}
void GraphValues::keep(const GraphTensor& t, std::vector<double> values) {
  if (t.by_value) throw duet::Error("cuDNN's stand-in: a constant is written");
  if (t.is_virtual) {
    for (double& v : values) v = rounded(t.type, v);
    kept_[t.id] = std::move(values);
    return;
  }
  Elements to(memory_.at(t.id), element_of(t.type), name(t));
  for_each_index(t.dims, [&](const Dims& i) {
    const int64_t place = t.at(i, t.dims);
    to.store(place, values[static_cast<size_t>(place)]);
  });
  kept_.erase(t.id);
}

namespace {
// Reads the operations of a graph.
class Reader {
 public:
  Reader(cudnnBackendDescriptor_t graph, bool tensor_cores) : tensor_cores_(tensor_cores) {
    for (const auto each : descriptor_at(graph).all<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
      operation(descriptor_at(each));
  }
  CudnnProgram program;

 private:
  bool tensor_cores_;
  GraphTensor tensor(const Descriptor& of, cudnnBackendAttributeName_t name) {
    const Descriptor& d = descriptor_at(of.one<cudnnBackendDescriptor_t>(name));
    GraphTensor t;
    t.id = d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    t.type = d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    t.dims = four(d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS));
    t.strides = four(d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES));
    t.alignment = d.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    t.is_virtual = d.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
    t.by_value = d.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false);
    program.tensors[t.id] = t;
    return t;
  }
  void operation(const Descriptor& d) {
    switch (d.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return matmul(d);
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return convolution(
            d,
            {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
            2);
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return convolution(
            d,
            {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
            0);
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return convolution(
            d,
            {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
            1);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduction(d);
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(d);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape(d);
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        return norm(d);
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        return norm_backward(d);
      default:
        throw duet::Error("a graph with an operation of type {} has no stand-in", static_cast<int>(d.type));
    }
  }
  static void require(bool fits, const char* what) {
    if (!fits) throw duet::Error("{}: tensors that do not fit each other", what);
  }
  void add(std::function<void(GraphValues&)> run) { program.operations.push_back(std::move(run)); }

  void matmul(const Descriptor& d) {
    const GraphTensor a = tensor(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                      b = tensor(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                      c = tensor(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const int64_t terms = a.dims[3];
    const Dims of_a{c.dims[0], c.dims[1], c.dims[2], terms}, of_b{c.dims[0], c.dims[1], terms, c.dims[3]};
    require(a.fits(of_a) && b.fits(of_b) && a.dims[2] == c.dims[2] && b.dims[2] == terms && b.dims[3] == c.dims[3],
            "a product");
    // How many rows, columns or terms count in a matrix of the batch: all, or what a tensor says.
    const auto counted = [&](cudnnBackendAttributeName_t name, int64_t all) {
      std::optional<GraphTensor> given;
      if (d.has(name)) given = tensor(d, name);
      require(!given || given->dims == Dims{c.dims[0], 1, 1, 1}, "a product");
      return [=](GraphValues& values, int64_t matrix) {
        if (!given) return all;
        const double count = values.of(*given)[static_cast<size_t>(matrix * given->strides[0])];
        require(count >= 0 && count <= static_cast<double>(all), "a product");
        return static_cast<int64_t>(count);
      };
    };
    const auto rows = counted(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, c.dims[2]);
    const auto columns = counted(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, c.dims[3]);
    const auto counted_terms = counted(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, terms);
    add([=](GraphValues& values) {
      const std::vector<double>&from_a = values.of(a), &from_b = values.of(b);
      std::vector<double> to(static_cast<size_t>(c.places()));  // 0 in other rows and columns
      for_each_index(c.dims, [&](const Dims& i) {
        if (i[2] >= rows(values, i[0]) || i[3] >= columns(values, i[0])) return;
        const int64_t row = a.at({i[0], i[1], i[2], 0}, of_a), column = b.at({i[0], i[1], 0, i[3]}, of_b);
        const int64_t end = counted_terms(values, i[0]);
        double sum = 0;
        for (int64_t t = 0; t < terms; ++t) {
          const double factor = from_a[static_cast<size_t>(row + t * a.strides[3])];
          if (t < end)
            sum += factor * from_b[static_cast<size_t>(column + t * b.strides[2])];
          else if (factor != 0)
            throw duet::Error("cuDNN's stand-in: a product leaves out a term that is not 0");
        }
        to[static_cast<size_t>(c.at(i, c.dims))] = sum;
      });
      values.keep(c, std::move(to));
    });
  }

  struct ConvolutionNames {  // of the operation's attributes
    cudnnBackendAttributeName_t descriptor, alpha, beta, x, w, y;
  };
  // result: which of x, w and y it is; the other two are the factors of its terms.
  void convolution(const Descriptor& d, const ConvolutionNames& names, size_t result) {
    const Descriptor& about = descriptor_at(d.one<cudnnBackendDescriptor_t>(names.descriptor));
    const auto pair = [&](cudnnBackendAttributeName_t name) {
      const auto values = about.all<int64_t>(name);
      require(values.size() == 2, "a convolution");
      return std::array{values[0], values[1]};
    };
    const auto pad = pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), behind = pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
               stride = pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), dilation = pair(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    const GraphTensor x = tensor(d, names.x), w = tensor(d, names.w), y = tensor(d, names.y);
    if (about.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION ||
        d.one<float>(names.alpha) != 1 || d.one<float>(names.beta) != 0)
      throw duet::Error("a graph with such a convolution has no stand-in");
    require(w.dims[1] > 0 && x.dims[1] % w.dims[1] == 0 && w.dims[0] % (x.dims[1] / w.dims[1]) == 0 &&
                y.dims[0] == x.dims[0] && y.dims[1] == w.dims[0],
            "a convolution");
    for (size_t axis = 0; axis < 2; ++axis)
      require(y.dims[axis + 2] ==
                  (x.dims[axis + 2] + pad[axis] + behind[axis] - dilation[axis] * (w.dims[axis + 2] - 1) - 1) /
                          stride[axis] +
                      1,
              "a convolution");
    const bool tf32 = tensor_cores_ && x.type == CUDNN_DATA_FLOAT;
    add([=](GraphValues& values) {
      const std::array<const GraphTensor*, 3> of{&x, &w, &y};
      const size_t one = result == 0 ? 1 : 0, other = result == 2 ? 1 : 2;
      const std::vector<double>&first = values.of(*of[one]), &second = values.of(*of[other]);
      const auto factor = [&](double value) { return tf32 ? tf32_of(value) : value; };
      const int64_t group_k = w.dims[0] / (x.dims[1] / w.dims[1]);
      std::vector<double> to(static_cast<size_t>(of[result]->places()));
      for_each_index(y.dims, [&](const Dims& i) {
        for_each_index({1, w.dims[1], w.dims[2], w.dims[3]}, [&](const Dims& tap) {
          const int64_t row = i[2] * stride[0] - pad[0] + tap[2] * dilation[0];
          const int64_t column = i[3] * stride[1] - pad[1] + tap[3] * dilation[1];
          if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3]) return;
          const Dims pixel{i[0], i[1] / group_k * w.dims[1] + tap[1], row, column};
          const std::array places{x.at(pixel, x.dims), w.at({i[1], tap[1], tap[2], tap[3]}, w.dims), y.at(i, y.dims)};
          to[static_cast<size_t>(places[result])] +=
              factor(first[static_cast<size_t>(places[one])]) * factor(second[static_cast<size_t>(places[other])]);
        });
      });
      values.keep(*of[result], std::move(to));
    });
  }

  void reduction(const Descriptor& d) {
    const Descriptor& about = descriptor_at(d.one<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATION_REDUCTION_DESC));
    const auto op = about.one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    if (op != CUDNN_REDUCE_TENSOR_ADD && op != CUDNN_REDUCE_TENSOR_MAX)
      throw duet::Error("a graph with reduction {} has no stand-in", static_cast<int>(op));
    const GraphTensor x = tensor(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
                      y = tensor(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    require(y.fits(x.dims), "a reduction");
    add([=](GraphValues& values) {
      const std::vector<double>& from = values.of(x);
      const bool adds = op == CUDNN_REDUCE_TENSOR_ADD;
      std::vector<double> to(static_cast<size_t>(y.places()), adds ? 0 : -INFINITY);
      for_each_index(x.dims, [&](const Dims& i) {
        double& result = to[static_cast<size_t>(y.at(i, x.dims))];
        const double value = from[static_cast<size_t>(x.at(i, x.dims))];
        result = adds ? result + value : std::max(result, value);
      });
      values.keep(y, std::move(to));
    });
  }

  void pointwise(const Descriptor& d) {
    const Descriptor& about =
        descriptor_at(d.one<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR));
    const auto mode = about.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const auto axis = static_cast<size_t>(about.one<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, 0));
    std::function<double(double, double, double)> function;
    switch (mode) {
      case CUDNN_POINTWISE_ADD:
        function = [](double x, double b, double) { return x + b; };
        break;
      case CUDNN_POINTWISE_SUB:
        function = [](double x, double b, double) { return x - b; };
        break;
      case CUDNN_POINTWISE_MUL:
        function = [](double x, double b, double) { return x * b; };
        break;
      case CUDNN_POINTWISE_DIV:
        function = [](double x, double b, double) { return x / b; };
        break;
      case CUDNN_POINTWISE_EXP:
        function = [](double x, double, double) { return std::exp(x); };
        break;
      case CUDNN_POINTWISE_LOG:
        function = [](double x, double, double) { return std::log(x); };
        break;
      case CUDNN_POINTWISE_IDENTITY:
        function = [](double x, double, double) { return x; };
        break;
      case CUDNN_POINTWISE_RELU_FWD:
        function = [](double x, double, double) { return std::max(x, 0.); };
        break;
      case CUDNN_POINTWISE_CMP_GE:
        function = [](double x, double b, double) { return x >= b ? 1. : 0.; };
        break;
      case CUDNN_POINTWISE_CMP_GT:
        function = [](double x, double b, double) { return x > b ? 1. : 0.; };
        break;
      case CUDNN_POINTWISE_CMP_LT:
        function = [](double x, double b, double) { return x < b ? 1. : 0.; };
        break;
      case CUDNN_POINTWISE_LOGICAL_AND:
        function = [](double x, double b, double) { return x != 0 && b != 0 ? 1. : 0.; };
        break;
      case CUDNN_POINTWISE_BINARY_SELECT:
        function = [](double x, double b, double t) { return t != 0 ? x : b; };
        break;
      case CUDNN_POINTWISE_GEN_INDEX:
        break;
      default:
        throw duet::Error("a graph with pointwise function {} has no stand-in", static_cast<int>(mode));
    }
    const GraphTensor x = tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                      y = tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    std::optional<GraphTensor> b, t;
    if (d.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) b = tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    if (d.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)) t = tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    require(x.fits(y.dims) && (!b || b->fits(y.dims)) && (!t || t->fits(y.dims)) && axis < 4, "a pointwise function");
    add([=](GraphValues& values) {
      const auto from = [&](const GraphTensor& source) { return &values.of(source); };
      const std::vector<double>*const of_x = function ? from(x) : nullptr, *const of_b = b ? from(*b) : nullptr,
                                      *const of_t = t ? from(*t) : nullptr;
      std::vector<double> to(static_cast<size_t>(y.places()));
      for_each_index(y.dims, [&](const Dims& i) {
        const auto value = [&](const std::vector<double>* all, const auto& source) {
          return all ? (*all)[static_cast<size_t>(source.at(i, y.dims))] : 0;
        };
        to[static_cast<size_t>(y.at(i, y.dims))] =
            function ? function(value(of_x, x), of_b ? value(of_b, *b) : 0, of_t ? value(of_t, *t) : 0)
                     : static_cast<double>(i[axis]);
      });
      values.keep(y, std::move(to));
    });
  }

  // The same memory under other dimensions and strides.
  void reshape(const Descriptor& d) {
    const GraphTensor x = tensor(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
                      y = tensor(d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    require(x.places() == y.places(), "a reshape");
    add([=](GraphValues& values) { values.keep(y, values.of(x)); });
  }

  static bool is_rms(cudnnBackendNormMode_t mode) {
    if (mode != CUDNN_LAYER_NORM && mode != CUDNN_RMS_NORM)
      throw duet::Error("a graph with normalisation {} has no stand-in", static_cast<int>(mode));
    return mode == CUDNN_RMS_NORM;
  }
  // Row by row: of x (rows, C, H, W) and a vector (1, C, H, W).
  static void require_rows(const GraphTensor& x, const GraphTensor& vector, const GraphTensor& statistic) {
    require(vector.dims == Dims{1, x.dims[1], x.dims[2], x.dims[3]} && statistic.dims == Dims{x.dims[0], 1, 1, 1},
            "a normalisation");
  }

  void norm(const Descriptor& d) {
    const bool rms = is_rms(d.one<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_FWD_MODE));
    if (d.one<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) != CUDNN_NORM_FWD_TRAINING)
      throw duet::Error("a graph with a normalisation for inference has no stand-in");
    const GraphTensor x = tensor(d, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC),
                      gamma = tensor(d, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC),
                      eps = tensor(d, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC),
                      y = tensor(d, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC),
                      rstd = tensor(d, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC);
    require_rows(x, gamma, rstd);
    require(y.dims == x.dims, "a normalisation");
    std::optional<GraphTensor> beta, mean;
    if (!rms) {
      beta = tensor(d, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
      mean = tensor(d, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC);
      require_rows(x, *beta, *mean);
    }
    add([=](GraphValues& values) {
      const std::vector<double>&from = values.of(x), &scale = values.of(gamma);
      const std::vector<double>* const shift = beta ? &values.of(*beta) : nullptr;
      const double epsilon = values.of(eps)[0];
      const Dims row{1, x.dims[1], x.dims[2], x.dims[3]};
      const auto count = static_cast<double>(row[1] * row[2] * row[3]);
      std::vector<double> to(static_cast<size_t>(y.places())), means(static_cast<size_t>(rstd.places())),
          inverses(means.size());
      for (int64_t r = 0; r < x.dims[0]; ++r) {
        const auto value = [&](const Dims& i) {
          return from[static_cast<size_t>(x.at({r, i[1], i[2], i[3]}, x.dims))];
        };
        double sum = 0, squares = 0;
        if (!rms) for_each_index(row, [&](const Dims& i) { sum += value(i); });
        const double average = sum / count;
        for_each_index(row, [&](const Dims& i) { squares += (value(i) - average) * (value(i) - average); });
        const double inverse = 1 / std::sqrt(squares / count + epsilon);
        for_each_index(row, [&](const Dims& i) {
          to[static_cast<size_t>(y.at({r, i[1], i[2], i[3]}, y.dims))] =
              (value(i) - average) * inverse * scale[static_cast<size_t>(gamma.at(i, row))] +
              (shift ? (*shift)[static_cast<size_t>(beta->at(i, row))] : 0);
        });
        means[static_cast<size_t>(r * rstd.strides[0])] = average;
        inverses[static_cast<size_t>(r * rstd.strides[0])] = inverse;
      }
      values.keep(y, std::move(to));
      if (mean) values.keep(*mean, std::move(means));
      values.keep(rstd, std::move(inverses));
    });
  }

  void norm_backward(const Descriptor& d) {
    const bool rms = is_rms(d.one<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_BWD_MODE));
    const GraphTensor x = tensor(d, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC),
                      gamma = tensor(d, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC),
                      rstd = tensor(d, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC),
                      dy = tensor(d, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC),
                      dx = tensor(d, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC),
                      dgamma = tensor(d, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC);
    require_rows(x, gamma, rstd);
    require(dy.dims == x.dims && dx.dims == x.dims && dgamma.dims == gamma.dims, "a normalisation");
    std::optional<GraphTensor> mean, dbeta;
    if (!rms) {
      mean = tensor(d, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
      dbeta = tensor(d, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC);
      require_rows(x, *dbeta, *mean);
    }
    add([=](GraphValues& values) {
      const std::vector<double>&from = values.of(x), &gradient = values.of(dy), &scale = values.of(gamma),
            &inverses = values.of(rstd);
      const std::vector<double>* const means = mean ? &values.of(*mean) : nullptr;
      const Dims row{1, x.dims[1], x.dims[2], x.dims[3]};
      const auto count = static_cast<double>(row[1] * row[2] * row[3]);
      std::vector<double> to(static_cast<size_t>(dx.places())), scales(static_cast<size_t>(dgamma.places())),
          shifts(dbeta ? static_cast<size_t>(dbeta->places()) : 0);
      for (int64_t r = 0; r < x.dims[0]; ++r) {
        const double inverse = inverses[static_cast<size_t>(r * rstd.strides[0])];
        const double average = means ? (*means)[static_cast<size_t>(r * mean->strides[0])] : 0;
        const auto in_row = [&](const Dims& i) { return Dims{r, i[1], i[2], i[3]}; };
        const auto normal = [&](const Dims& i) {
          return (from[static_cast<size_t>(x.at(in_row(i), x.dims))] - average) * inverse;
        };
        const auto upstream = [&](const Dims& i) { return gradient[static_cast<size_t>(dy.at(in_row(i), dy.dims))]; };
        double sum = 0, product = 0;
        for_each_index(row, [&](const Dims& i) {
          const double g = upstream(i) * scale[static_cast<size_t>(gamma.at(i, row))];
          if (!rms) sum += g;
          product += g * normal(i);
          scales[static_cast<size_t>(dgamma.at(i, row))] += upstream(i) * normal(i);
          if (dbeta) shifts[static_cast<size_t>(dbeta->at(i, row))] += upstream(i);
        });
        for_each_index(row, [&](const Dims& i) {
          const double g = upstream(i) * scale[static_cast<size_t>(gamma.at(i, row))];
          to[static_cast<size_t>(dx.at(in_row(i), dx.dims))] =
              inverse * (g - sum / count - normal(i) * product / count);
        });
      }
      values.keep(dx, std::move(to));
      values.keep(dgamma, std::move(scales));
      if (dbeta) values.keep(*dbeta, std::move(shifts));
    });
  }
};

}  // namespace

CudnnProgram read_program(cudnnBackendDescriptor_t graph, bool tensor_cores) {
  return Reader(graph, tensor_cores).program;
}

}  // namespace duet::softgpu
