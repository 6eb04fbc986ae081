// The operator suite of a backend as an ordinary Google Benchmark program: its flags, its JSON. It times what
// `assay run --workload 'op/*'` times, under the same names, by another clock.
#include <benchmark/benchmark.h>

#include "tests/backend_under_test.hpp"
#include "tests/ops/op_benchmark.hpp"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  assay::register_op_suite(assay::under_test::backend);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
