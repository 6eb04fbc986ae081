// CUDA's runtime: the device, streams, events and memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/stand_in/machine.hpp"

using namespace assay::stand_in;

namespace {

cudaError_t last_error = cudaSuccess;

cudaError_t answer(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}
cudaError_t unless(bool failed, cudaError_t status) { return answer(failed ? status : cudaSuccess); }

// Bytes in the order of the stream.
void copy_bytes(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const auto count = static_cast<std::int64_t>(bytes);
  constexpr const char* user = "a copy";
  if (kind != cudaMemcpyHostToDevice && !check_range(from, count, user)) return;
  if (kind != cudaMemcpyDeviceToHost && !check_range(to, count, user)) return;
  std::memmove(to, from, bytes);
}

// FNV-1a.
std::uint64_t digest(const void* bytes, std::size_t count) {
  const auto* const first = static_cast<const unsigned char*>(bytes);
  std::uint64_t sum = 14695981039346656037U;
  for (std::size_t i = 0; i < count; ++i) sum = (sum ^ first[i]) * 1099511628211U;
  return sum;
}

// What the next work of a captured stream waits for, too.
void add_ends(CUstream_st& stream, const std::vector<cudaGraphNode_t>& more) {
  std::vector<cudaGraphNode_t>& ends = ends_of(stream);
  for (const cudaGraphNode_t node : more) {
    if (std::ranges::find(ends, node) == ends.end()) ends.push_back(node);
  }
}

bool is_captured(const CUgraph_st* graph) {
  return std::ranges::any_of(machine().streams, [graph](const auto* s) { return s->captured == graph; });
}

}  // namespace

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureMerge:
      return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    default:
      return "cudaErrorInvalidValue";
  }
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

// The device

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return unless(device != 0, cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9
           : attribute == cudaDevAttrMultiProcessorCount  ? 132
           : attribute == cudaDevAttrMemoryPoolsSupported ? (machine().conditions.memory_pools ? 1 : 0)
                                                          : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strncpy(properties->name, "stand-in", sizeof properties->name - 1);
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = static_cast<std::size_t>(machine().conditions.device_bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (breaks_capture("cudaDeviceSynchronize")) return answer(cudaErrorStreamCaptureUnsupported);
  wait_for_all();
  return cudaSuccess;
}

// Streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (!find_memory()) return answer(cudaErrorMemoryAllocation);
  *stream = new CUstream_st;
  open(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  close(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  if (breaks_capture("cudaStreamSynchronize")) return answer(cudaErrorStreamCaptureUnsupported);
  wait_for(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->captured != nullptr) {
    if (!is_captured(event->captured)) {
      fault("a stream waits for an event of a capture that has ended");
      return answer(cudaErrorInvalidValue);
    }
    if (stream->captured == nullptr) capture(stream, event->captured);
    if (stream->captured != event->captured) return answer(cudaErrorStreamCaptureMerge);
    add_ends(*stream, event->ends);
    return cudaSuccess;
  }
  if (stream->captured != nullptr && breaks_capture("cudaStreamWaitEvent"))
    return answer(cudaErrorStreamCaptureIsolation);
  if (event->moment != nullptr) wait_in(stream, event->moment);
  return cudaSuccess;
}

// Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (!find_memory()) return answer(cudaErrorMemoryAllocation);
  *event = new CUevent_st{(flags & cudaEventDisableTiming) == 0, nullptr};
  hold("events", 1);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return answer(cudaErrorInvalidResourceHandle);
  delete event;
  hold("events", -1);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->captured = stream->captured;
  if (stream->captured != nullptr) {
    event->moment = nullptr;
    event->ends = ends_of(*stream);
    return cudaSuccess;
  }
  auto moment = std::make_shared<Moment>(Moment{stream});
  event->moment = moment;
  enqueue(stream, [moment] {
    moment->reached = true;
    moment->microseconds = machine().microseconds;
  });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (breaks_capture("cudaEventSynchronize")) return answer(cudaErrorStreamCaptureUnsupported);
  if (event->moment != nullptr && !machine().conditions.waits_for_no_event) wait_for(*event->moment);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const auto is_timed = [](const CUevent_st& event) { return event.timed && event.moment != nullptr; };
  if (!is_timed(*begin) || !is_timed(*end)) return answer(cudaErrorInvalidResourceHandle);
  if (!begin->moment->reached || !end->moment->reached) return answer(cudaErrorNotReady);
  *milliseconds = static_cast<float>((end->moment->microseconds - begin->moment->microseconds) * 1e-3);
  return cudaSuccess;
}

// Memory

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  if (breaks_capture("cudaMallocAsync")) return answer(cudaErrorStreamCaptureUnsupported);
  *pointer = allocate(bytes, Place::device);
  if (*pointer == nullptr) return answer(cudaErrorMemoryAllocation);
  enqueue(stream, [fresh = *pointer] { make_fresh(fresh); });
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  if (breaks_capture("cudaFreeAsync")) return answer(cudaErrorStreamCaptureUnsupported);
  if (!give_back(pointer, Place::device)) return answer(cudaErrorInvalidValue);
  enqueue(stream, [pointer] { poison(pointer); });
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  if (breaks_capture("cudaMallocHost")) return answer(cudaErrorStreamCaptureUnsupported);
  *pointer = allocate(bytes, Place::pinned);
  return unless(*pointer == nullptr, cudaErrorMemoryAllocation);
}

// It does not wait: copies that still read the memory read NaN.
cudaError_t cudaFreeHost(void* pointer) {
  if (breaks_capture("cudaFreeHost")) return answer(cudaErrorStreamCaptureUnsupported);
  if (!give_back(pointer, Place::pinned)) return answer(cudaErrorInvalidValue);
  poison(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = static_cast<std::size_t>(free_bytes());
  *total = static_cast<std::size_t>(machine().conditions.device_bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = reinterpret_cast<cudaMemPool_t>(&machine());
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void*) {
  return unless(attribute != cudaMemPoolAttrReleaseThreshold, cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  if (breaks_capture("cudaMemPoolTrimTo")) return answer(cudaErrorStreamCaptureUnsupported);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->type = is_pinned(pointer) ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] {
    if (check_range(pointer, static_cast<std::int64_t>(bytes), "a memset"))
      std::memset(pointer, value, bytes);
  });
  return cudaSuccess;
}

// The host's memory is read and written as late as the device's, pageable memory, too: CUDA only promises that it
// may return earlier.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice && is_pinned(from)) {
    enqueue(stream, [=, before = digest(from, bytes)] {
      check_range(from, static_cast<std::int64_t>(bytes), "a copy from the host", Place::pinned);
      if (digest(from, bytes) != before) fault("pinned memory was changed before the copy from it ran");
      copy_bytes(to, from, bytes, kind);
    });
  } else {
    enqueue(stream, [=] { copy_bytes(to, from, bytes, kind); });
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (kind != cudaMemcpyDeviceToDevice || width > to_pitch || width > from_pitch)
    return answer(cudaErrorInvalidPitchValue);
  enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row)
      copy_bytes(static_cast<std::byte*>(to) + row * to_pitch,
                 static_cast<const std::byte*>(from) + row * from_pitch, width, kind);
  });
  return cudaSuccess;
}

// What is captured

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->captured != nullptr) return answer(cudaErrorIllegalState);
  capture(stream, new CUgraph_st);
  hold("graphs", 1);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream->captured == nullptr) return answer(cudaErrorIllegalState);
  CUgraph_st* const captured = stream->captured;
  const bool joined = end_capture(stream);
  if (!joined) fault("a capture ended before the streams that had joined it");
  if (stream->capture_is_invalid || !joined) {
    cudaGraphDestroy(captured);
    return answer(joined ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined);
  }
  *graph = captured;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  *status = stream->captured == nullptr  ? cudaStreamCaptureStatusNone
            : stream->capture_is_invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
  if (id != nullptr) *id = 0;
  if (graph != nullptr) *graph = stream->captured;
  if (stream->captured == nullptr || stream->capture_is_invalid) return cudaSuccess;
  const std::vector<cudaGraphNode_t>& ends = ends_of(*stream);
  if (nodes != nullptr) *nodes = ends.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = ends.size();
  return cudaSuccess;
}

// Whether CUDA takes an empty set is not documented, so this one refuses it.
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData*, std::size_t count, unsigned flags) {
  if (stream->captured == nullptr) return answer(cudaErrorIllegalState);
  if (stream->capture_is_invalid) return answer(cudaErrorStreamCaptureInvalidated);
  if (count == 0 || flags > cudaStreamSetCaptureDependencies) return answer(cudaErrorInvalidValue);
  std::vector<cudaGraphNode_t>& ends = ends_of(*stream);
  const std::vector<cudaGraphNode_t> more(nodes, nodes + count);
  const auto is_known = [&](cudaGraphNode_t node) {
    return std::ranges::any_of(*stream->captured->nodes, [&](const auto& one) { return one.get() == node; });
  };
  if (!std::ranges::all_of(more, is_known)) return answer(cudaErrorInvalidValue);
  if (flags == cudaStreamSetCaptureDependencies) ends.clear();
  add_ends(*stream, more);
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) return answer(cudaErrorInvalidValue);
  *count = graph->nodes->size();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph == nullptr) return answer(cudaErrorInvalidValue);
  delete graph;
  hold("graphs", -1);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = nullptr;
  if (breaks_capture("cudaGraphInstantiate")) return answer(cudaErrorStreamCaptureUnsupported);
  if (!find_memory()) return answer(cudaErrorMemoryAllocation);
  *executable = new CUgraphExec_st{graph->nodes, tracks_of(*graph->nodes), graph->objects, {}};
  for (std::size_t track = 1; track < (*executable)->tracks.size(); ++track) {
    (*executable)->streams.push_back(std::make_unique<CUstream_st>());
    open((*executable)->streams.back().get(), false);
  }
  hold("executable graphs", 1);
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return unless(breaks_capture("cudaGraphUpload"), cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (breaks_capture("cudaGraphLaunch")) return answer(cudaErrorStreamCaptureUnsupported);
  launch(*executable, stream);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  if (executable == nullptr) return answer(cudaErrorInvalidValue);
  for (const auto& stream : executable->streams) close(stream.get(), false);
  delete executable;
  hold("executable graphs", -1);
  return cudaSuccess;
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy,
                                 unsigned references, unsigned) {
  *object = new CUuserObject_st{data, destroy, references};
  hold("user objects", 1);
  return cudaSuccess;
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  release(object, count);
  return cudaSuccess;
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  if ((flags & cudaGraphUserObjectMove) == 0) object->references += count;
  graph->objects.add(object, count);
  return cudaSuccess;
}
