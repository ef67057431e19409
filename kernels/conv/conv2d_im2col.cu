// SPDX-License-Identifier: Apache-2.0
// Two launches for each image: im2col writes the matrix of the pixels under each tap, then the tuned product multiplies
// the filter with it, all groups at once (Caffe's convolution). It shows what that matrix costs: conv2d_tuned.cu is the
// same product without it. The image itself is the matrix of a filter of one tap without stride or padding.
#include "kernels/conv/im2col.h"
#include "kernels/gemm/product.h"

namespace duet::DUET_DEVICE {
namespace {
Plan conv2d_im2col(const Conv2d& p, GpuContext& gpu) {
  using P = Conv2d;
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  if (p.layout == Layout::nhwc) return Unsupported{"layout nhwc: im2col is of nchw"};
  const Im2col taps = im2col_of_image(p);
  const int64_t pixels = p.ho() * p.wo(), terms = p.group_c() * p.r * p.s;
  const bool itself = is_its_own_im2col(p);
  if (const std::string why = im2col_unsupported_reason(taps); !why.empty()) return Unsupported{why};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Product product{.batch = p.groups, .m = p.group_k(), .n = pixels, .k = terms};
    WorkspaceLayout workspace;
    const auto matrix = workspace.add<T>(itself ? 0 : taps.rows() * pixels);
    auto run = [p, taps, pixels, itself, product, matrix, &gpu](Args t) {
      const T *x = t[P::x].as<const T>(), *filter = t[P::filter].as<const T>();
      T *y = t[P::y].as<T>(), *const col = t.workspace(matrix);
      for (int64_t image = 0; image < p.n; ++image) {
        const T* const from = x + image * p.c * p.h * p.w;
        if (!itself) enqueue_im2col(taps, from, col, gpu.stream());
        enqueue_product<T>(product, filter, itself ? from : col, nullptr, y + image * p.k * pixels, gpu);
      }
    };
    return Plan(std::move(run)).with("im2col, then product, image by image", std::move(workspace));
  });
}
DUET_REGISTER(conv2d_im2col);
}  // namespace
}  // namespace duet::DUET_DEVICE
