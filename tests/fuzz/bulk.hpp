// Many inputs without a fuzzer: changes of the files of the corpora, at random but the same for the same seed. For any
// compiler and build. It knows nothing of coverage: scripts/lab/fuzz finds the files that reach new code.
#pragma once

#include <span>

namespace assay::fuzz {

// The words of the command line:
//
//   fuzz_bulk [--inputs N | --seconds S] [--seed N] [--from N] [--corpus FOLDER]... [TARGET...]
//
// N inputs or S seconds for each target (default: 2,000 inputs of each target), from input number --from on. The folder
// of a further corpus has a folder per target. Prints a table. An input that breaks a target is a finding, which is printed
// with the command that repeats it; after five the next target begins. A crash prints that command, too, and ends the
// program. Returns 1 after findings. Throws std::invalid_argument for other words.
int run_bulk(std::span<char* const> words);

}  // namespace assay::fuzz
