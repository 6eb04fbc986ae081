#include "backends/reference/reference_backend.hpp"

int main(int argc, char** argv) {
  assay::reference::ReferenceBackend backend;
  return assay::worker_main(argc, argv, backend);
}
