# Installs the program and its workers, and exports the libraries for workers outside of this tree:
#   find_package(assay REQUIRED)
#   target_link_libraries(my-worker PRIVATE assay::worker)
# Always lib/, whatever the distribution uses: a worker finds the batch library by its relative path.
include(CMakePackageConfigHelpers)

set(exported build core graph protocol batch worker engine)
foreach(name IN LISTS exported)
  if(TARGET assay_${name})
    set_target_properties(assay_${name} PROPERTIES EXPORT_NAME ${name})
    install(TARGETS assay_${name} EXPORT assay-targets LIBRARY DESTINATION lib ARCHIVE DESTINATION lib)
  endif()
  if(NOT name STREQUAL build)
    install(DIRECTORY harness/${name} DESTINATION include/assay/harness
      FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
  endif()
endforeach()
install(EXPORT assay-targets NAMESPACE assay:: DESTINATION lib/cmake/assay)
configure_package_config_file(harness/cmake/assay-config.cmake.in assay-config.cmake
  INSTALL_DESTINATION lib/cmake/assay)
write_basic_package_version_file(assay-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/assay-config.cmake ${PROJECT_BINARY_DIR}/assay-config-version.cmake
  DESTINATION lib/cmake/assay)

install(DIRECTORY backends/python DESTINATION libexec/assay/backends PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE DESTINATION share/doc/assay)
if(ASSAY_CONDUCTOR)
  install(TARGETS assay RUNTIME DESTINATION bin)
  install(DIRECTORY configs DESTINATION share/assay OPTIONAL)
  install(DIRECTORY results/schema DESTINATION share/assay)

  # The program prints its own manual pages and completions, so they are made when it is installed.
  set(share ${PROJECT_BINARY_DIR}/share)
  install(CODE "
    file(REMOVE_RECURSE \"${share}\")
    execute_process(COMMAND \"$<TARGET_FILE:assay>\" man --folder \"${share}/man/man1\" COMMAND_ERROR_IS_FATAL ANY)
    foreach(place bash:bash-completion/completions/assay zsh:zsh/site-functions/_assay fish:fish/vendor_completions.d/assay.fish)
      string(REGEX MATCH \"([a-z]+):(.*)\" matched \"\${place}\")
      get_filename_component(folder \"${share}/\${CMAKE_MATCH_2}\" DIRECTORY)
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \"$<TARGET_FILE:assay>\" completion \${CMAKE_MATCH_1}
        OUTPUT_FILE \"${share}/\${CMAKE_MATCH_2}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
  ")
  install(DIRECTORY ${share}/ DESTINATION share)
endif()
