#include "harness/conductor/cli/application.hpp"

int main(int argc, char** argv) {
  try {
    return assay::cli::run_application(argc, argv);
  } catch (...) {
    return assay::cli::explain_exception();
  }
}
