// SPDX-License-Identifier: Apache-2.0
// The classic convolutional network: convolutions without padding, each with relu and some with 2x2 max pooling, then
// linear layers with relu between them. models/lenet.cpp, mnist_cnn.cpp, cifar_cnn.cpp and image_cnn.cpp say their
// sizes and use it. In layout nhwc the pixels reach the first linear layer channels last.
#pragma once
#include <optional>
#include <vector>

#include "models/layers.h"

namespace duet {

struct CnnShape {
  struct Convolution {
    int64_t channels, side;  // side: of the filter
    bool pooled;
  };
  int64_t batch, channels, side;  // of the images
  std::vector<Convolution> convolutions;
  std::vector<int64_t> linear;  // outputs of each layer
  double dropout = 0;           // before the last linear layer
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  WeightForm form = WeightForm::plain;
};

class Cnn {
 public:
  // Parameters <prefix>conv1.weight, <prefix>conv1.bias, ..., <prefix>fc1.weight, ...
  Cnn(Tape& tape, const CnnShape& shape, const std::string& prefix = "");
  Var forward(Var x);   // x: (batch, channels, side, side) in either layout; returns the last layer's result
  Var evaluate(Var x);  // without dropout; keeps nothing for a backward pass
  void backward(Var dlogits);

 private:
  Var linear_layers(Var h, bool training);
  Tape* tape_;
  CnnShape shape_;
  Conv2d first_;
  std::vector<ConvLayer> convolutions_;
  std::vector<std::optional<MaxPoolLayer>> pools_;
  std::vector<LinearLayer> linear_;
  std::optional<DropoutLayer> dropout_;
};

Var image_input(Tape& tape, const CnnShape& shape, Fill fill = Fill::uniform(0, 1));  // "x"
// Why the images are too small for the convolutions; "" where they are not.
std::string invalid_cnn(const CnnShape& shape);

}  // namespace duet
