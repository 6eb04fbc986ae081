#include "backends/onednn/backend.hpp"

int main(int argc, char** argv) {
  assay::onednn::OnednnBackend backend;
  return assay::worker_main(argc, argv, backend);
}
