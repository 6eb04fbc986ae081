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

PrimitiveKernel& PrimitiveKernel::input(int argument, const Desc& desc, std::size_t index,
                                        std::int64_t offset) {
  return add(argument, desc, Place::input, index, offset);
}

PrimitiveKernel& PrimitiveKernel::output(int argument, const Desc& desc, std::size_t index,
                                         std::int64_t offset) {
  return add(argument, desc, Place::output, index, offset);
}

PrimitiveKernel& PrimitiveKernel::scratch(int argument, const Desc& desc, std::int64_t offset) {
  return add(argument, desc, Place::scratch, 0, offset);
}

PrimitiveKernel& PrimitiveKernel::constant(int argument, const Desc& desc, dnnl::memory memory) {
  void* const data = memory.get_data_handle();
  arguments_.push_back({Place::constant, 0, 0, ASSAY_ONEDNN(dnnl::memory(desc, context_.engine, data))});
  call_.push_back({argument, arguments_.back().memory.get()});
  constants_.push_back(std::move(memory));
  return *this;
}

PrimitiveKernel& PrimitiveKernel::add(int argument, const Desc& desc, Place place, std::size_t index,
                                      std::int64_t offset) {
  if (desc.is_zero()) return *this;
  arguments_.push_back(
      {place, index, offset, ASSAY_ONEDNN(dnnl::memory(desc, context_.engine, DNNL_MEMORY_NONE))});
  call_.push_back({argument, arguments_.back().memory.get()});
  return *this;
}

void PrimitiveKernel::bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) {
  for (Argument& argument : arguments_) {
    void* data = nullptr;
    switch (argument.place) {
      case Place::input:
        data = inputs[argument.index];
        break;
      case Place::output:
        data = outputs[argument.index];
        break;
      case Place::scratch:
        data = scratch;
        break;
      case Place::constant:
        continue;
    }
    // An absent operand stays null.
    if (data != nullptr) data = static_cast<char*>(data) + argument.offset;
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

dnnl::primitive_attr attributes(bool relu) { return attributes(std::string_view(relu ? "relu" : "")); }

dnnl::primitive_attr attributes(std::string_view activation) {
  dnnl::primitive_attr attr = attributes();
  if (!activation.empty()) {
    const auto kind = activation == "gelu"        ? dnnl::algorithm::eltwise_gelu_erf
                      : activation == "gelu_tanh" ? dnnl::algorithm::eltwise_gelu_tanh
                                                  : dnnl::algorithm::eltwise_relu;
    dnnl::post_ops after;
    after.append_eltwise(kind, 0.0F, 0.0F);
    attr.set_post_ops(after);
  }
  return attr;
}

}  // namespace assay::onednn
