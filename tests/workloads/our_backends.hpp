// The C++ backends of this build.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/reference/reference_backend.hpp"
#ifdef ASSAY_TEST_ONEDNN
#include "backends/onednn/backend.hpp"
#endif

namespace assay {

inline std::vector<std::string> our_backends() {
#ifdef ASSAY_TEST_ONEDNN
  return {"reference", "onednn"};
#else
  return {"reference"};
#endif
}

// The modes of one of our_backends().
inline std::vector<std::string> modes_of(const std::string& backend) {
  if (backend == "onednn") return {"graph", "eager", "primitives"};
  return {"graph", "eager"};
}

// One of our_backends().
inline std::unique_ptr<Backend> make_backend([[maybe_unused]] const std::string& name) {
#ifdef ASSAY_TEST_ONEDNN
  if (name == "onednn") return std::make_unique<onednn::OnednnBackend>();
#endif
  return std::make_unique<reference::ReferenceBackend>();
}

}  // namespace assay
