// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions of streams, events, captures and graphs.
#include <chrono>

#include "softgpu/runtime.h"

namespace duet::softgpu {
namespace {
double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Stream* capturing() {
  for (Stream* s : device().streams)
    if (s->capture) return s;
  return nullptr;
}

void run_until_done(Event::Record& record) {
  if (!record.done) device().run_until(*record.stream, [&] { return record.done; });
}
cudaError_t of_capture() { return refuse(cudaErrorCapturedEvent, "an event that a capture has recorded"); }

}  // namespace

bool breaks_capture() {
  Stream* s = capturing();
  if (s) s->capture_failed = true;
  return s != nullptr;
}
cudaError_t in_capture(const char* what) {
  return refuse(cudaErrorStreamCaptureUnsupported, fmt::format("{} during a capture", what));
}

bool is_stream(cudaStream_t s) {
  return reinterpret_cast<uintptr_t>(s) <= 2 || device().streams.count(reinterpret_cast<Stream*>(s)) > 0;
}

}  // namespace duet::softgpu

using namespace duet::softgpu;  // NOLINT: the file's subject is the functions below

extern "C" {
// NOLINTBEGIN(readability-identifier-naming)
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return call([&] {
    auto* s = new Stream(device().order.new_stream());
    device().streams.insert(s);
    *stream = reinterpret_cast<cudaStream_t>(s);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] {
    auto* s = reinterpret_cast<Stream*>(stream);
    if (device().streams.count(s)) device().run_all(*s);
    return destroy(device().streams, s);
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&] {
    if (!is_stream(stream)) return refuse(cudaErrorInvalidResourceHandle);
    Stream& s = device().stream(stream);
    if (s.capture) {
      s.capture_failed = true;
      return in_capture("cudaStreamSynchronize");
    }
    device().run_all(s);
    device().wait_for(s.clock);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call([&] {
    if (breaks_capture()) return in_capture("cudaDeviceSynchronize");
    device().run_everything();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call([&] {
    auto* e = reinterpret_cast<Event*>(event);
    if (!is_stream(stream) || !device().events.count(e)) return refuse(cudaErrorInvalidResourceHandle);
    Stream* self = &device().stream(stream);
    const std::shared_ptr<Event::Record> record = e->latest;
    if (!record) return cudaSuccess;
    if (record->capture && record->capture != self->capture.get()) return of_capture();
    device().enqueue(*self, [=] {
      run_until_done(*record);
      join(self->clock, record->clock);
    });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return call([&] {
    auto* e = new Event;
    device().events.insert(e);
    *event = reinterpret_cast<cudaEvent_t>(e);
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] { return destroy(device().events, event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&] {
    auto* e = reinterpret_cast<Event*>(event);
    if (!is_stream(stream) || !device().events.count(e)) return refuse(cudaErrorInvalidResourceHandle);
    Stream* s = &device().stream(stream);
    const auto record = std::make_shared<Event::Record>(Event::Record{s, s->capture.get()});
    e->latest = record;
    device().enqueue(*s, [=] {
      record->done = true;
      record->clock = s->clock;
      record->time_s = now_s();
    });
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] {
    auto* e = reinterpret_cast<Event*>(event);
    if (!device().events.count(e)) return refuse(cudaErrorInvalidResourceHandle);
    if (breaks_capture()) return in_capture("cudaEventSynchronize");
    if (!e->latest) return cudaSuccess;
    if (e->latest->capture) return of_capture();
    run_until_done(*e->latest);
    device().wait_for(e->latest->clock);
    return cudaSuccess;
  });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t stop) {
  return call([&] {
    auto* a = reinterpret_cast<Event*>(start);
    auto* b = reinterpret_cast<Event*>(stop);
    if (!device().events.count(a) || !device().events.count(b) || !a->latest || !b->latest)
      return refuse(cudaErrorInvalidResourceHandle, "an event that was never recorded");
    if (a->latest->capture || b->latest->capture) return of_capture();
    if (!a->latest->done || !b->latest->done) return refuse(cudaErrorNotReady);
    *ms = static_cast<float>((b->latest->time_s - a->latest->time_s) * 1e3);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return call([&] {
    auto* s = reinterpret_cast<Stream*>(stream);
    if (!device().streams.count(s))
      return refuse(cudaErrorStreamCaptureUnsupported, "the default stream cannot be captured");
    if (s->capture) return refuse(cudaErrorIllegalState, "the stream is capturing already");
    s->capture = std::make_unique<Graph>();
    s->capture_failed = false;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&] {
    *graph = nullptr;
    auto* s = reinterpret_cast<Stream*>(stream);
    if (!device().streams.count(s) || !s->capture) return refuse(cudaErrorIllegalState, "the stream is not capturing");
    std::unique_ptr<Graph> made = std::move(s->capture);
    if (s->capture_failed) return refuse(cudaErrorStreamCaptureInvalidated, device().latest_message);
    device().graphs.insert(made.get());
    *graph = reinterpret_cast<cudaGraph_t>(made.release());
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    auto* g = reinterpret_cast<Graph*>(graph);
    if (!device().graphs.count(g)) return refuse(cudaErrorInvalidResourceHandle);
    auto* made = new Graph(*g);
    device().executable_graphs.insert(made);
    *executable = reinterpret_cast<cudaGraphExec_t>(made);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&] {
    auto* g = reinterpret_cast<Graph*>(executable);
    if (!device().executable_graphs.count(g) || !is_stream(stream)) return refuse(cudaErrorInvalidResourceHandle);
    for (const Work& work : g->work) device().enqueue(device().stream(stream), work);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&] {
    if (!device().executable_graphs.count(reinterpret_cast<Graph*>(executable)) || !is_stream(stream))
      return refuse(cudaErrorInvalidResourceHandle);
    if (device().stream(stream).capture) return in_capture("cudaGraphUpload");
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] { return destroy(device().graphs, graph); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return call([&] { return destroy(device().executable_graphs, graph); });
}
}
// NOLINTEND(readability-identifier-naming)
