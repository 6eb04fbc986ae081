// The other processes with which this one trains a model: what a library such as MPI gives.
#pragma once

#include <cstdint>
#include <string>

namespace assay::collectives {

// All ranks call the same functions in the same order. Used by one thread at a time, except abort(). Functions throw
// std::runtime_error if another rank fails, or wait for it forever.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual std::string library() const = 0;  // "Open MPI v4.1.4"

  // Replaces the values by their sums over all ranks, with the same bits on each.
  virtual void sum(float* values, std::int64_t count) = 0;
  // Rank 0's value, once all ranks have called it.
  virtual std::int64_t first(std::int64_t value) = 0;
  // Ends all ranks, because this one can neither go on nor end in order. From any thread.
  [[noreturn]] virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace assay::collectives
