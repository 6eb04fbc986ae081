#include "backends/cuda/gpu/convolution.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/gpu/plans.hpp"
#include "backends/cuda/own_products.hpp"
#include "backends/cuda/workspace.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;
using Kind = ConvolutionSpec::Kind;
using Tensor = GraphTensor;

// Ids of the tensors, the same in every graph.
enum Uid : std::int64_t { first = 1, second, bias_uid, result_uid };

// How a convolution is composed of cuDNN's graph and of kernels of ours.
struct Variant {
  bool fused = false;   // bias and ReLU are in cuDNN's graph
  bool narrow = false;  // the result has the type of the operands and is widened after it
};

// In the order of preference where nothing is measured.
std::vector<Variant> variants_of(const ConvolutionSpec& spec) {
  if (spec.bare) return {{true, false}};
  std::vector<Variant> variants{{true, false}};
  // Engines with tensor cores have the epilogue, most of them generated; the others do not.
  if (spec.bias || spec.relu) variants.push_back({false, false});
  if (spec.result != spec.operands) variants.push_back({false, true});
  return variants;
}

class CudnnConvolution final : public Convolution, public CudnnPlans {
 public:
  CudnnConvolution(const ConvolutionSpec& spec, Variant variant, const Target& target)
      : CudnnPlans(target, "convolution", text_of(spec)), spec_(spec), variant_(variant) {}

  // CudnnPlans::take_fastest() on noise.
  std::optional<double> search(Memory& trial) {
    const auto bytes = [](const Shape& shape, DType dtype) { return element_count(shape) * size_of(dtype); };
    const bool forward = spec_.kind == Kind::forward, of_input = spec_.kind == Kind::input_gradient;
    std::uint32_t seed = 0;
    const auto buffer = [&](std::int64_t size, DType dtype) {
      Storage storage(trial, size, "the search of a convolution's engine");
      fill_with_noise(trial, storage.data(), size, dtype, seed++);
      return storage;
    };
    const Storage a = buffer(bytes(of_input ? shape_of_y() : shape_of_x(), spec_.operands), spec_.operands);
    const Storage b =
        buffer(bytes(forward || of_input ? shape_of_weight() : shape_of_y(), spec_.operands), spec_.operands);
    const Storage bias = buffer(spec_.k * size_of(DType::f32), DType::f32);
    const Storage result = buffer(bytes(shape_of_result(), spec_.result), spec_.result);
    const Storage expected = buffer(result.bytes(), spec_.result);
    const auto own = make_own_convolution(spec_, Stream{target().stream});
    const Storage own_workspace(trial, own->workspace_bytes(), "the search of a convolution's engine");
    const auto* const added = spec_.bias ? static_cast<const float*>(bias.data()) : nullptr;
    own->run(a.data(), b.data(), added, expected.data(), own_workspace.data());
    trial_ = {a.data(), b.data(), added, result.data(), expected.data(), &trial};
    SearchLimits limits;
    limits.error = allowed_error(spec_.operands, variant_.narrow ? spec_.operands : spec_.result, spec_.tf32,
                                 terms(), spec_.bias && !variant_.fused ? 2 : 1);
    return take_fastest(trial, limits);
  }

  std::int64_t workspace_bytes() const override { return workspace_bytes(engine()); }
  std::string name() const override { return taken(); }

  void run(const void* a, const void* b, const float* bias, void* result, void* workspace) override {
    run(engine(), a, b, bias, result, workspace);
  }

 private:
  void describe(fe::graph::Graph& graph) const override {
    Tensor y = add(graph);
    if (variant_.fused) y = add_epilogue(graph, y);
    Images{shape_of_result(), spec_.channels_last}.give(
        *y, result_uid, type_of(variant_.narrow ? spec_.operands : spec_.result));
  }

  std::string suffix() const override {
    const bool epilogue = variant_.fused && (spec_.bias || spec_.relu);
    return fmt::format("{}{}", epilogue ? "+epilogue" : "", variant_.narrow ? "+widened" : "");
  }

  // Of an element of the result.
  std::int64_t terms() const {
    if (spec_.kind == Kind::weight_gradient) return spec_.n * spec_.p * spec_.q;
    return (spec_.kind == Kind::forward ? spec_.c : spec_.k) / spec_.groups * spec_.r * spec_.s;
  }

  std::int64_t workspace_bytes(std::int64_t engine) const override {
    if (!variant_.narrow) return bytes_of_plan(engine);
    return narrow_at(engine) + element_count(shape_of_result()) * size_of(spec_.operands);
  }

  void try_run(std::int64_t engine, void* workspace) override {
    run(engine, trial_.a, trial_.b, trial_.bias, trial_.result, workspace);
  }

  double error(std::int64_t engine, void* workspace) override {
    const std::int64_t elements = element_count(shape_of_result());
    trial_.memory->clear(trial_.result, elements * size_of(spec_.result));
    try_run(engine, workspace);
    return relative_distance(Stream{target().stream}, *trial_.memory, spec_.result, trial_.result,
                             trial_.expected, elements);
  }

  void run(std::int64_t engine, const void* a, const void* b, const float* bias, void* result,
           void* workspace) {
    check_workspace("cudnn", workspace, workspace_bytes(engine));
    void* const narrow = static_cast<std::byte*>(workspace) + narrow_at(engine);
    execute(engine,
            {{first, a},
             {second, b},
             {result_uid, variant_.narrow ? narrow : result},
             {bias_uid, variant_.fused && spec_.bias ? bias : nullptr}},
            workspace);
    if (variant_.narrow)
      widen_to_f32(Stream{target().stream}, narrow, result, element_count(shape_of_result()));
    if (!variant_.fused && (spec_.bias || spec_.relu)) {
      const std::int64_t step = spec_.channels_last ? 1 : spec_.p * spec_.q;
      add_bias(Stream{target().stream}, spec_.result, result, spec_.n * spec_.k * spec_.p * spec_.q,
               spec_.bias ? bias : nullptr, spec_.k, step, spec_.relu);
    }
  }

  // The place of the narrow result in the workspace, in bytes.
  std::int64_t narrow_at(std::int64_t engine) const {
    return ceil_div(bytes_of_plan(engine), workspace_alignment) * workspace_alignment;
  }

  std::vector<fe::NumericalNote_t> refused_notes() const override {
    std::vector<fe::NumericalNote_t> refused{fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                                             fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
    // With f32 operands the tensor cores round them to TF32.
    if (spec_.operands == DType::f32 && !spec_.tf32) refused.push_back(fe::NumericalNote_t::TENSOR_CORE);
    // A test of whole numbers is deterministic and demands exact sums, which these transforms do not give.
    if (spec_.deterministic)
      refused.insert(refused.end(),
                     {fe::NumericalNote_t::NONDETERMINISTIC, fe::NumericalNote_t::FFT,
                      fe::NumericalNote_t::WINOGRAD_TILE_4x4, fe::NumericalNote_t::WINOGRAD_TILE_6x6,
                      fe::NumericalNote_t::WINOGRAD_TILE_13x13});
    return refused;
  }

  Shape shape_of_x() const { return {spec_.n, spec_.c, spec_.h, spec_.w}; }
  Shape shape_of_weight() const { return {spec_.k, spec_.c / spec_.groups, spec_.r, spec_.s}; }
  Shape shape_of_y() const { return {spec_.n, spec_.k, spec_.p, spec_.q}; }
  Shape shape_of_result() const {
    return spec_.kind == Kind::forward          ? shape_of_y()
           : spec_.kind == Kind::input_gradient ? shape_of_x()
                                                : shape_of_weight();
  }

  Tensor input(fe::graph::Graph& graph, std::int64_t uid, const Shape& shape) const {
    return Images{shape, spec_.channels_last}.add(graph, uid, type_of(spec_.operands));
  }

  template <typename Attributes>
  Attributes window() const {
    Attributes attributes;
    const ConvolutionAxis &rows = spec_.rows, &columns = spec_.columns;
    attributes.set_pre_padding({rows.before, columns.before})
        .set_post_padding({rows.after, columns.after})
        .set_stride({rows.stride, columns.stride})
        .set_dilation({rows.dilation, columns.dilation});
    return attributes;
  }

  Tensor add(fe::graph::Graph& graph) const {
    switch (spec_.kind) {
      case Kind::forward:
        return graph.conv_fprop(input(graph, first, shape_of_x()), input(graph, second, shape_of_weight()),
                                window<fe::graph::Conv_fprop_attributes>());
      case Kind::input_gradient:
        return graph.conv_dgrad(input(graph, first, shape_of_y()), input(graph, second, shape_of_weight()),
                                window<fe::graph::Conv_dgrad_attributes>());
      case Kind::weight_gradient:
        break;
    }
    const Tensor x = input(graph, first, shape_of_x());
    return graph.conv_wgrad(input(graph, second, shape_of_y()), x,
                            window<fe::graph::Conv_wgrad_attributes>());
  }

  Tensor add_epilogue(fe::graph::Graph& graph, Tensor y) const {
    if (spec_.bias) {
      const Tensor bias = add_vector(graph, bias_uid, spec_.k);
      y = graph.pointwise(y, bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    }
    if (spec_.relu)
      y = graph.pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    return y;
  }

  ConvolutionSpec spec_;
  Variant variant_;
  struct {
    const void *a = nullptr, *b = nullptr;
    const float* bias = nullptr;
    void* result = nullptr;
    const void* expected = nullptr;
    Memory* memory = nullptr;
  } trial_;  // while engines are measured
};

// What an earlier search chose; null if it chose nothing, or what cuDNN does not offer any more.
std::unique_ptr<CudnnConvolution> given_convolution(const ConvolutionSpec& spec, const Target& target) {
  const std::string name = target.choices->given(text_of(spec));
  if (!name.starts_with("cudnn:")) return nullptr;
  for (const Variant& variant : variants_of(spec)) {
    auto convolution = std::make_unique<CudnnConvolution>(spec, variant, target);
    if (!convolution->take_given(name)) continue;
    target.choices->reuse();
    return convolution;
  }
  fmt::print(stderr, "[convolution] an engine is searched again: cuDNN does not offer {}\n", name);
  return nullptr;
}

// The search is optional: without memory for it, the heuristic's choice is used.
std::optional<double> try_to_search(CudnnConvolution& convolution, Memory& trial) {
  try {
    return convolution.search(trial);
  } catch (const OutOfMemory& error) {
    fmt::print(stderr, "[convolution] {} is the heuristic's choice: {}\n", convolution.name(), error.what());
    return {};
  }
}

}  // namespace

std::unique_ptr<Convolution> make_cudnn_convolution(const ConvolutionSpec& spec, const Target& target,
                                                    Memory& trial) {
  if (!spec.deterministic && !spec.bare)
    if (auto chosen = given_convolution(spec, target)) return chosen;
  std::unique_ptr<CudnnConvolution> best;
  std::optional<double> seconds;
  std::string missing;
  for (const Variant& variant : variants_of(spec)) {
    auto convolution = std::make_unique<CudnnConvolution>(spec, variant, target);
    try {
      if (std::string reason = convolution->take_first(); !reason.empty()) {
        if (missing.empty()) missing = std::move(reason);
        continue;
      }
    } catch (const OutOfMemory& error) {
      if (best == nullptr) throw;
      fmt::print(stderr, "[convolution] {} is taken, and no other form tried: {}\n", best->name(),
                 error.what());
      break;
    }
    if (spec.deterministic || spec.bare) return convolution;
    const std::optional<double> measured = try_to_search(*convolution, trial);
    if (convolution->is_wrong()) {
      missing = "the results of those that it has are wrong";
      continue;
    }
    if (best != nullptr && (!measured || (seconds && *seconds <= *measured))) continue;
    seconds = measured;
    best = std::move(convolution);
  }
  if (best != nullptr) {
    best->keep();
    return best;
  }
  const std::string reason =
      fmt::format("[convolution] cuDNN has no engine for {}: {}", text_of(spec), missing);
  if (spec.bare) throw Unsupported(reason);
  fmt::print(stderr, "{}. Our own direct convolution runs, which is slow\n", reason);
  return nullptr;
}

PlannedEngine plan_convolution(const ConvolutionSpec& spec, const Target& target) {
  PlannedEngine planned;
  for (const Variant& variant : variants_of(spec)) {
    CudnnConvolution convolution(spec, variant, target);
    PlannedEngine first = convolution.plan_first();
    if (!first.missing.empty()) {
      if (planned.missing.empty()) planned.missing = std::move(first.missing);
      continue;
    }
    planned = std::move(first);
    planned.workspace_bytes = convolution.workspace_bytes();
    return planned;
  }
  return planned;
}

}  // namespace assay::cuda
