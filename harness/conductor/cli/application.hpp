// The command line: parses it and runs the chosen command.
#pragma once

namespace assay::cli {

// Returns the exit code. Throws what the command throws; explain_exception() turns it into a message and an
// exit code.
int run_application(int argc, char** argv);

// Call it within a catch block: writes one line about the current exception to stderr and returns its exit
// code.
int explain_exception() noexcept;

}  // namespace assay::cli
