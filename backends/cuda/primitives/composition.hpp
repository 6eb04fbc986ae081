// A node computed by calls of the vendor's libraries, one after another, with values of its own between them.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/lowering.hpp"
#include "backends/cuda/primitives/calls.hpp"

namespace assay::cuda {

// A value of a composition: where it is, and how its elements lie there.
struct Term {
  enum class Place : std::uint8_t { input, output, scratch };

  Place place = Place::scratch;
  std::size_t index = 0;    // of the operand or result
  std::int64_t offset = 0;  // in bytes
  TensorSpec spec = {};
};

// a, b and, if the product has one, the bias -> c
Call call_of(std::shared_ptr<Matmul> product);
Call call_of(std::shared_ptr<Convolution> product);

// The calls run in the order in which they are added. Made for one lowering; borrows the request.
class Composition {
 public:
  explicit Composition(const Request& request) : calls_(request.context.device.calls()) {}

  static Term input(std::size_t i, TensorSpec spec, std::int64_t offset = 0) {
    return {Term::Place::input, i, offset, std::move(spec)};
  }
  static Term output(std::size_t o, TensorSpec spec, std::int64_t offset = 0) {
    return {Term::Place::output, o, offset, std::move(spec)};
  }
  // A dense part of the node's scratch.
  Term temporary(TensorSpec spec);

  void run(Call call, std::vector<Term> from, std::vector<Term> to);
  void binary(Binary kind, float scale_a, const Term& a, float scale_b, const Term& b, const Term& to);
  void reduce(Reduction kind, const Term& x, const Term& to);
  // To the type of `to`, or a copy. Both dense and in one layout.
  void convert(const Term& x, const Term& to);
  // The term itself if it is f32, else a copy that is, in the same strides.
  Term widened(const Term& term);

  Calls& calls() const { return calls_; }
  // Gives the kernel and its scratch to the lowering.
  void finish(Lowered& lowered);

 private:
  struct Part {
    Call call;
    std::vector<Term> from, to;
    std::int64_t workspace = 0;  // in the scratch
  };
  class CompositeKernel;

  Calls& calls_;
  Scratch scratch_;
  std::vector<Part> parts_;
};

}  // namespace assay::cuda
