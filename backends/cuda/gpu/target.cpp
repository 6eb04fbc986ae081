#include "backends/cuda/gpu/target.hpp"

#include <algorithm>
#include <limits>

#include "backends/cuda/gpu/capture.hpp"
#include "backends/cuda/gpu/check.hpp"

namespace assay::cuda {

double captured_seconds(const Target& target, const std::function<void()>& enqueue, int calls) {
  constexpr int launches = 3;
  enqueue();  // loads the kernels, which a capture must not
  ASSAY_CUDA(cudaStreamSynchronize(target.stream));
  const GraphPart part{[&] {
    for (int i = 0; i < calls; ++i) enqueue();
  }};
  const std::unique_ptr<Recording> recording = capture(target.stream, {&part, 1}, 0);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < launches; ++i)
    best = std::min(best, device_seconds(target.stream, [&] { recording->run(); }));
  return best / calls;
}

}  // namespace assay::cuda
