// SPDX-License-Identifier: Apache-2.0
// The transpose of im2col, for one image: every pixel is the sum of the values of the matrix that im2col copies from
// it. conv2d_backward_im2col.cpp runs it after the product that gives these values their gradients.
#pragma once
#include "core/cpu_context.h"
#include "cpu_ref/scratch.h"
#include "ops/conv/im2col.h"

namespace duet {

class Col2im {
 public:
  // p: of one image. The scratch memory of threads lies in the workspace of the plan that this is made for.
  Col2im(const Im2col& p, CpuContext& cpu, WorkspaceLayout& workspace);

  // Writes x (c, h, w), of the dtype of p, from col (c r s, ho wo) of f32 on all threads. A pixel adds its taps in the
  // order of the filter, in f32; one that no tap reads is 0. args: those of the plan's run.
  void operator()(const Args& args, const float* col, void* x) const;

 private:
  Im2col p_;
  CpuContext* cpu_;
  Scratch scratch_;
};

}  // namespace duet
