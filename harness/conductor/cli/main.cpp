#include "harness/conductor/cli/application.hpp"
#include "harness/launch/child.hpp"

int main(int argc, char** argv) {
  assay::undo_inherited_signals();
  try {
    return assay::cli::run_application(argc, argv);
  } catch (...) {
    return assay::cli::explain_exception();
  }
}
