// The image side of a convolution as an operand of the matrix engine: a line is an output pixel, its k values are the
// inputs under the filter. Packing reads them through this index map, so that no im2col matrix is ever stored.
#pragma once
#include "cpu_ref/gemm/engine.h"
#include "ops/conv/conv2d.h"

namespace duet::engine {

// nchw: pixels of one image, k = (channel of the group, r, s). nhwc: pixels of all images, k = (r, s, channel).
class Pixels final : public Operand {
 public:
  // x: nchw: the group's first channel of the image; nhwc: the group's first channel of the first pixel.
  Pixels(const Conv2d& p, const void* x);
  void pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const override;

 private:
  void pack_nhwc(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const;
  const Conv2d* p_;
  const char* x_;
  int64_t ho_, wo_;
};

}  // namespace duet::engine
