# Every third-party package the harness itself uses. A backend finds its own vendor library in its own folder.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)  # SHA-256; Debian: libssl-dev
find_package(JPEG REQUIRED)  # libjpeg-turbo; Debian: libjpeg-dev
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(simdjson REQUIRED)  # reports of 200 MB; Debian: libsimdjson-dev
find_package(CLI11 2 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
find_path(VALIJSON_INCLUDE_DIR valijson/validator.hpp REQUIRED)
if(ASSAY_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()
