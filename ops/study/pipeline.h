// SPDX-License-Identifier: Apache-2.0
// Work on data that comes from the other side and goes back: y = f(x), where f is `rounds` times v = v + 1.
//   x, y: (n), dense, in pinned host memory; they do not overlap.
// The data are cut into `chunks`. On a GPU each chunk is copied to the device, worked on and copied back, chunk after
// chunk on `streams` streams in turn. On the CPU a loader copies chunks from x to buffers, of which there are
// `streams`, and the other threads work on them: one buffer means that both take turns, two or more that a loader
// thread runs ahead. rounds 0 leaves the copies alone, to say how much of them was hidden.
#pragma once
#include "ops/study/study.h"

namespace duet {

struct Pipeline {
  static constexpr const char* name = "study/pipeline";
  static constexpr const char* formula = "y[i] = x[i] + rounds, copied in, worked on and copied out in chunks";
  static constexpr Slot x = input(0, "x"), y = output(1, "y");
  static constexpr bool exact_on_integers = true;
  static constexpr Roofs roofs{.cpu = false, .gpu = false};  // the link or the work takes the time, as the case says
  static constexpr int64_t kMaxChunks = 1024, kMaxStreams = 16;

  int64_t n = 0;
  int64_t chunks_ = 1, streams = 1, rounds = 64;
  DType dtype = DType::f32;

  void attributes(auto&& field) {
    field("dtype", dtype, "element type of x and y");
    field("n", n, "elements");
    field.option("chunks", chunks_, "parts that follow each other, 1 to 1024");
    field.option("streams", streams, "streams of a GPU, or buffers of the CPU, 1 to 16");
    field.option("rounds", rounds, "multiply-adds of an element; 0: copies alone");
  }
  std::string invalid() const {
    return first_of({within("chunks", chunks_, 1, kMaxChunks), within("streams", streams, 1, kMaxStreams),
                     within("rounds", rounds, 0, kMaxRounds), only_f32(dtype)});
  }
  void infer(Shapes s) { n = s[x][0]; }
  std::vector<TensorSpec> tensors() const { return {x.of(dtype, {n}, kWhole), y.of(dtype, {n})}; }
  HostMemory host_memory(int) const { return HostMemory::pinned; }
  double flops() const { return 2.0 * static_cast<double>(n * rounds); }
  Tolerance tolerance() const { return {}; }
  int64_t slices() const { return chunks(n); }
  void reference(Inputs in, int64_t slice, Expect& expect) const;  // cpu_ref/study/pipeline.cpp

  // Elements [first, last) of chunk i: equal parts of whole vectors, the last one shorter.
  int64_t chunk_length() const { return ceil_div(ceil_div(n, chunks_), 64) * 64; }

  static Cases cases(Scale scale) {
    const Cases test{{"nothing", "n:0"},
                     {"fewer elements than chunks", "n:3 chunks:4 streams:2"},
                     {"one after the other", "n:1031"},
                     {"chunks, the last one short", "n:5003 chunks:4 streams:2 rounds:5"},
                     {"more streams than chunks", "n:1031 chunks:2 streams:3"},
                     {"copies alone", "n:1031 rounds:0 chunks:3"}};
    const Cases whole{{"16 MiB, one after the other", "n:4194304"}, {"the copies alone", "n:4194304 rounds:0"}};
    const Cases parts = across({"streams:1", "streams:2", "streams:4"},
                               {{"16 MiB in parts", "n:4194304 chunks:4"}, {"16 MiB in parts", "n:4194304 chunks:16"}});
    const Cases more = across({"streams:1", "streams:2", "streams:3", "streams:4"},
                              {{"16 MiB in parts", "n:4194304 chunks:2"}, {"16 MiB in parts", "n:4194304 chunks:8"}});
    return by_scale(scale, test, concat({whole, parts}), more);
  }
};

}  // namespace duet
