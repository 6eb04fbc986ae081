// Small kernels that one launch does together with their neighbours in the list.
#pragma once

#include <memory>
#include <vector>

#include "harness/engine/kernel_library.hpp"

namespace assay::cuda {

class Joinable : public Kernel {
 public:
  // Whether one launch can do the work of both. Both are bound as for the recording; a kernel that reads the batch is not
  // bound then, and joins none.
  virtual bool joins(const Joinable& other) const = 0;
  // A kernel that does the work of all of them, of which each joins the first. Borrows them.
  virtual std::unique_ptr<Kernel> join(const std::vector<const Joinable*>& all) const = 0;
};

// Replaces neighbours in the list that join, and of which none waits for another one, by one kernel in `owned`.
void join_neighbours(std::vector<Scheduled>& kernels, std::vector<std::unique_ptr<Kernel>>& owned);

}  // namespace assay::cuda
