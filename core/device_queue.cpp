// SPDX-License-Identifier: Apache-2.0
#include "core/device_queue.h"

#include <algorithm>
#include <utility>

namespace duet {

DeviceQueue* device_queue(Context& context) { return dynamic_cast<DeviceQueue*>(&context); }

PinnedBuffer::PinnedBuffer(Context& context, int64_t bytes)
    : context_(&context), queue_(device_queue(context)), bytes_(bytes) {
  const int64_t size = std::max<int64_t>(bytes, 1);
  data_ = queue_ ? queue_->allocate_pinned(size) : context.allocate(size);
}

PinnedBuffer::~PinnedBuffer() {
  if (queue_)
    queue_->release_pinned(data_);
  else if (context_)
    context_->release(data_, std::max<int64_t>(bytes_, 1));
}

void PinnedBuffer::swap(PinnedBuffer& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(queue_, other.queue_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

void PinnedBuffer::upload(void* device, int64_t offset, int64_t bytes) const {
  const char* from = static_cast<const char*>(data_) + offset;
  if (queue_)
    queue_->upload_async(device, from, bytes);
  else
    context_->upload(device, from, bytes);
}

void PinnedBuffer::download(const void* device, int64_t offset, int64_t bytes) const {
  char* to = static_cast<char*>(data_) + offset;
  if (queue_)
    queue_->download_async(to, device, bytes);
  else
    context_->download(to, device, bytes);
}

}  // namespace duet
