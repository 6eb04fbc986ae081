#include "backends/cuda/gpu/norm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/gpu/compared_results.hpp"
#include "backends/cuda/gpu/plans.hpp"
#include "backends/cuda/own_norm.hpp"
#include "backends/cuda/workspace.hpp"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = GraphTensor;

constexpr const char* purpose = "the search of a batch norm's engine";
// Of our own kernels, where they are as fast as the best of cuDNN's.
constexpr const char* own_name = "own:norm:measured";

class CudnnNorm final : public Norm, public CudnnPlans {
  using Pass = NormSpec::Kind;
  using Gate = NormSpec::Gate;
  enum Uid : std::int64_t {
    x_uid = 1,
    added_uid,
    weight_uid,
    bias_uid,
    mean_uid,
    inverse_uid,
    mask_uid,
    y_uid,
    dy_uid,
    dx_uid,
    total_uid,
    dweight_uid,
    dbias_uid
  };

 public:
  CudnnNorm(const NormSpec& spec, const Target& target)
      : CudnnPlans(target, "batch norm", text_of(spec)), spec_(spec) {}

  std::int64_t workspace_bytes() const override { return bytes_of_plan(engine()); }
  std::string name() const override { return taken(); }
  void run(const NormOperands& operands, void* workspace) override { run(engine(), operands, workspace); }

  // On noise.
  AgainstOwn search(Memory& trial);

 private:
  void describe(fe::graph::Graph& graph) const override {
    if (spec_.kind == Pass::forward) {
      add_forward(graph);
    } else {
      add_gradient(graph);
    }
  }
  std::vector<fe::NumericalNote_t> refused_notes() const override {
    return {fe::NumericalNote_t::DOWN_CONVERT_INPUTS, fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  }
  std::int64_t workspace_bytes(std::int64_t engine) const override { return bytes_of_plan(engine); }
  void try_run(std::int64_t engine, void* workspace) override { run(engine, trial_, workspace); }
  double error(std::int64_t engine, void* workspace) override;

  void run(std::int64_t engine, const NormOperands& at, void* workspace) {
    check_workspace("cudnn", workspace, bytes_of_plan(engine));
    execute(engine,
            {
                {x_uid, at.x},
                {added_uid, at.added},
                {weight_uid, at.weight},
                {bias_uid, at.bias},
                {mean_uid, at.mean},
                {inverse_uid, at.inverse_std},
                {mask_uid, at.mask},
                {y_uid, at.y},
                {dy_uid, at.dy},
                {dx_uid, at.dx},
                {total_uid, at.dy_total},
                {dweight_uid, at.dweight},
                {dbias_uid, at.dbias},
            },
            workspace);
  }

  Tensor image(fe::graph::Graph& graph, std::int64_t uid, fe::DataType_t type) const {
    return images().add(graph, uid, type);
  }
  Tensor image(fe::graph::Graph& graph, std::int64_t uid) const {
    return image(graph, uid, type_of(spec_.operands));
  }
  Tensor vector(fe::graph::Graph& graph, std::int64_t uid) const { return add_vector(graph, uid, spec_.c); }
  void give_image(const Tensor& tensor, std::int64_t uid, fe::DataType_t type) const {
    images().give(*tensor, uid, type);
  }
  Images images() const { return {spec_.image(), spec_.channels_last}; }
  static void give_vector(const Tensor& tensor, std::int64_t uid) {
    tensor->set_output(true).set_uid(uid).set_data_type(fe::DataType_t::FLOAT);
  }
  static fe::graph::Pointwise_attributes mode(fe::PointwiseMode_t of) {
    return fe::graph::Pointwise_attributes().set_mode(of);
  }

  void add_forward(fe::graph::Graph& graph) const {
    Tensor epsilon = graph.tensor(spec_.epsilon);
    auto attributes = fe::graph::Batchnorm_attributes();
    attributes.set_epsilon(epsilon);
    auto [y, mean, inverse, unused_mean, unused_variance] =
        graph.batchnorm(image(graph, x_uid), vector(graph, weight_uid), vector(graph, bias_uid), attributes);
    give_vector(mean, mean_uid);
    give_vector(inverse, inverse_uid);
    if (spec_.added) y = graph.pointwise(y, image(graph, added_uid), mode(fe::PointwiseMode_t::ADD));
    if (spec_.relu) y = graph.pointwise(y, mode(fe::PointwiseMode_t::RELU_FWD));
    give_image(y, y_uid, type_of(spec_.operands));
    // Of y: cuDNN has no engine that compares before the ReLU.
    if (spec_.mask)
      give_image(graph.pointwise(y, graph.tensor(0.0F), mode(fe::PointwiseMode_t::CMP_GT)), mask_uid,
                 fe::DataType_t::BOOLEAN);
  }

  void add_gradient(fe::graph::Graph& graph) const {
    Tensor dy = image(graph, dy_uid);
    if (spec_.added) dy = graph.pointwise(dy, image(graph, added_uid), mode(fe::PointwiseMode_t::ADD));
    if (spec_.gate == Gate::mask)
      dy = graph.pointwise(dy, image(graph, mask_uid, fe::DataType_t::BOOLEAN),
                           mode(fe::PointwiseMode_t::MUL));
    const bool is_given = !spec_.added && spec_.gate == Gate::none;
    if (spec_.total && !is_given) {
      give_image(dy, total_uid, type_of(spec_.operands));
    } else if (!is_given) {
      dy->set_data_type(type_of(spec_.operands));
    }
    auto attributes = fe::graph::Batchnorm_backward_attributes();
    attributes.set_saved_mean_and_inv_variance(vector(graph, mean_uid), vector(graph, inverse_uid));
    auto [dx, dweight, dbias] =
        graph.batchnorm_backward(dy, image(graph, x_uid), vector(graph, weight_uid), attributes);
    give_image(dx, dx_uid, type_of(spec_.operands));
    give_vector(dweight, dweight_uid);
    give_vector(dbias, dbias_uid);
  }

  NormSpec spec_;
  NormOperands trial_;  // while engines are measured
  ComparedResults compared_;
  void* masked_ = nullptr;  // where a copy of y is compared by its mask; null without one
  Memory* memory_ = nullptr;
};

AgainstOwn CudnnNorm::search(Memory& trial) {
  memory_ = &trial;
  NoiseBuffers buffers(trial, purpose);
  const auto buffer = [&](std::int64_t elements, DType dtype) { return buffers.add(elements, dtype); };
  const DType narrow = spec_.operands;
  const std::int64_t all = spec_.elements(), rows = all / spec_.c;
  const double of_image = allowed_error(DType::f32, narrow, false, rows);
  // Sums are over dy as it is in memory, which a sum of two of them is rounded for.
  const double of_sums = allowed_error(narrow, spec_.added ? narrow : DType::f32, false, rows);
  const auto vector = [&] { return static_cast<float*>(buffer(spec_.c, DType::f32)); };
  NormOperands own;
  own.x = buffer(all, narrow);
  if (spec_.added) own.added = buffer(all, narrow);
  own.weight = vector();
  own.bias = vector();
  own.mean = vector();
  own.inverse_std = vector();
  if (spec_.mask || spec_.gate == Gate::mask) {
    // Noise is as good as any mask.
    own.mask = static_cast<std::uint8_t*>(buffer(ceil_div(spec_.mask_bytes(), 4), DType::f32));
  }
  const auto kernels = make_own_norm(spec_, Stream{target().stream});
  NormOperands& other = trial_ = own;
  const auto twice = [&](auto NormOperands::* place, std::int64_t elements, DType dtype, double allowed) {
    using Pointer = std::remove_reference_t<decltype(own.*place)>;
    own.*place = static_cast<Pointer>(buffer(elements, dtype));
    other.*place = static_cast<Pointer>(buffer(elements, dtype));
    compared_.add(other.*place, own.*place, elements, dtype, allowed);
  };
  if (spec_.kind == Pass::forward) {
    twice(&NormOperands::y, all, narrow, of_image);
    twice(&NormOperands::mean, spec_.c, DType::f32, of_sums);
    twice(&NormOperands::inverse_std, spec_.c, DType::f32, of_sums);
    if (spec_.mask) {
      other.mask = static_cast<std::uint8_t*>(buffer(ceil_div(spec_.mask_bytes(), 4), DType::f32));
      masked_ = buffer(all, narrow);
      compared_.add(masked_, other.y, all, narrow, 0);
    }
  } else {
    own.dy = other.dy = buffer(all, narrow);
    twice(&NormOperands::dx, all, narrow, of_image);
    if (spec_.total) twice(&NormOperands::dy_total, all, narrow, of_image);
    twice(&NormOperands::dweight, spec_.c, DType::f32, of_sums);
    twice(&NormOperands::dbias, spec_.c, DType::f32, of_sums);
  }
  const Storage workspace(trial, kernels->workspace_bytes(), purpose);
  constexpr int calls = 10;
  AgainstOwn found;
  found.own = captured_seconds(target(), [&] { kernels->run(own, workspace.data()); }, calls);
  SearchLimits limits;
  limits.error = of_image;
  found.engine = take_fastest(trial, limits);
  compared_.forget();
  return found;
}

// The largest of all results, in units of what is allowed for the image.
double CudnnNorm::error(std::int64_t engine, void* workspace) {
  compared_.clear(*memory_);
  try_run(engine, workspace);
  const Stream stream{target().stream};
  if (masked_ != nullptr) copy_where_mask_is_right(stream, spec_, trial_.y, trial_.mask, masked_);
  return compared_.largest(stream, *memory_) *
         allowed_error(DType::f32, spec_.operands, false, spec_.elements() / spec_.c);
}

}  // namespace

std::shared_ptr<Norm> make_cudnn_norm(const NormSpec& spec, const Target& target, Memory& trial) {
  if (spec.deterministic || !spec.is_one_graph()) return nullptr;
  auto norm = std::make_shared<CudnnNorm>(spec, target);
  try {
    switch (norm->take_if_faster(own_name, [&] { return norm->search(trial); })) {
      case Faster::library:
        return norm;
      case Faster::own:
        return make_own_norm(spec, Stream{target.stream}, own_name);
      case Faster::unknown:
        break;
    }
    return nullptr;
  } catch (const std::exception& error) {
    fmt::print(stderr, "[batch norm] our own kernels run: {}\n", error.what());
    return nullptr;
  }
}

PlannedEngine plan_norm(const NormSpec& spec, const Target& target) {
  return CudnnNorm(spec, target).plan_first();
}

}  // namespace assay::cuda
