# Run with cmake -P at each build: writes build_info.cpp again only if the commit or the dirty flag changed.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE ASSAY_COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
set(ASSAY_DIRTY false)
if(failed)
  set(ASSAY_COMMIT "")
else()
  execute_process(COMMAND git -C ${SOURCE} diff --quiet HEAD RESULT_VARIABLE changed ERROR_QUIET)
  # The build finds new files of these folders, too.
  execute_process(COMMAND git -C ${SOURCE} ls-files --others --exclude-standard harness backends workloads
                  OUTPUT_VARIABLE added ERROR_QUIET)
  if(changed OR NOT added STREQUAL "")
    set(ASSAY_DIRTY true)
  endif()
endif()
configure_file(${SOURCE}/harness/conductor/backends/build_info.cpp.in ${OUTPUT} @ONLY)
