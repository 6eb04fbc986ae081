// MPI, from a module that is loaded only for cells of several ranks: other cells run where MPI is missing, and do not
// pay for it.
#pragma once

#include <memory>
#include <stdexcept>

#include "backends/collectives/communicator.hpp"

namespace assay::collectives {

// MPI or its module is missing here. The text has the remedy.
class NoMpi : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Joins the world of the process that a launcher such as mpirun started as this rank. Once in a process. The destructor
// ends MPI; if the other ranks do not end it within seconds, it aborts all of them. Throws NoMpi, or
// std::runtime_error if MPI knows another rank or another number of ranks.
std::shared_ptr<Communicator> join_mpi(int rank, int world);

}  // namespace assay::collectives
