#include "backends/cuda/gpu/convolution.hpp"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "backends/cuda/layout.hpp"
#include "backends/cuda/own_products.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;
using Kind = ConvolutionSpec::Kind;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// How many engines are tried. The heuristic sorts them by expected speed; those far down the list do not win.
constexpr int max_tried = 8;

// Ids of the tensors, the same in every graph.
enum Uid : std::int64_t { first = 1, second, bias_uid, result_uid };

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

std::vector<std::int64_t> strides(const Shape& shape, bool channels_last) {
  const Strides s = strides_of(shape, channels_last ? Layout::channels_last : Layout::plain);
  return {s.n, s.c, s.h, s.w};
}

class CudnnConvolution final : public Convolution {
 public:
  CudnnConvolution(const ConvolutionSpec& spec, cudnnHandle_t handle, cudaStream_t stream)
      : spec_(spec), handle_(handle), stream_(stream) {}

  // fused: bias and ReLU are in cuDNN's graph. narrow: the result has the type of the operands and is widened
  // after it. Returns an empty string, or the reason why there is no engine.
  std::string build(bool fused, bool narrow = false) {
    narrow_ = narrow;
    graph_ = std::make_unique<fe::graph::Graph>();
    fused_ = fused;
    graph_->set_io_data_type(type_of(spec_.operands))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    Tensor y = add();
    if (fused) y = add_epilogue(y);
    y->set_output(true).set_uid(result_uid).set_data_type(type_of(narrow ? spec_.operands : spec_.result));
    const Shape shape = shape_of_result();
    y->set_dim(shape).set_stride(strides(shape, spec_.channels_last));

    if (const auto status = graph_->validate(); status.is_bad()) return status.err_msg;
    if (const auto status = graph_->build_operation_graph(handle_); status.is_bad()) return status.err_msg;
    if (const auto status = graph_->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
        status.is_bad())
      return status.err_msg;
    std::vector<fe::NumericalNote_t> refused{fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                                             fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
    // With f32 operands the tensor cores round them to TF32.
    if (spec_.operands == DType::f32 && !spec_.tf32) refused.push_back(fe::NumericalNote_t::TENSOR_CORE);
    if (spec_.deterministic) refused.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
    graph_->deselect_numeric_notes(refused);
    if (const auto status = graph_->check_support(); status.is_bad()) return status.err_msg;
    if (const auto status = graph_->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE); status.is_bad())
      return status.err_msg;
    return take_plan();
  }

  // Replaces the heuristic's choice by the fastest engine, after it is built.
  void search(Memory& trial) {
    int built = 0;
    for (std::int64_t i = 0; i < graph_->get_execution_plan_count() && built < max_tried; ++i) {
      if (graph_->build_plan_at_index(handle_, i).is_good()) ++built;
    }
    const auto bytes = [](const Shape& shape, DType dtype) { return element_count(shape) * size_of(dtype); };
    const bool forward = spec_.kind == Kind::forward, of_input = spec_.kind == Kind::input_gradient;
    TrialBuffers buffers(trial);
    std::unordered_map<std::int64_t, void*> pointers{
        {first, buffers.add(bytes(of_input ? shape_of_y() : shape_of_x(), spec_.operands))},
        {second, buffers.add(bytes(forward || of_input ? shape_of_weight() : shape_of_y(), spec_.operands))},
        {result_uid, buffers.add(bytes(shape_of_result(), narrow_ ? spec_.operands : spec_.result))}};
    if (fused_ && spec_.bias) pointers[bias_uid] = buffers.add(spec_.k * size_of(DType::f32));
    void* const workspace = buffers.add(graph_->get_autotune_workspace_size());
    if (const auto status = graph_->autotune(handle_, pointers, workspace); status.is_bad())
      throw std::runtime_error(fmt::format("[cudnn] autotune {}: {}", name_, status.err_msg));
    if (const std::string reason = take_plan(); !reason.empty())
      throw std::runtime_error(fmt::format("[cudnn] the fastest engine for {}: {}", name_, reason));
    name_ += ":measured";
  }

  std::int64_t workspace_bytes() const override { return workspace_; }
  std::string name() const override { return name_; }

  void run(const void* a, const void* b, const float* bias, void* result, void* workspace) override {
    pointers_[first] = const_cast<void*>(a);
    pointers_[second] = const_cast<void*>(b);
    void* const narrow = static_cast<std::byte*>(workspace) + narrow_at_;
    pointers_[result_uid] = narrow_ ? narrow : result;
    if (fused_ && spec_.bias) pointers_[bias_uid] = const_cast<float*>(bias);
    if (const auto status = graph_->execute(handle_, pointers_, workspace); status.is_bad())
      throw std::runtime_error(fmt::format("[cudnn] execute {}: {}", name_, status.err_msg));
    if (narrow_) widen_to_f32(Stream{stream_}, narrow, result, element_count(shape_of_result()));
    if (!fused_ && (spec_.bias || spec_.relu)) {
      const std::int64_t step = spec_.channels_last ? 1 : spec_.p * spec_.q;
      add_bias(Stream{stream_}, spec_.result, result, spec_.n * spec_.k * spec_.p * spec_.q,
               spec_.bias ? bias : nullptr, spec_.k, step, spec_.relu);
    }
  }

 private:
  // Released in the order of the stream.
  class TrialBuffers {
   public:
    explicit TrialBuffers(Memory& memory) : memory_(memory) {}
    ~TrialBuffers() {
      for (void* pointer : pointers_) memory_.release(pointer);
    }
    TrialBuffers(const TrialBuffers&) = delete;
    TrialBuffers& operator=(const TrialBuffers&) = delete;
    void* add(std::int64_t bytes) {
      pointers_.push_back(memory_.allocate(larger(bytes, 1), "the search of a convolution's algorithm"));
      memory_.clear(pointers_.back(), bytes);
      return pointers_.back();
    }

   private:
    Memory& memory_;
    std::vector<void*> pointers_;
  };

  // Sets the name and the workspace of the chosen plan. Returns an empty string, or an error.
  std::string take_plan() {
    std::string plan;
    if (graph_->get_plan_name(plan).is_bad()) plan = "?";
    std::int64_t bytes = 0;
    if (const auto status = graph_->get_workspace_size(bytes); status.is_bad()) return status.err_msg;
    narrow_at_ = (bytes + 255) / 256 * 256;
    workspace_ = narrow_ ? narrow_at_ + element_count(shape_of_result()) * size_of(spec_.operands) : bytes;
    const bool epilogue = fused_ && (spec_.bias || spec_.relu);
    name_ = fmt::format("cudnn:{}{}{}:workspace{}", plan, epilogue ? "+epilogue" : "",
                        narrow_ ? "+widened" : "", bytes);
    return {};
  }

  Shape shape_of_x() const { return {spec_.n, spec_.c, spec_.h, spec_.w}; }
  Shape shape_of_weight() const { return {spec_.k, spec_.c, spec_.r, spec_.s}; }
  Shape shape_of_y() const { return {spec_.n, spec_.k, spec_.p, spec_.q}; }
  Shape shape_of_result() const {
    return spec_.kind == Kind::forward          ? shape_of_y()
           : spec_.kind == Kind::input_gradient ? shape_of_x()
                                                : shape_of_weight();
  }

  Tensor input(std::int64_t uid, const Shape& shape) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_uid(uid)
                              .set_dim(shape)
                              .set_stride(strides(shape, spec_.channels_last))
                              .set_data_type(type_of(spec_.operands)));
  }

  template <typename Attributes>
  Attributes window() const {
    Attributes attributes;
    attributes.set_padding({spec_.padding, spec_.padding})
        .set_stride({spec_.stride, spec_.stride})
        .set_dilation({1, 1});
    return attributes;
  }

  Tensor add() {
    switch (spec_.kind) {
      case Kind::forward:
        return graph_->conv_fprop(input(first, shape_of_x()), input(second, shape_of_weight()),
                                  window<fe::graph::Conv_fprop_attributes>());
      case Kind::input_gradient:
        return graph_->conv_dgrad(input(first, shape_of_y()), input(second, shape_of_weight()),
                                  window<fe::graph::Conv_dgrad_attributes>());
      case Kind::weight_gradient:
        break;
    }
    const Tensor x = input(first, shape_of_x());
    return graph_->conv_wgrad(input(second, shape_of_y()), x, window<fe::graph::Conv_wgrad_attributes>());
  }

  Tensor add_epilogue(Tensor y) {
    if (spec_.bias) {
      const Tensor bias = graph_->tensor(fe::graph::Tensor_attributes()
                                             .set_uid(bias_uid)
                                             .set_dim({1, spec_.k, 1, 1})
                                             .set_stride({spec_.k, 1, spec_.k, spec_.k})
                                             .set_data_type(fe::DataType_t::FLOAT));
      y = graph_->pointwise(y, bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    }
    if (spec_.relu)
      y = graph_->pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    return y;
  }

  ConvolutionSpec spec_;
  cudnnHandle_t handle_;
  cudaStream_t stream_;
  std::unique_ptr<fe::graph::Graph> graph_;
  bool fused_ = false, narrow_ = false;
  std::int64_t narrow_at_ = 0;  // bytes into the workspace
  std::int64_t workspace_ = 0;
  std::string name_;
  std::unordered_map<std::int64_t, void*> pointers_;
};

// The search is optional: without memory for it, the heuristic's choice is used.
void try_to_search(CudnnConvolution& convolution, Memory& trial) {
  try {
    convolution.search(trial);
  } catch (const OutOfMemory& error) {
    fmt::print(stderr, "[convolution] {} is the heuristic's choice: {}\n", convolution.name(), error.what());
  }
}

}  // namespace

std::unique_ptr<Convolution> make_cudnn_convolution(const ConvolutionSpec& spec, cudnnHandle_t handle,
                                                    cudaStream_t stream, Memory& trial) {
  auto convolution = std::make_unique<CudnnConvolution>(spec, handle, stream);
  // Engines that are compiled for tensor cores include the epilogue; for the others it follows.
  std::string reason = convolution->build(true);
  if (!reason.empty() && (spec.bias || spec.relu)) reason = convolution->build(false);
  if (!reason.empty() && spec.result != spec.operands) reason = convolution->build(false, true);
  if (reason.empty()) {
    if (!spec.deterministic) try_to_search(*convolution, trial);
    return convolution;
  }
  fmt::print(
      stderr,
      "[convolution] cuDNN has no engine for x ({}, {}, {}, {}), weight ({}, {}, {}, {}), {}: {}. Our own "
      "direct convolution runs, which is slow\n",
      spec.n, spec.c, spec.h, spec.w, spec.k, spec.c, spec.r, spec.s, to_string(spec.operands), reason);
  return nullptr;
}

}  // namespace assay::cuda
