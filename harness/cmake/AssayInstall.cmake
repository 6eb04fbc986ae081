# Installs the program and its workers, and exports the libraries for workers outside of this tree:
#   find_package(assay REQUIRED)
#   target_link_libraries(my-worker PRIVATE assay::worker)
# Always lib/, whatever the distribution uses: a worker finds the batch library by its relative path.
# Two components: `program` is what runs, and `development` what a worker outside of this tree is built from.
include(CMakePackageConfigHelpers)

foreach(name build core graph protocol exam batch worker)
  if(TARGET assay_${name})
    set_target_properties(assay_${name} PROPERTIES EXPORT_NAME ${name})
    install(TARGETS assay_${name} EXPORT assay-targets
      LIBRARY DESTINATION lib COMPONENT program ARCHIVE DESTINATION lib COMPONENT development)
  endif()
endforeach()
# What a worker includes, and what these headers include; tests/install/consumer.sh holds that no other is installed.
foreach(header batch/c_api.h core/domain.hpp core/error.hpp core/json/fields.hpp core/json/reported.hpp core/json/type.hpp core/tensor.hpp core/words.hpp
    graph/attributes.hpp graph/graph.hpp graph/op.hpp graph/passes/all_reduce.hpp graph/passes/precision.hpp graph/program.hpp
    protocol/message.hpp worker/backend.hpp)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES harness/${header} DESTINATION include/assay/harness/${folder} COMPONENT development)
endforeach()
install(EXPORT assay-targets NAMESPACE assay:: DESTINATION lib/cmake/assay COMPONENT development)
configure_package_config_file(harness/cmake/assay-config.cmake.in assay-config.cmake
  INSTALL_DESTINATION lib/cmake/assay)
write_basic_package_version_file(assay-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/assay-config.cmake ${PROJECT_BINARY_DIR}/assay-config-version.cmake
  DESTINATION lib/cmake/assay COMPONENT development)

install(DIRECTORY backends/python DESTINATION libexec/assay/backends COMPONENT program PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE DESTINATION share/doc/assay COMPONENT program)
if(ASSAY_CONDUCTOR)
  install(TARGETS assay RUNTIME DESTINATION bin COMPONENT program)
  install(DIRECTORY configs DESTINATION share/assay COMPONENT program OPTIONAL)
  install(DIRECTORY results/schema DESTINATION share/assay COMPONENT program)

  # Manual pages and completion are made from what the program prints, when it is installed.
  find_program(ASSAY_HELP2MAN help2man)
  set(share ${PROJECT_BINARY_DIR}/share)
  install(CODE "
    set(program \"$<TARGET_FILE:assay>\")
    set(version ${PROJECT_VERSION})
    set(share \"${share}\")
    set(help2man \"${ASSAY_HELP2MAN}\")
    include(\"${CMAKE_CURRENT_LIST_DIR}/make_share.cmake\")
  " COMPONENT program)
  install(DIRECTORY ${share}/ DESTINATION share COMPONENT program)
endif()
