# assay::build has the compiler options of every target of this project.
option(ASSAY_WERROR "Treat warnings as errors" OFF)

add_library(assay_build INTERFACE)
add_library(assay::build ALIAS assay_build)
target_compile_features(assay_build INTERFACE cxx_std_20)
# Workers outside of this tree choose their own warnings, and nvcc has its own.
target_compile_options(assay_build INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow;-fno-math-errno>>"
  "$<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${ASSAY_WERROR}>>:-Werror>>")
# False alarms of g++ 12 within libstdc++: three of string concatenation at -O3 (GCC bug 105651), one of std::function
# where a sanitizer is on.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(assay_build INTERFACE "$<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>>")
  if(ASSAY_SANITIZE)
    target_compile_options(assay_build INTERFACE "$<BUILD_INTERFACE:-Wno-maybe-uninitialized>")
  endif()
endif()
# Makes g++ collect its garbage later: a tenth less compile time for 150 MB more memory. Also the options that ccache
# needs for a file that is compiled with precompiled headers.
target_compile_options(assay_build INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000;-fpch-preprocess>>")

# The options of COLD and of HOT libraries.
add_library(assay_cold INTERFACE)
target_compile_options(assay_cold INTERFACE "$<$<CONFIG:Release>:-O1>")
add_library(assay_hot INTERFACE)
target_compile_options(assay_hot INTERFACE -O2)

if(ASSAY_SANITIZE)
  set(flags -fsanitize=${ASSAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(assay_build INTERFACE ${flags})
  target_link_options(assay_build INTERFACE ${flags})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
# Search paths of the build tree, where the batch library is two folders above a worker, then of the installation, relative
# to bin/ and libexec/assay/backends/<name>/, and the folders of the vendors' libraries. Programs are built with what is
# installed: CMake would fill other paths up with ":", and an empty entry is the working directory of the caller.
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../..;$ORIGIN/../lib;$ORIGIN/../../../../lib")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)

# Links a test program in a tenth of the default linker's time.
find_program(ASSAY_MOLD mold)
if(ASSAY_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_link_options(assay_build INTERFACE "$<BUILD_INTERFACE:-fuse-ld=mold>")
endif()

find_program(ASSAY_CCACHE ccache)
if(ASSAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # By default ccache does not cache files that were compiled with precompiled headers; this setting allows it.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${ASSAY_CCACHE})
endif()

# Most of a file's compile time is headers and the templates that several files use: those of JSON, fmt, GoogleTest,
# oneDNN, the standard library, and our own. So a library is one unit, with precompiled headers. OFF: each file is
# compiled separately with only its own includes, which finds missing includes, and is quick where one file changes.
set(ASSAY_UNITY 40 CACHE STRING "Files of a library to compile together, with precompiled headers; OFF: each by itself")

# assay_set_up_folder(variable name): where scripts/setup puts what is called `name`: $ASSAY_<NAME>_ROOT if it is set,
# else ${XDG_DATA_HOME:-$HOME/.local/share}/assay/<name>.
function(assay_set_up_folder variable name)
  string(TOUPPER "ASSAY_${name}_ROOT" given)
  if(DEFINED ENV{${given}})
    set(folder $ENV{${given}})
  elseif(DEFINED ENV{XDG_DATA_HOME})
    set(folder $ENV{XDG_DATA_HOME}/assay/${name})
  else()
    set(folder $ENV{HOME}/.local/share/assay/${name})
  endif()
  set(${variable} ${folder} PARENT_SCOPE)
endfunction()

# assay_environments(variable): the folder of the environments of frameworks: $ASSAY_ENVIRONMENTS if it is set, else where
# scripts/setup puts it.
function(assay_environments variable)
  if(DEFINED ENV{ASSAY_ENVIRONMENTS})
    set(folder $ENV{ASSAY_ENVIRONMENTS})
  else()
    assay_set_up_folder(folder environments)
  endif()
  set(${variable} ${folder} PARENT_SCOPE)
endfunction()

function(assay_compile_together target)
  if(ASSAY_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ASSAY_UNITY})
  endif()
endfunction()

# assay_precompile(name HEADERS... LINK...): headers for assay_use_precompiled(target name), whose target is compiled
# with the same options. Only with g++, for which it was measured.
function(assay_precompile name)
  cmake_parse_arguments(arg "" "" "HEADERS;LINK" ${ARGN})
  if(ASSAY_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    file(CONFIGURE OUTPUT ${name}.cpp CONTENT "")
    add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
    target_link_libraries(${name} PRIVATE assay::build ${arg_LINK})
    target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
  endif()
endfunction()
function(assay_use_precompiled target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# assay_include_root(target scope folder): lets `target`, and with the scope PUBLIC or INTERFACE also its users, include the
# headers of `folder` (from the source root) by their path from the source root. Each folder has its own
# include root with nothing else in it, so a header of a library that is not linked is not found.
function(assay_include_root target scope folder)
  string(REPLACE / _ name ${folder})
  set(root ${PROJECT_BINARY_DIR}/include/${name})
  cmake_path(GET folder PARENT_PATH parent)
  file(MAKE_DIRECTORY ${root}/${parent})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${root}/${folder} SYMBOLIC)
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${root}>" "$<INSTALL_INTERFACE:include/assay>")
endfunction()

# assay_library(name [APART] [COLD] [HOT] [FOLDER folder] [PRECOMPILED headers] SOURCES... LINK... PRIVATE...): one static
# library for each folder. FOLDER: the folder of its headers (default: this one). APART: never a unity build. COLD: code that
# is not measured and computes little, such as messages and tables; a release compiles it with -O1. HOT: code in which tests
# spend their time; a build with -O1 compiles it with -O2, without precompiled headers. PRECOMPILED: the name of its precompiled
# headers (default: those of all libraries), or `none` if its options differ from theirs.
function(assay_library name)
  cmake_parse_arguments(arg "APART;COLD;HOT" "FOLDER;PRECOMPILED" "SOURCES;LINK;PRIVATE" ${ARGN})
  if(NOT arg_FOLDER)
    file(RELATIVE_PATH arg_FOLDER ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  add_library(assay_${name} STATIC ${arg_SOURCES})
  add_library(assay::${name} ALIAS assay_${name})
  assay_include_root(assay_${name} PUBLIC ${arg_FOLDER})
  target_link_libraries(assay_${name} PUBLIC assay::build ${arg_LINK} PRIVATE ${arg_PRIVATE})
  if(NOT arg_APART)
    assay_compile_together(assay_${name})
  endif()
  if(arg_COLD)
    target_link_libraries(assay_${name} PRIVATE $<BUILD_INTERFACE:assay_cold>)
    set(arg_PRECOMPILED cold_headers)
  elseif(arg_HOT AND CMAKE_CXX_FLAGS MATCHES "-O1")
    target_link_libraries(assay_${name} PRIVATE $<BUILD_INTERFACE:assay_hot>)
    set(arg_PRECOMPILED none)
  elseif(NOT arg_PRECOMPILED)
    set(arg_PRECOMPILED library_headers)
  endif()
  assay_use_precompiled(assay_${name} ${arg_PRECOMPILED})
endfunction()
