# Every third-party package of the harness. A backend finds its vendor library in its own folder.
# Packages of the workers and their libraries:
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)  # SHA-256; Debian: libssl-dev
find_package(JPEG REQUIRED)  # libjpeg-turbo; Debian: libjpeg-dev
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
if(ASSAY_CONDUCTOR)
  find_package(CLI11 2 REQUIRED)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
endif()
if(ASSAY_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  find_path(VALIJSON_INCLUDE_DIR valijson/validator.hpp REQUIRED)
endif()

set(assay_headers <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <optional> <set> <span>
            <stdexcept> <string> <string_view> <vector> <fmt/format.h> <nlohmann/json.hpp>)
assay_precompile(library_headers HEADERS ${assay_headers} LINK fmt::fmt nlohmann_json::nlohmann_json)
assay_precompile(cold_headers HEADERS ${assay_headers} LINK assay_cold fmt::fmt nlohmann_json::nlohmann_json)
if(ASSAY_TESTS)
  assay_precompile(test_headers HEADERS ${assay_headers} <gmock/gmock.h> <gtest/gtest.h>
                   LINK GTest::gmock GTest::gtest fmt::fmt nlohmann_json::nlohmann_json)
  if(TARGET test_headers)
    set_target_properties(test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # for programs, not for libraries
  endif()
endif()
