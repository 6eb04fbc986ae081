#include <cstddef>
#include <cstdio>
#include <exception>

#include "tests/fuzz/bulk.hpp"

// With AddressSanitizer: end by a signal, so that the command that repeats the input is printed.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }

int main(int count, char** arguments) try {
  return assay::fuzz::run_bulk(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 2;
}
