#include "backends/onednn/primitives/composition.hpp"

#include <cstring>

namespace assay::onednn {
namespace {

using dnnl::algorithm;

class CompositeKernel final : public Kernel {
 public:
  explicit CompositeKernel(std::vector<std::unique_ptr<Kernel>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      if (!implementation_.empty()) implementation_ += " + ";
      implementation_ += part->implementation().empty() ? "own" : part->implementation();
    }
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    for (const auto& part : parts_) part->bind(inputs, outputs, scratch);
  }
  void run() override {
    for (const auto& part : parts_) part->run();
  }
  std::string_view implementation() const override { return implementation_; }

 private:
  std::vector<std::unique_ptr<Kernel>> parts_;
  std::string implementation_;
};

}  // namespace

Term Term::as(const Desc& other) const {
  Term term = *this;
  term.desc = other;
  return term;
}

Term Composition::input(std::size_t i, const Desc& desc, std::int64_t offset) {
  return {Term::Place::input, i, offset, desc, {}};
}

Term Composition::output(std::size_t o, const Desc& desc, std::int64_t offset) {
  return {Term::Place::output, o, offset, desc, {}};
}

Term Composition::temporary(const Desc& desc) {
  const Term term{Term::Place::scratch, 0, scratch_bytes_, desc, {}};
  const auto bytes = static_cast<std::int64_t>(desc.get_size());
  scratch_bytes_ += aligned(bytes);
  return term;
}

Term Composition::zeros(const Desc& desc) const {
  Term term{Term::Place::constant, 0, 0, desc, ASSAY_ONEDNN(dnnl::memory(desc, engine()))};
  std::memset(term.memory.get_data_handle(), 0, desc.get_size());
  return term;
}

Term Composition::constant(float value, const Desc& one) const {
  const Term term = zeros(one);
  *static_cast<float*>(term.memory.get_data_handle()) = value;
  return term;
}

void Composition::eltwise(algorithm kind, const Term& from, const Term& to, float alpha, float beta) {
  const auto chosen = ASSAY_ONEDNN(dnnl::eltwise_forward::primitive_desc(
      engine(), dnnl::prop_kind::forward_inference, kind, from.desc, to.desc, alpha, beta, attributes()));
  run<dnnl::eltwise_forward>(chosen, {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
}

void Composition::binary(algorithm kind, const Term& a, const Term& b, const Term& to) {
  const auto chosen =
      ASSAY_ONEDNN(dnnl::binary::primitive_desc(engine(), kind, a.desc, b.desc, to.desc, attributes()));
  run<dnnl::binary>(chosen, {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, to}});
}

// Uses binary with scaled operands: the primitive named sum has no vectorised implementation in f32.
void Composition::sum(float scale_of_a, const Term& a, float scale_of_b, const Term& b, const Term& to) {
  dnnl::primitive_attr scaled = attributes();
  scaled.set_scales_mask(DNNL_ARG_SRC_0, 0);
  scaled.set_scales_mask(DNNL_ARG_SRC_1, 0);
  const auto chosen = ASSAY_ONEDNN(
      dnnl::binary::primitive_desc(engine(), algorithm::binary_add, a.desc, b.desc, to.desc, scaled));
  const Desc one = row_major({DType::f32, {1}});
  run<dnnl::binary>(chosen, {{DNNL_ARG_SRC_0, a},
                             {DNNL_ARG_SRC_1, b},
                             {DNNL_ARG_DST, to},
                             {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC_0, constant(scale_of_a, one)},
                             {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC_1, constant(scale_of_b, one)}});
}

void Composition::reduce(algorithm kind, const Term& from, const Term& to) {
  if (from.desc.get_dims() == to.desc.get_dims()) return reorder(from, to);  // reduction must change one
  const auto chosen = ASSAY_ONEDNN(
      dnnl::reduction::primitive_desc(engine(), kind, from.desc, to.desc, 0.0F, 0.0F, attributes()));
  run<dnnl::reduction>(chosen, {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
}

void Composition::reorder(const Term& from, const Term& to) {
  const auto chosen =
      ASSAY_ONEDNN(dnnl::reorder::primitive_desc(engine(), from.desc, engine(), to.desc, attributes()));
  run<dnnl::reorder>(chosen, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Composition::repeat(const Term& from, const Term& to) {
  const dnnl::memory::dims whole = to.desc.get_dims(), part = from.desc.get_dims();
  dnnl::memory::dims strides = from.desc.get_strides();
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (part[d] != whole[d]) strides[d] = 0;
  }
  reorder(from.as({whole, from.desc.get_data_type(), strides}), to);
}

void Composition::fill(float value, const Term& to) {
  const Shape one(static_cast<std::size_t>(to.desc.get_ndims()), 1);
  repeat(constant(value, row_major({DType::f32, one})), to);
}

Term Composition::widened(const Term& term) {
  if (term.desc.get_data_type() == dnnl::memory::data_type::f32) return term;
  const Term wide = temporary(row_major({DType::f32, Shape(term.desc.get_dims())}));
  reorder(term, wide);
  return wide;
}

void Composition::add(dnnl::primitive primitive, const Desc& scratchpad,
                      const std::vector<std::pair<int, Term>>& arguments) {
  auto kernel = std::make_unique<PrimitiveKernel>(request_.context, std::move(primitive));
  for (const auto& [argument, term] : arguments) {
    switch (term.place) {
      case Term::Place::input:
        kernel->input(argument, term.desc, term.index, term.offset);
        break;
      case Term::Place::output:
        kernel->output(argument, term.desc, term.index, term.offset);
        break;
      case Term::Place::scratch:
        kernel->scratch(argument, term.desc, term.offset);
        break;
      case Term::Place::constant:
        kernel->constant(argument, term.desc, term.memory);
        break;
    }
  }
  if (scratchpad.get_size() > 0) {
    const Term room = temporary(scratchpad);
    kernel->scratch(DNNL_ARG_SCRATCHPAD, room.desc, room.offset);
  }
  parts_.push_back(std::move(kernel));
}

void Composition::finish(Lowered& lowered) {
  lowered.scratch_bytes = scratch_bytes_;
  if (parts_.size() == 1) {
    lowered.kernel = std::move(parts_.front());
  } else {
    lowered.kernel = std::make_unique<CompositeKernel>(std::move(parts_));
  }
}

Desc with_ones(const TensorType& type, std::span<const std::int64_t> axes) {
  Shape shape = type.shape;
  for (const std::int64_t axis : axes) shape[static_cast<std::size_t>(axis)] = 1;
  return row_major({type.dtype, shape});
}

}  // namespace assay::onednn
