// SPDX-License-Identifier: Apache-2.0
// The shapes at which conv2d and its backward passes are tested and timed.
#pragma once
#include "ops/gemm/product.h"  // kAllPrecisions

namespace duet {

inline Cases conv2d_test_cases() {
  const Cases odd{
      {"one tap", "n:1 c:1 h:1 w:1 k:1 r:1 s:1"},
      {"no image", "n:0 c:3 h:7 w:11 k:5 r:3 s:3"},
      {"no channel: sums are 0", "n:1 c:0 h:3 w:3 k:5 r:3 s:3"},
      {"the filter does not fit", "n:1 c:3 h:3 w:3 k:5 r:5 s:3"},
      {"nothing square", "n:2 c:3 h:7 w:11 k:5 r:5 s:3"},
      {"pad in one axis", "n:1 c:3 h:7 w:11 k:5 r:3 s:3 pad_w:2"},
      {"pad over the filter", "n:1 c:2 h:3 w:4 k:3 r:3 s:3 pad_h:4 pad_w:3"},
      {"stride 2 leaves a remainder", "n:2 c:3 h:8 w:11 k:5 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:3"},
      {"dilation 2", "n:1 c:3 h:11 w:13 k:5 r:3 s:3 pad_h:2 dil_h:2 dil_w:2"},
      {"strides and dilations", "n:1 c:3 h:13 w:17 k:5 r:3 s:3 pad_h:2 pad_w:2 stride_h:2 stride_w:3 dil_h:2 dil_w:2"},
      {"dilation > stride, groups", "n:2 c:4 h:15 w:13 k:6 r:3 s:2 stride_h:2 stride_w:2 dil_h:3 dil_w:4 groups:2"},
      {"depthwise", "n:2 c:17 h:9 w:9 k:17 r:3 s:3 pad_h:1 pad_w:1 groups:17"},
      {"depthwise, stride 2", "n:2 c:5 h:9 w:37 k:5 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2 groups:5"},
      {"groups of unequal width", "n:2 c:6 h:7 w:11 k:9 r:3 s:1 groups:3"},
      {"channels by eights", "n:1 c:16 h:5 w:7 k:24 r:3 s:3 pad_h:1 pad_w:1"},
      {"eight channels", "n:1 c:8 h:3 w:4 k:8 r:3 s:3 pad_h:1 pad_w:1"},
      {"eight channels, 1x1", "n:2 c:8 h:3 w:4 k:16 r:1 s:1"},
      {"eights in groups, stride 2", "n:2 c:16 h:5 w:6 k:16 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2 groups:2"},
      {"1x1, over a tile", "n:2 c:33 h:7 w:11 k:65 r:1 s:1"},
      {"1x1, stride 2", "n:1 c:17 h:7 w:9 k:33 r:1 s:1 stride_h:2 stride_w:2"},
      {"3x3, one channel", "n:2 c:1 h:7 w:8 k:3 r:3 s:3 pad_h:2 pad_w:2"},
      {"3x3, over a tile", "n:1 c:33 h:17 w:19 k:35 r:3 s:3 pad_h:1 pad_w:1"},
      {"a first layer", "n:1 c:3 h:33 w:31 k:16 r:7 s:7 pad_h:3 pad_w:3 stride_h:2 stride_w:2"},
      {"1x1, over a cache block in pixels, nine images", "n:9 c:2 h:23 w:23 k:17 r:1 s:1"},
      {"over a cache block in rows", "n:1 c:2 h:33 w:35 k:3 r:3 s:3 pad_h:1 pad_w:1"},
      {"over a cache block in c", "n:1 c:129 h:5 w:9 k:17 r:3 s:3 pad_h:1 pad_w:1"},
      {"over a cache block in k, stride 2", "n:2 c:3 h:6 w:7 k:129 r:5 s:5 pad_h:2 pad_w:2 stride_h:2 stride_w:2"},
      {"one dimension", "n:2 c:5 h:1 w:29 k:7 r:1 s:3 pad_w:1"},
      {"4x4/2, whose backward_data is a transposed convolution of even size",
       "n:1 c:3 h:8 w:6 k:5 r:4 s:4 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"over a cache block in k", "n:2 c:5 h:5 w:5 k:129 r:3 s:3 pad_h:1 pad_w:1"},
  };
  const Cases once{
      {"3x3, images in blocks, the last one shorter", "n:7 c:8 h:19 w:19 k:8 r:3 s:3 pad_h:1 pad_w:1"},
      {"3x3, no padding", "n:2 c:8 h:7 w:6 k:8 r:3 s:3"},
      {"3x3, corners of one tap", "n:2 c:8 h:7 w:6 k:8 r:3 s:3 pad_h:2 pad_w:2"},
      {"3x3, corners of two channels and four taps", "n:2 c:2 h:4 w:6 k:2 r:3 s:3 pad_h:1 pad_w:1"},
  };
  // Of more than one tile, and more steps than a pipeline has places.
  const Cases eights{
      {"by eights, over a tile", "n:1 c:32 h:12 w:12 k:72 r:3 s:3 pad_h:1 pad_w:1"},
      {"by eights, in groups over a tile, stride 2",
       "n:1 c:64 h:12 w:12 k:128 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2 groups:2"},
      {"by eights, over a tile in c", "n:1 c:136 h:5 w:6 k:16 r:3 s:3 pad_h:1 pad_w:1"},
  };
  return concat({across(kAllPrecisions, odd), with("layout:nhwc", across(kFloatTypes, odd)), once,
                 with("layout:nhwc", across(Words{"dtype:bf16", "dtype:f16"}, eights))});
}

// in@size->out filter/stride.
inline Cases conv2d_cases(Scale scale) {
  // ResNet-50 v1.5: 53 convolutions of 23 shapes, each with its number. The most frequent 3x3 and 1x1 first.
  const Cases resnet{
      {"ResNet-50 64@56->64 3x3, 3 times", "c:64 h:56 w:56 k:64 r:3 s:3 pad_h:1 pad_w:1"},
      {"ResNet-50 64@56->256 1x1, 4 times", "c:64 h:56 w:56 k:256 r:1 s:1"},
      {"ResNet-50 3@224->64 7x7/2", "c:3 h:224 w:224 k:64 r:7 s:7 pad_h:3 pad_w:3 stride_h:2 stride_w:2"},
      {"ResNet-50 128@28->128 3x3, 3 times", "c:128 h:28 w:28 k:128 r:3 s:3 pad_h:1 pad_w:1"},
      {"ResNet-50 256@14->256 3x3, 5 times", "c:256 h:14 w:14 k:256 r:3 s:3 pad_h:1 pad_w:1"},
      {"ResNet-50 512@7->512 3x3, 2 times", "c:512 h:7 w:7 k:512 r:3 s:3 pad_h:1 pad_w:1"},
      {"ResNet-50 256@56->128 1x1", "c:256 h:56 w:56 k:128 r:1 s:1"},
      {"ResNet-50 128@56->128 3x3/2", "c:128 h:56 w:56 k:128 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"ResNet-50 512@28->128 1x1, 3 times", "c:512 h:28 w:28 k:128 r:1 s:1"},
      {"ResNet-50 256@14->1024 1x1, 6 times", "c:256 h:14 w:14 k:1024 r:1 s:1"},
      {"ResNet-50 1024@14->2048 1x1/2", "c:1024 h:14 w:14 k:2048 r:1 s:1 stride_h:2 stride_w:2"},
      {"ResNet-50 512@7->2048 1x1, 3 times", "c:512 h:7 w:7 k:2048 r:1 s:1"},
  };
  const Cases resnet_rest{
      {"ResNet-50 64@56->64 1x1", "c:64 h:56 w:56 k:64 r:1 s:1"},
      {"ResNet-50 256@56->64 1x1, 2 times", "c:256 h:56 w:56 k:64 r:1 s:1"},
      {"ResNet-50 256@56->512 1x1/2", "c:256 h:56 w:56 k:512 r:1 s:1 stride_h:2 stride_w:2"},
      {"ResNet-50 128@28->512 1x1, 4 times", "c:128 h:28 w:28 k:512 r:1 s:1"},
      {"ResNet-50 512@28->256 1x1", "c:512 h:28 w:28 k:256 r:1 s:1"},
      {"ResNet-50 512@28->1024 1x1/2", "c:512 h:28 w:28 k:1024 r:1 s:1 stride_h:2 stride_w:2"},
      {"ResNet-50 256@28->256 3x3/2", "c:256 h:28 w:28 k:256 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"ResNet-50 1024@14->256 1x1, 5 times", "c:1024 h:14 w:14 k:256 r:1 s:1"},
      {"ResNet-50 1024@14->512 1x1", "c:1024 h:14 w:14 k:512 r:1 s:1"},
      {"ResNet-50 512@14->512 3x3/2", "c:512 h:14 w:14 k:512 r:3 s:3 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"ResNet-50 2048@7->512 1x1, 2 times", "c:2048 h:7 w:7 k:512 r:1 s:1"},
  };
  const Cases batch_32{
      {"ResNet-50 64@56->64 3x3, batch 32", "n:32 c:64 h:56 w:56 k:64 r:3 s:3 pad_h:1 pad_w:1"},
      {"ResNet-50 256@14->256 3x3, batch 32", "n:32 c:256 h:14 w:14 k:256 r:3 s:3 pad_h:1 pad_w:1"},
  };
  const Cases others{
      {"VGG-19 64@224 3x3", "n:1 c:64 h:224 w:224 k:64 r:3 s:3 pad_h:1 pad_w:1"},
      {"VGG-19 256@56 3x3, batch 8", "n:8 c:256 h:56 w:56 k:256 r:3 s:3 pad_h:1 pad_w:1"},
      {"VGG-19 64@224 3x3, batch 64", "n:64 c:64 h:224 w:224 k:64 r:3 s:3 pad_h:1 pad_w:1"},
      {"VGG-19 128@112 3x3, batch 64", "n:64 c:128 h:112 w:112 k:128 r:3 s:3 pad_h:1 pad_w:1"},
      {"VGG-19 256@56 3x3, batch 64", "n:64 c:256 h:56 w:56 k:256 r:3 s:3 pad_h:1 pad_w:1"},
      {"VGG-19 512@28 3x3, batch 64", "n:64 c:512 h:28 w:28 k:512 r:3 s:3 pad_h:1 pad_w:1"},
      {"VGG-19 512@14 3x3, batch 64", "n:64 c:512 h:14 w:14 k:512 r:3 s:3 pad_h:1 pad_w:1"},
      {"DeepBench speech 1@161x700->32 5x20/2", "n:4 c:1 h:161 w:700 k:32 r:5 s:20 stride_h:2 stride_w:2"},
      {"DeepBench speech 32@79x341->32 5x10/2", "n:4 c:32 h:79 w:341 k:32 r:5 s:10 stride_h:2 stride_w:2"},
      {"DeepBench 192@28->32 5x5", "n:8 c:192 h:28 w:28 k:32 r:5 s:5 pad_h:2 pad_w:2"},
      {"MobileNet v1 depthwise 512@14", "n:1 c:512 h:14 w:14 k:512 r:3 s:3 pad_h:1 pad_w:1 groups:512"},
      {"MobileNet v1 depthwise 32@112", "n:1 c:32 h:112 w:112 k:32 r:3 s:3 pad_h:1 pad_w:1 groups:32"},
  };
  // 1-D: (n, c, 1, length). Transposed: the convolution whose backward_data it is.
  const Cases sequences{
      {"Whisper tiny, audio 80@3000->384 3", "n:1 c:80 h:1 w:3000 k:384 r:1 s:3 pad_w:1"},
      {"wav2vec 2.0 base 512@15999->512 3/2", "n:1 c:512 h:1 w:15999 k:512 r:1 s:3 stride_w:2"},
  };
  const Cases transposed{
      {"DCGAN, transposed 512@8->256 4x4/2, batch 128",
       "n:128 c:256 h:16 w:16 k:512 r:4 s:4 pad_h:1 pad_w:1 stride_h:2 stride_w:2"},
      {"U-Net, transposed 1024@28->512 2x2/2", "n:1 c:512 h:56 w:56 k:1024 r:2 s:2 stride_h:2 stride_w:2"},
  };
  const Cases speech =
      across({"n:8", "n:16", "n:32"},
             {{"DeepBench speech 1@161x700->32 5x20/2", "c:1 h:161 w:700 k:32 r:5 s:20 stride_h:2 stride_w:2"},
              {"DeepBench speech 32@79x341->32 5x10/2", "c:32 h:79 w:341 k:32 r:5 s:10 stride_h:2 stride_w:2"}});
  const Cases whole = concat({resnet, resnet_rest});
  const Cases one_image = with("n:1", resnet), in_batches = with("n:32", resnet);
  const Cases nchw = with("dtype:f32", concat({one_image, batch_32}));
  const Cases nhwc = with("layout:nhwc", across(kF32AndBf16, {one_image[0], batch_32[0]}));
  const Cases more = concat({
      across(kFloatTypes, others),
      across(kF32AndBf16, concat({speech, sequences, transposed})),
      with("math:tf32", concat({one_image, batch_32})),
      in_batches,
      with("layout:nhwc", across(kFloatTypes, in_batches)),
      across({"n:1", "n:32", "n:32 dtype:bf16 layout:nhwc"}, resnet_rest),
      across({"n:256", "n:256 dtype:bf16 layout:nhwc"}, whole),
  });
  return by_scale(scale, conv2d_test_cases(), concat({nchw, nhwc}), more,
                  sweep("n", 1, 128, "c:64 h:56 w:56 k:64 r:3 s:3 pad_h:1 pad_w:1", 2));
}

}  // namespace duet
