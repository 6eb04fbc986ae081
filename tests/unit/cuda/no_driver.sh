#!/bin/sh
# Writes a C++ file with every function of CUDA's driver: no_driver.sh NM STUB. All return CUDA_ERROR_STUB_LIBRARY,
# but counting the devices succeeds: there are none.
set -eu
echo 'extern "C" int cuDeviceGetCount(int* count) { *count = 0; return 0; }'
"$1" -D --defined-only "$2" | awk '$2 == "T" && $3 ~ /^cu/ && $3 != "cuDeviceGetCount" { printf "extern \"C\" int %s() { return 34; }\n", $3 }'
