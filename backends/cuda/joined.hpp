// Small kernels that one launch does together with their neighbours in the list.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "harness/engine/kernel_library.hpp"

namespace assay::cuda {

class Joinable : public Kernel {
 public:
  // Whether one launch can do the work of both. Both are bound as for the recording; a kernel that reads the batch is not
  // bound then, and joins none.
  virtual bool joins(const Joinable& other) const = 0;
  // A kernel that does the work of all of them. Each joins the first. Borrows them.
  virtual std::unique_ptr<Kernel> join(const std::vector<const Joinable*>& all) const = 0;
};

// The kernel of several Ones: One::run_all() of the first.
template <typename One>
class Joined final : public Kernel {
 public:
  explicit Joined(const std::vector<const Joinable*>& all) {
    for (const Joinable* one : all) all_.push_back(dynamic_cast<const One*>(one));
  }
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}  // its parts are bound
  std::string_view implementation() const override { return "own:multi_tensor"; }
  void run() override { all_.front()->run_all(all_); }

 private:
  std::vector<const One*> all_;
};

// A Joinable of class One, which has joins_one() and run_all(), both of its own class.
template <typename One>
class JoinableAs : public Joinable {
 public:
  void run() final {
    const One* const self = static_cast<const One*>(this);
    self->run_all({&self, 1});
  }
  bool joins(const Joinable& other) const final {
    const auto* const one = dynamic_cast<const One*>(&other);
    return one != nullptr && static_cast<const One*>(this)->joins_one(*one);
  }
  std::unique_ptr<Kernel> join(const std::vector<const Joinable*>& all) const final {
    return std::make_unique<Joined<One>>(all);
  }
};

// Replaces neighbours in the list that join and do not wait for one another by one kernel in `owned`.
void join_neighbours(std::vector<Scheduled>& kernels, std::vector<std::unique_ptr<Kernel>>& owned);

}  // namespace assay::cuda
