// A node computed by several oneDNN primitives, one after another, with intermediate values.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn {

// A value of a composition: its place and its layout.
struct Term {
  enum class Place : std::uint8_t { input, output, scratch, constant };

  Place place = Place::scratch;
  std::size_t index = 0;    // of the operand or result
  std::int64_t offset = 0;  // in bytes
  Desc desc;
  dnnl::memory memory;  // of a constant

  // The same bytes, seen as `other`.
  Term as(const Desc& other) const;
};

// The primitives run in the order of the calls. Made for one lowering; borrows the request. Throws
// Unsupported if oneDNN has no implementation.
class Composition {
 public:
  explicit Composition(const Request& request) : request_(request) {}

  static Term input(std::size_t i, const Desc& desc, std::int64_t offset = 0);
  static Term output(std::size_t o, const Desc& desc, std::int64_t offset = 0);
  // A part of the node's scratch.
  Term temporary(const Desc& desc);
  // A constant, made now and read by each step.
  Term zeros(const Desc& desc) const;
  // A constant of one element.
  Term constant(float value, const Desc& one) const;

  void eltwise(dnnl::algorithm kind, const Term& from, const Term& to, float alpha = 0, float beta = 0);
  // b has the dimensions of a, or 1 instead.
  void binary(dnnl::algorithm kind, const Term& a, const Term& b, const Term& to);
  // to = scale a + scale b. `to` may be a.
  void sum(float scale_of_a, const Term& a, float scale_of_b, const Term& b, const Term& to);
  // `to` has 1 instead of the reduced dimensions.
  void reduce(dnnl::algorithm kind, const Term& from, const Term& to);
  // Converts, reorders or copies.
  void reorder(const Term& from, const Term& to);
  // Like reorder, but dimensions of `to` for which `from` has 1 are repeated. `from` is row-major.
  void repeat(const Term& from, const Term& to);
  void fill(float value, const Term& to);
  // The term itself if it is f32, else an f32 copy.
  Term widened(const Term& term);

  template <typename Primitive>
  void run(const typename Primitive::primitive_desc& chosen,
           std::initializer_list<std::pair<int, Term>> arguments) {
    add(ASSAY_ONEDNN(Primitive(chosen)), chosen.scratchpad_desc(), {arguments.begin(), arguments.end()});
  }
  template <typename Primitive>
  void run(const typename Primitive::primitive_desc& chosen,
           const std::vector<std::pair<int, Term>>& arguments) {
    add(ASSAY_ONEDNN(Primitive(chosen)), chosen.scratchpad_desc(), arguments);
  }
  // A part for which oneDNN has no primitive: bound like the node's kernel.
  void run(std::unique_ptr<Kernel> part) { parts_.push_back(std::move(part)); }

  dnnl::engine& engine() const { return request_.context.engine; }
  // Moves the kernel and its scratch to the lowering.
  void finish(Lowered& lowered);

 private:
  void add(dnnl::primitive primitive, const Desc& scratchpad,
           const std::vector<std::pair<int, Term>>& arguments);

  const Request& request_;
  std::int64_t scratch_bytes_ = 0;
  std::vector<std::unique_ptr<Kernel>> parts_;
};

// `shape` with 1 instead of each of `axes`, row-major.
Desc with_ones(const TensorType& type, std::span<const std::int64_t> axes);

}  // namespace assay::onednn
