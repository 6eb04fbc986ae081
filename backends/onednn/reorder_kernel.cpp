#include "backends/onednn/reorder_kernel.hpp"

namespace assay::onednn {
namespace {

std::unique_ptr<PrimitiveKernel> pass(Context& context, const Desc& from, const Desc& to) {
  // The library owns this scratchpad: a reorder made by the executor has no scratch.
  const auto chosen = ASSAY_ONEDNN(
      dnnl::reorder::primitive_desc(context.engine, from, context.engine, to, dnnl::primitive_attr()));
  auto kernel = std::make_unique<PrimitiveKernel>(context, ASSAY_ONEDNN(dnnl::reorder(chosen)));
  kernel->input(DNNL_ARG_FROM, from, 0).output(DNNL_ARG_TO, to, 0);
  return kernel;
}

class ChainKernel final : public Kernel {
 public:
  void add(std::unique_ptr<PrimitiveKernel> pass, const Desc& result, Context& context) {
    passes_.push_back(std::move(pass));
    between_.push_back(ASSAY_ONEDNN(dnnl::memory(result, context.engine)));
  }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    void* from = inputs[0];
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      void* to = i + 1 == passes_.size() ? outputs[0] : between_[i].get_data_handle();
      passes_[i]->bind({&from, 1}, {&to, 1}, nullptr);
      from = to;
    }
  }

  void run() override {
    for (const auto& pass : passes_) pass->run();
  }

 private:
  std::vector<std::unique_ptr<PrimitiveKernel>> passes_;
  std::vector<dnnl::memory> between_;
};

// The matrix (N, C*H*W), seen as images.
TensorType unflattened(const TensorType& type, const Image& image) {
  return {type.dtype, {type.shape[0], image.channels, image.height, image.width}};
}

}  // namespace

std::unique_ptr<Kernel> make_reorder(Context& context, const TensorType& type, const Layout& from,
                                     const Layout& to) {
  if (from.image == to.image) return pass(context, like(from.desc, to.desc), like(to.desc, from.desc));
  const Desc matrix = row_major(type);
  auto chain = std::make_unique<ChainKernel>();
  chain->add(pass(context, from.desc, matrix), matrix, context);
  if (from.image.permuted()) {
    const TensorType images = unflattened(type, from.image);
    chain->add(pass(context, with_tag(images, from.image.tag), row_major(images)), matrix, context);
  }
  if (to.image.permuted()) {
    const TensorType images = unflattened(type, to.image);
    chain->add(pass(context, row_major(images), with_tag(images, to.image.tag)), matrix, context);
  }
  chain->add(pass(context, matrix, to.desc), matrix, context);
  return chain;
}

}  // namespace assay::onednn
