// The errors of the graph: bad operands, bad attributes, a malformed graph.json.
#pragma once

#include <stdexcept>

namespace assay {

// The text names the op and the shapes: "[linear] got x (32, 784) and weight (10, 128): inner dimensions
// differ".
class GraphError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace assay
