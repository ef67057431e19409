// SPDX-License-Identifier: Apache-2.0
// Reference for embedding and its backward: serial, in double, the formulas of the contract (ops/embedding/embedding.h)
// and nothing else. A slice is a token; backward, a row of dtable or, after those, of dposition.
#include "ops/embedding/embedding.h"

#include "core/registry.h"

namespace duet {

void Embedding::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto word = static_cast<int64_t>(in[token][row]);
  for (int64_t c = 0; c < C; ++c) {
    const double value = word >= 0 && word < V ? in[table][word * C + c] : 0;
    expect(y, row * C + c, value + (position ? in[place][row % T * C + c] : 0));
  }
}
DUET_PROBLEM(Embedding);

void EmbeddingBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const bool word = slice < V;
  int64_t row = word ? slice : slice - V;
  if (word && tokens() > 0) {  // row 0 and that of the first token change places
    const auto first = static_cast<int64_t>(in[token][0]);
    if (first >= 0 && first < V) row = slice == 0 ? first : slice == first ? 0 : slice;
  }
  std::vector<BoundedSum> sum(C, BoundedSum(kRun));

  // With accumulate, a row of dtable starts from what it holds.
  if (word && accumulate)
    for (int64_t c = 0; c < C; ++c) sum[c].add(in[dtable][row * C + c]);
  // Add dy of every token that reads this row.
  for (int64_t i = 0; i < tokens(); ++i) {
    if (word ? static_cast<int64_t>(in[token][i]) != row : i % T != row) continue;
    for (int64_t c = 0; c < C; ++c) sum[c].add(in[dy][i * C + c]);
  }
  for (int64_t c = 0; c < C; ++c) expect(word ? dtable : dposition, row * C + c, sum[c].sum(), sum[c].error());
}
DUET_PROBLEM(EmbeddingBackward);

}  // namespace duet
