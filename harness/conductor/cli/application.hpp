// The command line: parses it and does what it says.
#pragma once

namespace assay::cli {

// Returns the exit code. Throws what the command throws; explain() turns that into a line and a code.
int run_application(int argc, char** argv);

// Called within a catch block: writes one line to stderr and returns the exit code that fits the exception in
// hand.
int explain_exception() noexcept;

}  // namespace assay::cli
