// How the elements of a value lie in memory. Opaque to everything but the kernel library that made it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace assay {

// Two formats are the same layout iff their keys are equal. Cheap to copy.
struct Format {
  std::string key;         // "plain f32 (32, 784)", "AB16b64a f32 (128, 784)"; empty: undecided
  std::int64_t bytes = 0;  // of the storage, padding included; a multiple of nothing in particular
  std::shared_ptr<const void> detail;  // the library's own descriptor, may be null

  bool decided() const { return !key.empty(); }
  bool operator==(const Format& other) const { return key == other.key; }
};

}  // namespace assay
