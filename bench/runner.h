// SPDX-License-Identifier: Apache-2.0
// One side of one case with its memory: what the sampler drives. An op and a training step are both runners.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compare.h"
#include "core/context.h"
#include "core/session.h"

namespace duet::bench {

class Runner {
 public:
  virtual ~Runner() = default;
  virtual Context& context() = 0;
  virtual void run(int copy) = 0;                  // enqueues one application; called inside context().enter()
  virtual int copies() const { return 1; }         // a batch applies copy 0, 1, ... in turn
  virtual bool restores() const { return false; }  // whether each application needs inout tensors as they were at first
  virtual void restore() {}                        // restores them, outside the clock
  virtual void refreshed() {}                      // copy 0 was just uploaded again
  virtual void evict() = 0;
  // Whether each call matters by itself, as of a request that someone waits for: its samples in the scopes call and
  // end_to_end are single calls, so that they have percentiles.
  virtual bool single_calls() const { return false; }

  // Whether what it uploads is a batch, of which the next one can be copied meanwhile: it has the scope overlapped.
  virtual bool reads_batches() const { return false; }

  // The hooks of verification, outside the clock. Repetition `index` of `count` of a series begins: it sets the outputs
  // to 0xFF, and may replace the inputs. Then come its samples, each between two hooks, and verify(). How many samples
  // there will be may change; the last one is told so in both its hooks.
  virtual void begin_repetition(int /*index*/, int /*count*/) {}
  virtual void before_sample(int /*index*/, int /*count*/) {}
  virtual void after_sample(int /*index*/, int /*count*/) {}
  virtual Check verify(bool last) = 0;  // of the buffers that were timed last; last: it was the series' last repetition

  virtual std::vector<std::pair<void*, int64_t>> uploads() const { return {}; }  // for scopes with copies
  virtual std::vector<std::pair<void*, int64_t>> downloads() const { return {}; }

  double create_s = 0;
  std::string algorithm;
  int64_t workspace_bytes = 0;
};

}  // namespace duet::bench
