#include "backends/cuda/gpu/capture.hpp"

#include <algorithm>
#include <vector>

#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/handles.hpp"

namespace assay::cuda {
namespace {

// Instantiated once; each run is one launch of all its nodes.
class CapturedGraph final : public Recording {
 public:
  CapturedGraph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check("cudaGraphInstantiate(&executable_, graph, 0)", status);
    ASSAY_CUDA(cudaGraphUpload(executable_, stream_));
  }
  ~CapturedGraph() override {
    cudaStreamSynchronize(stream_);
    cudaGraphExecDestroy(executable_);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  void run() override { ASSAY_CUDA(cudaGraphLaunch(executable_, stream_)); }
  double seconds() override {
    run();
    return device_seconds(stream_, [this] { run(); });
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
  cudaStream_t stream_;
};

// The nodes that the next work of a capturing stream waits for: after a part, its last ones.
struct Ends {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges;  // how each is waited for

  void add(const Ends& others) {
    for (std::size_t i = 0; i < others.nodes.size(); ++i) {
      if (std::ranges::find(nodes, others.nodes[i]) != nodes.end()) continue;
      nodes.push_back(others.nodes[i]);
      edges.push_back(others.edges[i]);
    }
  }
};

Ends ends_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  ASSAY_CUDA(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count));
  Ends ends;
  if (status != cudaStreamCaptureStatusActive) return ends;  // lost, as the end of the capture reports
  ends.nodes.assign(nodes, nodes + count);
  ends.edges.resize(count);
  if (edges != nullptr) std::copy_n(edges, count, ends.edges.begin());
  return ends;
}

// CUDA does not say whether the set may be empty, so then the next work waits for that before it.
void wait_only_for(cudaStream_t stream, Ends ends) {
  if (ends.nodes.empty()) return;
  ASSAY_CUDA(cudaStreamUpdateCaptureDependencies(stream, ends.nodes.data(), ends.edges.data(),
                                                 ends.nodes.size(), cudaStreamSetCaptureDependencies));
}

void enqueue(cudaStream_t stream, std::span<const GraphPart> parts) {
  std::vector<Ends> ends;  // by part
  std::vector<bool> is_needed(parts.size());
  for (const GraphPart& part : parts) {
    Ends needed;
    for (const std::size_t before : part.needs) {
      needed.add(ends[before]);
      is_needed[before] = true;
    }
    // A set that would be empty: the work of the first part is as early.
    if (part.needs.empty() && !ends.empty()) needed = ends.front();
    wait_only_for(stream, std::move(needed));
    part.enqueue();
    if (parts.size() == 1) return;
    ends.push_back(ends_of(stream));
  }
  Ends last;
  for (std::size_t part = 0; part < parts.size(); ++part)
    if (!is_needed[part]) last.add(ends[part]);
  wait_only_for(stream, std::move(last));
}

}  // namespace

double device_seconds(cudaStream_t stream, const std::function<void()>& enqueue) {
  const Event begin, end;
  ASSAY_CUDA(cudaEventRecord(begin.get(), stream));
  enqueue();
  ASSAY_CUDA(cudaEventRecord(end.get(), stream));
  ASSAY_CUDA(cudaEventSynchronize(end.get()));
  float milliseconds = 0;
  ASSAY_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return static_cast<double>(milliseconds) * 1e-3;
}

std::unique_ptr<Recording> capture(cudaStream_t stream, std::span<const GraphPart> parts,
                                   std::size_t min_nodes) {
  ASSAY_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    enqueue(stream, parts);
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  ASSAY_CUDA(cudaStreamEndCapture(stream, &graph));
  std::size_t nodes = 0;
  const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &nodes);
  if (counted != cudaSuccess || nodes < min_nodes) {
    cudaGraphDestroy(graph);
    check("cudaGraphGetNodes(graph, nullptr, &nodes)", counted);
    return nullptr;
  }
  return std::make_unique<CapturedGraph>(graph, stream);
}

}  // namespace assay::cuda
