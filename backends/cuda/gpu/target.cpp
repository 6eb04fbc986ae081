#include "backends/cuda/gpu/target.hpp"

#include <algorithm>
#include <limits>

#include "backends/cuda/gpu/capture.hpp"
#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/handles.hpp"

namespace assay::cuda {

double captured_seconds(const Target& target, const std::function<void()>& enqueue, int calls) {
  constexpr int launches = 3;
  enqueue();  // loads the kernels, which a capture must not
  ASSAY_CUDA(cudaStreamSynchronize(target.stream));
  const GraphPart part{[&] {
    for (int i = 0; i < calls; ++i) enqueue();
  }};
  const std::unique_ptr<Recording> recording = capture(target.stream, {&part, 1}, 0);
  const Event begin, end;
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i < launches; ++i) {
    ASSAY_CUDA(cudaEventRecord(begin.get(), target.stream));
    recording->run();
    ASSAY_CUDA(cudaEventRecord(end.get(), target.stream));
    ASSAY_CUDA(cudaEventSynchronize(end.get()));
    float milliseconds = 0;
    ASSAY_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    best = std::min(best, milliseconds);
  }
  return static_cast<double>(best) * 1e-3 / calls;
}

}  // namespace assay::cuda
