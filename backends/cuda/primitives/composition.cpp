#include "backends/cuda/primitives/composition.hpp"

#include "backends/cuda/workspace.hpp"

namespace assay::cuda {
namespace {

template <typename Product>
Call made_of(std::shared_ptr<Product> product) {
  std::string name = product->name();
  const std::int64_t workspace_bytes = product->workspace_bytes();
  return {std::move(name),
          [product = std::move(product)](Places from, Places to, void* workspace) {
            const float* bias = from.size() > 2 ? static_cast<const float*>(from[2]) : nullptr;
            product->run(from[0], from[1], bias, to[0], workspace);
          },
          workspace_bytes};
}

}  // namespace

Call call_of(std::shared_ptr<Matmul> product) { return made_of(std::move(product)); }

Call call_of(std::shared_ptr<Convolution> product) { return made_of(std::move(product)); }

class Composition::CompositeKernel final : public Kernel {
 public:
  explicit CompositeKernel(std::vector<Part> parts) {
    for (Part& part : parts) {
      if (!implementation_.empty()) implementation_ += " + ";
      implementation_ += part.call.name;
      bound_.push_back({std::move(part), {}, {}, nullptr});
    }
  }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    const auto at = [&](const Term& term) -> void* {
      void* base = scratch;
      if (term.place == Term::Place::input) base = inputs[term.index];
      if (term.place == Term::Place::output) base = outputs[term.index];
      return static_cast<std::byte*>(base) + term.offset;
    };
    for (Bound& bound : bound_) {
      bound.from.clear();
      bound.to.clear();
      for (const Term& term : bound.part.from) bound.from.push_back(at(term));
      for (const Term& term : bound.part.to) bound.to.push_back(at(term));
      bound.workspace = static_cast<std::byte*>(scratch) + bound.part.workspace;
      check_workspace(bound.part.call.name.c_str(), bound.workspace, bound.part.call.workspace_bytes);
    }
  }
  void run() override {
    for (const Bound& bound : bound_) bound.part.call.run(bound.from, bound.to, bound.workspace);
  }
  std::string_view implementation() const override { return implementation_; }

 private:
  struct Bound {
    Part part;
    std::vector<void*> from, to;
    void* workspace = nullptr;
  };
  std::vector<Bound> bound_;
  std::string implementation_;
};

Term Composition::temporary(TensorSpec spec) {
  const std::int64_t bytes = element_count(spec.shape) * size_of(spec.dtype);
  return {Term::Place::scratch, 0, scratch_.add(bytes), std::move(spec)};
}

void Composition::run(Call call, std::vector<Term> from, std::vector<Term> to) {
  const std::int64_t workspace = scratch_.add(call.workspace_bytes);
  parts_.push_back({std::move(call), std::move(from), std::move(to), workspace});
}

void Composition::binary(Binary kind, float scale_a, const Term& a, float scale_b, const Term& b,
                         const Term& to) {
  run(calls_.binary(kind, scale_a, a.spec, scale_b, b.spec, to.spec), {a, b}, {to});
}

void Composition::reduce(Reduction kind, const Term& x, const Term& to) {
  if (x.spec.shape == to.spec.shape) return convert(x, to);
  run(calls_.reduce(kind, x.spec, to.spec), {x}, {to});
}

// The library converts what it computes: the larger of x and x is x, a NaN included.
void Composition::convert(const Term& x, const Term& to) {
  if (x.spec.dtype != to.spec.dtype) return binary(Binary::maximum, 1, x, 1, x, to);
  const std::int64_t bytes = element_count(x.spec.shape) * size_of(x.spec.dtype);
  run(calls_.copy({1, bytes, bytes, bytes}), {x}, {to});
}

Term Composition::widened(const Term& term) {
  if (term.spec.dtype == DType::f32) return term;
  const Term wide = temporary({DType::f32, term.spec.shape, term.spec.strides});
  convert(term, wide);
  return wide;
}

void Composition::finish(Lowered& lowered) {
  lowered.scratch_bytes = scratch_.bytes();
  lowered.kernel = std::make_unique<CompositeKernel>(std::move(parts_));
}

}  // namespace assay::cuda
