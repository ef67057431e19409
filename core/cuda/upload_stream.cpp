// SPDX-License-Identifier: Apache-2.0
#include "core/upload_stream.h"

#include "core/cuda/check.h"
#include "core/cuda/gpu_context.h"
#include "core/cuda/handle.h"

namespace duet {
namespace cuda {
namespace {

class Uploads final : public UploadStream {
 public:
  explicit Uploads(GpuContext& gpu) : gpu_(gpu) {}
  ~Uploads() override { DUET_CUDA_LOG(cudaStreamSynchronize(stream_.get())); }
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  void upload(void* to, const void* pinned, int64_t bytes) override {
    if (bytes > 0)
      DUET_CUDA(cudaMemcpyAsync(to, pinned, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_.get()));
  }
  void begin_after_work() override { order(gpu_.stream(), worked_, stream_.get()); }
  void hold_work() override { order(stream_.get(), uploaded_, gpu_.stream()); }
  void synchronize() override { DUET_CUDA(cudaStreamSynchronize(stream_.get())); }

 private:
  static void order(cudaStream_t first, const Event& done, cudaStream_t then) {
    DUET_CUDA(cudaEventRecord(done.get(), first));
    DUET_CUDA(cudaStreamWaitEvent(then, done.get(), 0));
  }
  GpuContext& gpu_;
  Stream stream_ = make_stream();
  Event worked_ = make_event(cudaEventDisableTiming), uploaded_ = make_event(cudaEventDisableTiming);
};

}  // namespace
}  // namespace cuda

std::unique_ptr<UploadStream> open_upload_stream(Context& context) {
  auto* gpu = dynamic_cast<cuda::GpuContext*>(&context);
  return gpu ? std::make_unique<cuda::Uploads>(*gpu) : nullptr;
}

}  // namespace duet
