#include "backends/cuda/gpu/backend.hpp"

int main(int argc, char** argv) {
  assay::cuda::CudaBackend backend;
  return assay::worker_main(argc, argv, backend);
}
