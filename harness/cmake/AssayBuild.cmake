# assay::build carries what every target of this project is compiled with.
option(ASSAY_WERROR "Treat warnings as errors" OFF)

add_library(assay_build INTERFACE)
add_library(assay::build ALIAS assay_build)
target_compile_features(assay_build INTERFACE cxx_std_20)
# Who builds a worker outside of this tree has warnings of his own, and so has nvcc.
target_compile_options(assay_build INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow;-fno-math-errno>>"
  "$<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${ASSAY_WERROR}>>:-Werror>>")
# Two false alarms of g++ 12 within libstdc++: of string concatenation at -O3 (GCC bug 105651), and of std::function
# where a sanitizer is on.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(assay_build INTERFACE "$<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Wno-restrict>>")
  if(ASSAY_SANITIZE)
    target_compile_options(assay_build INTERFACE "$<BUILD_INTERFACE:-Wno-maybe-uninitialized>")
  endif()
endif()
target_include_directories(assay_build INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include/assay>")

if(ASSAY_SANITIZE)
  set(flags -fsanitize=${ASSAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(assay_build INTERFACE ${flags})
  target_link_options(assay_build INTERFACE ${flags})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
# From bin/ and from libexec/assay/backends/<name>/, and where a vendor's library was found.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../../../../lib")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

find_program(ASSAY_CCACHE ccache)
if(ASSAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ASSAY_CCACHE})
endif()

# Half of a file's compile time is the headers of JSON, fmt and the standard library. OFF: each file by itself, which
# finds an include that is missing.
option(ASSAY_UNITY "Compile a few files of a library or a test together" ON)
function(assay_compile_together target files)
  if(ASSAY_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  endif()
endfunction()

# assay_library(name [APART] SOURCES... LINK...): one static library per folder of harness/. APART: its files give the
# same names to their own helpers, and are always compiled one by one.
function(assay_library name)
  cmake_parse_arguments(arg "APART" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(assay_${name} STATIC ${arg_SOURCES})
  add_library(assay::${name} ALIAS assay_${name})
  target_link_libraries(assay_${name} PUBLIC assay::build ${arg_LINK} PRIVATE ${arg_PRIVATE})
  if(NOT arg_APART)
    assay_compile_together(assay_${name} 6)
  endif()
endfunction()
