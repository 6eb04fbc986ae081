// The errors that several libraries throw.
#pragma once

#include <stdexcept>

namespace assay {

// Bad operands, bad attributes or a malformed graph.json. The text names the op and the shapes:
// "[linear] got x (32, 784) and weight (10, 128): inner dimensions differ".
class GraphError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user asked for something that cannot be done. The text says what, where and the remedy; the program exits
// with 2.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace assay
