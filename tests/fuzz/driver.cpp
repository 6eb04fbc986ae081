// libFuzzer's entry, of a program with one target.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const assay::fuzz::Target target = assay::fuzz::targets().front();
  assay::fuzz::run(target, std::as_bytes(std::span(data, size)));
  return 0;
}
