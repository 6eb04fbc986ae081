// What a backend throws when it cannot, as opposed to when it failed.
#pragma once

#include <new>
#include <string>

#include "harness/core/error.hpp"

namespace assay {

// The status `unsupported`: "[convolution] stride 3 has no kernel here".
class Unsupported : public Error {
 public:
  using Error::Error;
};

// The status `unavailable`: what it runs on is not here.
class Unavailable : public Error {
 public:
  using Error::Error;
};

// The status `out_of_memory`: says what was asked for. std::bad_alloc means the same.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string reason) : reason_(std::move(reason)) {}
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

}  // namespace assay
