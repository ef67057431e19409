// SPDX-License-Identifier: Apache-2.0
// ResNet-50 v1.5 (the stride lies in the 3x3 convolution of a bottleneck): 224 px, 1000 classes, NCHW; softmax
// cross-entropy, SGD with momentum and weight decay. He et al., arXiv:1512.03385; sizes as torchvision's resnet50.
#pragma once
#include "models/model.h"

namespace duet {

struct ResNet50 {
  static constexpr const char* name = "resnet50";
  static constexpr double kMomentum = 0.9, kDecay = 1e-4, kRate = 1e-4;

  int64_t batch = 32, side = 224, classes = 1000, width = 64;  // width: channels after the stem
  DType dtype = DType::f32;
  bool mixed = false;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of parameters and activations");
    field("batch", batch, "samples of a step");
    field.option("side", side, "height and width of an image");
    field.option("classes", classes, "classes");
    field.option("width", width, "channels after the first convolution; 4 times as many leave the first stage");
    field.option(
        "mixed", mixed,
        "master parameters and the optimiser's state in f32 beside parameters in dtype; in f16 the loss is scaled");
  }
  std::string invalid() const;
  void train(Tape& tape) const;
  void evaluate(Tape& tape) const;

  static std::vector<Case<ResNet50>> cases(Scale scale) {
    if (scale == Scale::test) return {{"every layer, narrowed", {16, 64, 10, 4}}};
    if (scale == Scale::standard) return {{"as published, batch 16", {16}}};
    return {{"as published, batch 16", {16}},
            {"as published, batch 32", {32}},
            {"as published, batch 32, mixed precision", {.batch = 32, .dtype = DType::bf16, .mixed = true}},
            {"as published, batch 32, mixed precision with loss scaling",
             {.batch = 32, .dtype = DType::f16, .mixed = true}}};
  }
};

}  // namespace duet
