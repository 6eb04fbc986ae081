# Makes the completion and, with help2man, the manual pages in the folder `share`, from what `program` prints.
file(REMOVE_RECURSE "${share}")
file(MAKE_DIRECTORY "${share}/bash-completion/completions" "${share}/man/man1")
execute_process(COMMAND "${program}" completion bash
  OUTPUT_FILE "${share}/bash-completion/completions/assay" COMMAND_ERROR_IS_FATAL ANY)
if(NOT help2man)
  message(STATUS "No manual pages are installed: help2man is missing (scripts/setup installs it)")
  return()
endif()

execute_process(COMMAND "${program}" __complete OUTPUT_VARIABLE commands COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" commands "${commands}")
cmake_path(GET program PARENT_PATH folder)
foreach(command IN LISTS commands ITEMS "")
  set(summary "compare deep-learning backends on the same network")
  if(NOT command STREQUAL "")
    execute_process(COMMAND "${program}" ${command} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "^[^\n]+" summary "${help}")
  endif()
  string(JOIN "-" page assay ${command})
  execute_process(COMMAND "${help2man}" --no-info "--name=${summary}" "--version-string=${page} ${version}" "./assay ${command}"
    WORKING_DIRECTORY "${folder}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ".SH EXAMPLES\n.IP\n" ".SH EXAMPLES\n.nf\n" text "${text}")  # each on a line of its own
  file(WRITE "${share}/man/man1/${page}.1" "${text}")
endforeach()
