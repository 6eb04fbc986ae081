# A folder with a backend.json in backends/ is registered automatically. A folder that needs a build also has a
# CMakeLists.txt; a folder without one is linked into the build folder unchanged. ASSAY_BACKEND_<NAME>=AUTO|ON|OFF
# selects a backend; AUTO leaves out a backend that cannot be built, and prints the reason.
function(assay_backends)
  file(GLOB folders CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/backend.json)
  foreach(description IN LISTS folders)
    cmake_path(GET description PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    string(TOUPPER ${name} upper)
    set(ASSAY_BACKEND_${upper} AUTO CACHE STRING "Build the backend ${name}: AUTO, ON or OFF")
    set_property(CACHE ASSAY_BACKEND_${upper} PROPERTY STRINGS AUTO ON OFF)
    if(ASSAY_BACKEND_${upper} STREQUAL OFF)
      message(STATUS "backend ${name}: off")
    elseif(EXISTS ${folder}/CMakeLists.txt)
      add_subdirectory(${folder})
    else()
      file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/backends)
      file(CREATE_LINK ${folder} ${PROJECT_BINARY_DIR}/backends/${name} SYMBOLIC)
      install(DIRECTORY ${folder} DESTINATION libexec/assay/backends PATTERN __pycache__ EXCLUDE)
    endif()
  endforeach()
endfunction()

# assay_backend_left_out(name reason): a backend's CMakeLists.txt calls it if the backend's library is missing.
function(assay_backend_left_out name reason)
  string(TOUPPER ${name} upper)
  if(ASSAY_BACKEND_${upper} STREQUAL ON)
    message(FATAL_ERROR "backend ${name}: ${reason}")
  endif()
  message(STATUS "backend ${name}: left out, ${reason}")
endfunction()

# assay_worker(name SOURCES... LINK...): the worker executable of a C++ backend, build/backends/<name>/assay-worker-<name>, with
# its backend.json next to it: the layout of an installation, so that ${here} in backend.json is the same in both.
function(assay_worker name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  set(target assay-worker-${name})
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE assay::build ${arg_LINK} assay::worker)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/backends/${name})
  configure_file(backend.json ${PROJECT_BINARY_DIR}/backends/${name}/backend.json COPYONLY)
  install(TARGETS ${target} RUNTIME DESTINATION libexec/assay/backends/${name})
  install(FILES backend.json DESTINATION libexec/assay/backends/${name})
endfunction()
