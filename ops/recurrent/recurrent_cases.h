// SPDX-License-Identifier: Apache-2.0
// The shapes at which recurrent layers are tested and timed. Published: DeepBench.
#pragma once
#include <string>

#include "core/cases.h"
#include "ops/recurrent/cell.h"

namespace duet {

// The number of features of x with which a direction's weights just exceed 128 Ki, more than the cache of a CPU's
// thread holds.
constexpr int64_t features_over_caches(Cell cell, int64_t H) { return (132 << 10) / (gates_of(cell) * H) - H; }

inline Cases recurrent_cases(Cell cell, Scale scale) {
  const std::string I_131 = std::to_string(features_over_caches(cell, 131));
  const std::string I_8 = std::to_string(features_over_caches(cell, 8));
  const Cases test{
      {"one of each", "T:1 B:1 I:1 H:1"},
      {"no steps", "T:0 B:2 I:3 H:3"},
      {"no sequences", "T:2 B:0 I:3 H:3"},
      {"no features", "T:2 B:3 I:0 H:3"},
      {"small, both directions", "T:3 B:3 I:5 H:3 bidirectional:1"},
      {"whole packs, both directions", "T:3 B:4 I:8 H:8 bidirectional:1"},
      {"the sentiment model's layer, less of it", "T:4 B:5 I:16 H:32 bidirectional:1"},
      {"a state over a warp", "T:3 B:2 I:3 H:33 bidirectional:1"},
      {"sequences over a tile", "T:3 B:67 I:3 H:8"},
      {"a slice for every multiprocessor, long sums of weights", "T:2 B:1057 I:2 H:3"},
      {"many steps", "T:67 B:1 I:3 H:5"},
      {"a state over a block's threads", "T:2 B:2 I:17 H:131"},
      {"a state over a block's threads, many sequences", "T:3 B:18 I:5 H:131"},
      {"whole packs, a state over a block's threads", "T:3 B:5 I:4 H:132 bidirectional:1"},
      {"one sequence with more than very small weights", "T:3 B:1 I:120 H:131"},
      {"one sequence of that kind, both directions", "T:3 B:1 I:120 H:131 bidirectional:1 padded:1"},
      {"weights over a thread's caches", "T:3 B:7 H:131 bidirectional:1 I:" + I_131},
      {"weights over a thread's caches, no steps", "T:0 B:3 H:131 bidirectional:1 I:" + I_131},
      {"few units with weights over a thread's caches", "T:2 B:19 H:8 I:" + I_8},
      {"lengths of one sequence", "T:3 B:1 I:2 H:3 padded:1"},
      {"lengths of one step", "T:1 B:3 I:2 H:3 bidirectional:1 padded:1"},
      {"lengths, no steps", "T:0 B:2 I:3 H:3 padded:1"},
      {"lengths, no sequences", "T:2 B:0 I:3 H:3 padded:1"},
      {"lengths, no features", "T:3 B:4 I:0 H:3 bidirectional:1 padded:1"},
      {"lengths, whole packs", "T:6 B:5 I:8 H:8 bidirectional:1 padded:1"},
      {"lengths, a state over a warp", "T:7 B:4 I:5 H:33 bidirectional:1 padded:1"},
      {"lengths of sequences over a tile", "T:5 B:67 I:3 H:8 padded:1"},
      {"lengths, a state over a block's threads", "T:4 B:3 I:17 H:131 padded:1"},
      {"lengths, a state over a block's threads, many sequences", "T:2 B:33 I:1 H:131 bidirectional:1 padded:1"},
      {"lengths, weights over a thread's caches", "T:4 B:7 H:131 bidirectional:1 padded:1 I:" + I_131},
      {"lengths, few units with weights over a thread's caches", "T:3 B:19 H:8 padded:1 I:" + I_8},
      {"lengths below 1 count as 1", "T:3 B:2 I:3 H:5 bidirectional:1 padded:1 lengths=-7"},
      {"lengths above T count as T", "T:3 B:2 I:3 H:5 bidirectional:1 padded:1 lengths=1000000"},
  };
  const Cases lstm{
      {"IMDb sentiment: 512 x 256 tokens of 16 features, 32 units", "T:256 B:512 I:16 H:32 bidirectional:1"},
      {"scorer: 60 steps of 32 features, 128 units", "T:60 B:64 I:32 H:128"},
      {"DeepBench 512, batch 16", "T:25 B:16 I:512 H:512"},
      {"DeepBench 512, batch 128", "T:25 B:128 I:512 H:512"},
      {"DeepBench 256, batch 32", "T:150 B:32 I:256 H:256"},
      {"IMDb sentiment, reviews of 1 to 256 tokens", "T:256 B:512 I:16 H:32 bidirectional:1 padded:1"},
      {"DeepBench 512, batch 128, sequences of 1 to 25 steps", "T:25 B:128 I:512 H:512 padded:1"},
  };
  const Cases gru{
      {"the scorer's layer as a GRU", "T:60 B:64 I:32 H:128"},
      {"DeepBench 1024, fewer steps", "T:25 B:32 I:1024 H:1024"},
  };
  const Cases rnn_tanh{
      {"the scorer's layer as a plain RNN", "T:60 B:64 I:32 H:128"},
      {"DeepBench 1760, batch 16", "T:50 B:16 I:1760 H:1760"},
  };
  const Cases more_lstm = concat({
      across({"B:16", "B:32", "B:64", "B:128"},
             across({"I:512 H:512", "I:1024 H:1024", "I:2048 H:2048", "I:4096 H:4096"},
                    {{"DeepBench, 25 steps", "T:25"}})),
      across({"B:8", "B:16", "B:32"}, {{"DeepBench 1536, 50 steps", "T:50 I:1536 H:1536"}}),
      across({"B:16", "B:64"}, {{"DeepBench 256, 150 steps", "T:150 I:256 H:256"}}),
  });
  const Cases sentiment{
      {"the sentiment model's layer", "T:256 B:512 I:16 H:32 bidirectional:1"},
      {"the sentiment model's layer, reviews of 1 to 256 tokens", "T:256 B:512 I:16 H:32 bidirectional:1 padded:1"},
  };
  const Cases more_gru =
      concat({sentiment, across({"T:187", "T:375", "T:750", "T:1500"},
                                across({"I:1024 H:1024", "I:1536 H:1536", "I:2048 H:2048", "I:2816 H:2816"},
                                       {{"DeepBench, batch 32", "B:32"}}))});
  const Cases more_rnn_tanh = concat(
      {sentiment, across({"B:16", "B:32", "B:64", "B:128"}, across({"I:1760 H:1760", "I:2048 H:2048", "I:2560 H:2560"},
                                                                   {{"DeepBench, 50 steps", "T:50"}}))});
  switch (cell) {
    case Cell::lstm:
      return concat({across(kFloatTypes, by_scale(scale, test, lstm, more_lstm)),
                     by_scale(scale, {}, {}, {}, sweep("B", 1, 256, "T:60 I:32 H:128", 2))});
    case Cell::gru:
      return across(kFloatTypes, by_scale(scale, test, gru, more_gru));
    default:
      return across(kFloatTypes, by_scale(scale, test, rnn_tanh, more_rnn_tanh));
  }
}

// Layers of which only the last states are read.
inline Cases last_only_cases(Cell cell, Scale scale) {
  const std::string I_131 = std::to_string(features_over_caches(cell, 131));
  const Cases test{
      {"the last states alone", "T:3 B:5 I:3 H:5 bidirectional:1"},
      {"the last states alone, no steps", "T:0 B:2 I:3 H:3"},
      {"the last states alone, a state over a block's threads", "T:2 B:2 I:17 H:131"},
      {"the last states alone, weights over a thread's caches", "T:2 B:1 H:131 I:" + I_131},
      {"the last states alone, lengths", "T:4 B:5 I:3 H:5 bidirectional:1 padded:1"},
  };
  const Cases sentiment{
      {"IMDb sentiment: its head reads the last states alone", "T:256 B:512 I:16 H:32 bidirectional:1"},
  };
  if (cell == Cell::lstm) return across(kFloatTypes, by_scale(scale, test, sentiment));
  return across(kFloatTypes, by_scale(scale, test, {}, sentiment));
}

}  // namespace duet
