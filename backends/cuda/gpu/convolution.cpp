#include "backends/cuda/gpu/convolution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/gpu/frontend.hpp"
#include "backends/cuda/layout.hpp"
#include "backends/cuda/own_products.hpp"
#include "backends/cuda/workspace.hpp"
#include "harness/core/clock.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;
using Kind = ConvolutionSpec::Kind;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// A larger workspace is refused: it would be part of the planned memory of the whole step.
constexpr std::int64_t max_workspace = std::int64_t{1} << 30;

// Ids of the tensors, the same in every graph.
enum Uid : std::int64_t { first = 1, second, bias_uid, result_uid };

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

std::vector<std::int64_t> strides(const Shape& shape, bool channels_last) {
  const Strides s = strides_of(shape, channels_last ? Layout::channels_last : Layout::plain);
  return {s.n, s.c, s.h, s.w};
}

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

class CudnnConvolution final : public Convolution, private Engines {
 public:
  CudnnConvolution(const ConvolutionSpec& spec, Variant variant, const Target& target)
      : spec_(spec), variant_(variant), target_(target) {}

  // Returns an empty string, or the reason why cuDNN has no engine.
  std::string build() {
    if (std::string missing = ask(); !missing.empty()) return missing;
    // The first that can be built is the heuristic's choice.
    std::string reason = "no engine can be built";
    std::exception_ptr failure;
    for (engine_ = 0; engine_ < count(); ++engine_) {
      try {
        const auto built = graph_->build_plan_at_index(engine_);
        if (built.is_good()) return {};
        reason = reason_of("build an engine", built);
      } catch (const std::runtime_error&) {
        failure = std::current_exception();  // another engine may do
      }
    }
    if (failure) std::rethrow_exception(failure);
    return reason;
  }

  // Builds the engine of this name(), which an earlier search chose, and no other. Returns false if cuDNN does not
  // offer it.
  bool build_given(const std::string& name) {
    if (!ask().empty()) return false;
    for (engine_ = 0; engine_ < count(); ++engine_) {
      if (!name.starts_with(prefix_of(engine_)) || !build(engine_)) continue;
      measured_ = true;
      if (this->name() == name) return true;
    }
    measured_ = false;
    return false;
  }

  // Replaces the heuristic's choice by the fastest engine that is right, after it is built. Returns the seconds of a run,
  // or nothing if there was none: then the choice stays, and is_wrong() says whether all that ran are wrong. Throws
  // OutOfMemory, and the choice stays, too.
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
    const auto own = make_own_convolution(spec_, Stream{target_.stream});
    const Storage own_workspace(trial, own->workspace_bytes(), "the search of a convolution's engine");
    const auto* const added = spec_.bias ? static_cast<const float*>(bias.data()) : nullptr;
    own->run(a.data(), b.data(), added, expected.data(), own_workspace.data());
    trial_ = {a.data(), b.data(), added, result.data(), expected.data(), &trial};
    SearchLimits limits;
    limits.error = allowed_error(spec_.operands, variant_.narrow ? spec_.operands : spec_.result, spec_.tf32,
                                 terms(), spec_.bias && !variant_.fused ? 2 : 1);
    const SearchResult found = fastest_engine(*this, trial, limits);
    for (const auto& [engine, error] : found.wrong)
      target_.choices->refuse(name_of(engine), text_of(spec_), error, limits.error);
    is_wrong_ = !found.fastest && !found.wrong.empty();
    if (!found.fastest) return {};
    engine_ = found.fastest->engine;
    measured_ = true;
    return found.fastest->seconds;
  }
  bool is_wrong() const { return is_wrong_; }

  std::int64_t workspace_bytes() const override { return workspace_bytes(engine_); }
  std::string name() const override { return name_of(engine_) + (measured_ ? ":measured" : ""); }

  void run(const void* a, const void* b, const float* bias, void* result, void* workspace) override {
    run(engine_, a, b, bias, result, workspace);
  }

  std::int64_t count() const override { return graph_->get_execution_plan_count(); }
  bool is_generated(std::int64_t engine) const override {
    std::vector<fe::BehaviorNote_t> notes;
    return graph_->get_behavior_notes_for_plan_at_index(engine, notes).is_good() &&
           std::ranges::find(notes, fe::BehaviorNote_t::RUNTIME_COMPILATION) != notes.end();
  }
  std::int64_t engine() const { return engine_; }

 private:
  // Asks cuDNN for its engines. Returns an empty string, or the reason why it has none.
  std::string ask() {
    graph_ = std::make_unique<fe::graph::Graph>();
    graph_->set_io_data_type(type_of(spec_.operands))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (target_.properties != nullptr)
      graph_->set_device_properties(target_.properties).set_sm_version(target_.architecture);
    Tensor y = add();
    if (variant_.fused) y = add_epilogue(y);
    y->set_output(true)
        .set_uid(result_uid)
        .set_data_type(type_of(variant_.narrow ? spec_.operands : spec_.result));
    const Shape shape = shape_of_result();
    y->set_dim(shape).set_stride(strides(shape, spec_.channels_last));

    if (auto reason = reason_of("validate a graph", graph_->validate()); !reason.empty()) return reason;
    auto answer = target_.properties != nullptr ? graph_->build_operation_graph()
                                                : graph_->build_operation_graph(target_.handle);
    if (auto reason = reason_of("build an operation graph", answer); !reason.empty()) return reason;
    answer = graph_->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    if (auto reason = reason_of("ask for engines", answer); !reason.empty()) return reason;
    graph_->deselect_numeric_notes(refused_notes());
    graph_->deselect_workspace_greater_than(max_workspace);
    return reason_of("check engines", graph_->check_support());
  }

  bool build(std::int64_t engine) override {
    try {
      return reason_of("build an engine", graph_->build_plan_at_index(engine)).empty();
    } catch (const std::runtime_error& error) {
      fmt::print(stderr, "[convolution] an engine is left out: {}\n", error.what());
      return false;
    }
  }

  // What its name begins with; the bytes of its workspace follow, which are known when it is built.
  std::string prefix_of(std::int64_t engine) const {
    std::string plan;
    if (graph_->get_plan_name_at_index(engine, plan).is_bad()) plan = "?";
    const bool epilogue = variant_.fused && (spec_.bias || spec_.relu);
    return fmt::format("cudnn:{}{}{}:workspace", plan, epilogue ? "+epilogue" : "",
                       variant_.narrow ? "+widened" : "");
  }
  std::string name_of(std::int64_t engine) const {
    return fmt::format("{}{}", prefix_of(engine), of_plan(engine));
  }

  // Of an element of the result.
  std::int64_t terms() const {
    if (spec_.kind == Kind::weight_gradient) return spec_.n * spec_.p * spec_.q;
    return (spec_.kind == Kind::forward ? spec_.c : spec_.k) / spec_.groups * spec_.r * spec_.s;
  }

  std::int64_t workspace_bytes(std::int64_t engine) const override {
    if (!variant_.narrow) return of_plan(engine);
    return narrow_at(engine) + element_count(shape_of_result()) * size_of(spec_.operands);
  }

  std::optional<double> measure(std::int64_t engine, void* workspace) override {
    constexpr int calls = 10;
    try {
      return captured_seconds(
          target_, [&] { run(engine, trial_.a, trial_.b, trial_.bias, trial_.result, workspace); }, calls);
    } catch (const std::runtime_error& error) {
      fmt::print(stderr, "[convolution] an engine is left out: {}\n", error.what());
      return {};
    }
  }

  double error(std::int64_t engine, void* workspace) override {
    const std::int64_t elements = element_count(shape_of_result());
    trial_.memory->clear(trial_.result, elements * size_of(spec_.result));
    run(engine, trial_.a, trial_.b, trial_.bias, trial_.result, workspace);
    return relative_distance(Stream{target_.stream}, *trial_.memory, spec_.result, trial_.result,
                             trial_.expected, elements);
  }

  void run(std::int64_t engine, const void* a, const void* b, const float* bias, void* result,
           void* workspace) {
    check_workspace("cudnn", workspace, workspace_bytes(engine));
    pointers_[first] = const_cast<void*>(a);
    pointers_[second] = const_cast<void*>(b);
    void* const narrow = static_cast<std::byte*>(workspace) + narrow_at(engine);
    pointers_[result_uid] = variant_.narrow ? narrow : result;
    if (variant_.fused && spec_.bias) pointers_[bias_uid] = const_cast<float*>(bias);
    check_frontend("execute a convolution",
                   graph_->execute_plan_at_index(target_.handle, pointers_, workspace, engine));
    if (variant_.narrow)
      widen_to_f32(Stream{target_.stream}, narrow, result, element_count(shape_of_result()));
    if (!variant_.fused && (spec_.bias || spec_.relu)) {
      const std::int64_t step = spec_.channels_last ? 1 : spec_.p * spec_.q;
      add_bias(Stream{target_.stream}, spec_.result, result, spec_.n * spec_.k * spec_.p * spec_.q,
               spec_.bias ? bias : nullptr, spec_.k, step, spec_.relu);
    }
  }

  // Of cuDNN's plan.
  std::int64_t of_plan(std::int64_t engine) const {
    std::int64_t bytes = 0;
    check_frontend("ask for a workspace", graph_->get_workspace_size_plan_at_index(engine, bytes));
    return bytes;
  }
  // The place of the narrow result in the workspace, in bytes.
  std::int64_t narrow_at(std::int64_t engine) const {
    return ceil_div(of_plan(engine), workspace_alignment) * workspace_alignment;
  }

  std::vector<fe::NumericalNote_t> refused_notes() const {
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
    const ConvolutionAxis &rows = spec_.rows, &columns = spec_.columns;
    attributes.set_pre_padding({rows.before, columns.before})
        .set_post_padding({rows.after, columns.after})
        .set_stride({rows.stride, columns.stride})
        .set_dilation({rows.dilation, columns.dilation});
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
  Variant variant_;
  Target target_;
  std::unique_ptr<fe::graph::Graph> graph_;
  std::int64_t engine_ = 0;  // the chosen plan
  bool measured_ = false, is_wrong_ = false;
  struct {
    const void *a = nullptr, *b = nullptr;
    const float* bias = nullptr;
    void* result = nullptr;
    const void* expected = nullptr;
    Memory* memory = nullptr;
  } trial_;  // while engines are measured
  std::unordered_map<std::int64_t, void*> pointers_;
};

// What an earlier search chose; null if it chose nothing, or what cuDNN does not offer any more.
std::unique_ptr<CudnnConvolution> given_convolution(const ConvolutionSpec& spec, const Target& target) {
  const std::string name = target.choices->given(text_of(spec));
  if (!name.starts_with("cudnn:")) return nullptr;
  for (const Variant& variant : variants_of(spec)) {
    auto convolution = std::make_unique<CudnnConvolution>(spec, variant, target);
    if (!convolution->build_given(name)) continue;
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
      if (std::string reason = convolution->build(); !reason.empty()) {
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
  if (best != nullptr) return best;
  const std::string reason =
      fmt::format("[convolution] cuDNN has no engine for {}: {}", text_of(spec), missing);
  if (spec.bare) throw Unsupported(reason);
  fmt::print(stderr, "{}. Our own direct convolution runs, which is slow\n", reason);
  return nullptr;
}

PlannedConvolution plan_convolution(const ConvolutionSpec& spec, const Target& target) {
  PlannedConvolution planned;
  for (const Variant& variant : variants_of(spec)) {
    const auto start = std::chrono::steady_clock::now();
    CudnnConvolution convolution(spec, variant, target);
    if (std::string reason = convolution.build(); !reason.empty()) {
      if (planned.missing.empty()) planned.missing = std::move(reason);
      continue;
    }
    planned.engine = convolution.name();
    planned.engines = convolution.count();
    planned.workspace_bytes = convolution.workspace_bytes();
    planned.is_generated = convolution.is_generated(convolution.engine());
    planned.seconds = seconds_since(start);
    planned.missing.clear();
    return planned;
  }
  return planned;
}

}  // namespace assay::cuda
