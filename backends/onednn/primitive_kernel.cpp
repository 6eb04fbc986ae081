#include "backends/onednn/primitive_kernel.hpp"

namespace assay::onednn {

PrimitiveKernel::PrimitiveKernel(Context& context, dnnl::primitive primitive)
    : context_(context), primitive_(std::move(primitive)) {
  const_dnnl_primitive_desc_t made_from = nullptr;
  const char* name = nullptr;
  ASSAY_ONEDNN_C(dnnl_primitive_get_primitive_desc(primitive_.get(), &made_from));
  ASSAY_ONEDNN_C(dnnl_primitive_desc_query(made_from, dnnl_query_impl_info_str, 0, &name));
  if (name != nullptr) implementation_ = name;
}

PrimitiveKernel& PrimitiveKernel::input(int argument, const Desc& desc, std::size_t index) {
  return add(argument, desc, Place::input, index);
}

PrimitiveKernel& PrimitiveKernel::output(int argument, const Desc& desc, std::size_t index) {
  return add(argument, desc, Place::output, index);
}

PrimitiveKernel& PrimitiveKernel::scratch(int argument, const Desc& desc, std::int64_t offset) {
  return add(argument, desc, Place::scratch, static_cast<std::size_t>(offset));
}

PrimitiveKernel& PrimitiveKernel::add(int argument, const Desc& desc, Place place, std::size_t offset) {
  if (desc.get_size() == 0) return *this;
  arguments_.push_back({place, offset, ASSAY_ONEDNN(dnnl::memory(desc, context_.engine, DNNL_MEMORY_NONE))});
  call_.push_back({argument, arguments_.back().memory.get()});
  return *this;
}

void PrimitiveKernel::bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) {
  for (Argument& argument : arguments_) {
    void* data = nullptr;
    switch (argument.place) {
      case Place::input:
        data = inputs[argument.offset];
        break;
      case Place::output:
        data = outputs[argument.offset];
        break;
      case Place::scratch:
        data = static_cast<char*>(scratch) + argument.offset;
        break;
    }
    ASSAY_ONEDNN_C(dnnl_memory_set_data_handle(argument.memory.get(), data));
  }
}

void PrimitiveKernel::run() {
  ASSAY_ONEDNN_C(dnnl_primitive_execute(primitive_.get(), context_.stream.get(),
                                        static_cast<int>(call_.size()), call_.data()));
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attr = attributes();
  if (relu) {
    dnnl::post_ops after;
    after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    attr.set_post_ops(after);
  }
  return attr;
}

}  // namespace assay::onednn
