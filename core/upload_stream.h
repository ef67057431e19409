// SPDX-License-Identifier: Apache-2.0
// Uploads beside the work of a GPU: on a stream of their own, which is ordered with the context's by events alone. The
// copy of the next batch overlaps a training step so (bench/sampler.h).
#pragma once
#include <cstdint>
#include <memory>

#include "core/context.h"

namespace duet {

class UploadStream {
 public:
  virtual ~UploadStream() = default;  // waits for what was enqueued
  virtual void upload(void* to, const void* pinned, int64_t bytes) = 0;
  virtual void begin_after_work() = 0;  // uploads from here on begin after the context's work so far
  virtual void hold_work() = 0;         // the context's work from here on begins after the uploads so far
  virtual void synchronize() = 0;
};

std::unique_ptr<UploadStream> open_upload_stream(Context& context);  // null where the context is not a GPU's

}  // namespace duet
