#!/bin/sh
# Writes a C++ file with every function of CUDA's driver that cuda.h declares: no_driver.sh COMPILER INCLUDE. All return
# CUDA_ERROR_STUB_LIBRARY, but counting the devices succeeds: there are none.
set -eu
echo 'extern "C" int cuDeviceGetCount(int* count) { *count = 0; return 0; }'
echo '#include <cuda.h>' | "$1" -E -x c++ -I "$2" - | grep -o '\bcu[A-Z][A-Za-z0-9_]* *(' | tr -d ' (' |
  sed 'p; s/_v[0-9]*$//' | sort -u | grep -vx cuDeviceGetCount | sed 's/.*/extern "C" int &() { return 34; }/'
