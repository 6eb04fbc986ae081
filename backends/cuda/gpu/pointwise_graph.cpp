#include "backends/cuda/gpu/pointwise_graph.hpp"

#include <unordered_map>

#include "backends/cuda/gpu/plans.hpp"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Mode = fe::PointwiseMode_t;

enum PointwiseUid : std::int64_t { x_uid = 1, dy_uid, y_uid };

fe::graph::Pointwise_attributes how(Mode mode) {
  fe::graph::Pointwise_attributes attributes;
  attributes.set_mode(mode);
  if (mode == Mode::SOFTPLUS_FWD || mode == Mode::SOFTPLUS_BWD) attributes.set_softplus_beta(1);
  return attributes;
}

// The result, of x and of dy, which is null without a gradient.
Tensor add(fe::graph::Graph& graph, Activation kind, const Tensor& x, const Tensor& dy) {
  if (kind == Activation::softplus)
    return dy == nullptr ? graph.pointwise(x, how(Mode::SOFTPLUS_FWD))
                         : graph.pointwise(dy, x, how(Mode::SOFTPLUS_BWD));
  // Softsign: x / (1 + |x|), and dy / (1 + |x|)^2.
  const Tensor divisor =
      graph.pointwise(graph.pointwise(x, how(Mode::ABS)), graph.tensor(1.0F), how(Mode::ADD));
  if (dy == nullptr) return graph.pointwise(x, divisor, how(Mode::DIV));
  return graph.pointwise(dy, graph.pointwise(divisor, divisor, how(Mode::MUL)), how(Mode::DIV));
}

}  // namespace

std::shared_ptr<fe::graph::Graph> plan_pointwise_graph(Activation kind, bool gradient, const TensorSpec& spec,
                                                       const Target& target) {
  const fe::DataType_t type = type_of(spec.dtype);
  // Its engines take packed images with more than one channel, the channels last. Element by element, any dense
  // tensor is one.
  const std::int64_t elements = element_count(spec.shape);
  const std::int64_t last = spec.shape.empty() ? 1 : spec.shape.back(), columns = last > 1 ? last : elements;
  const Shape shape{elements / columns, columns, 1, 1}, strides{columns, 1, columns, columns};
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(type)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (target.properties != nullptr)
    graph->set_device_properties(target.properties).set_sm_version(target.architecture);
  const auto operand = [&](std::int64_t uid) {
    return graph->tensor(
        fe::graph::Tensor_attributes().set_uid(uid).set_dim(shape).set_stride(strides).set_data_type(type));
  };
  const Tensor x = operand(x_uid), dy = gradient ? operand(dy_uid) : nullptr;
  add(*graph, kind, x, dy)
      ->set_output(true)
      .set_uid(y_uid)
      .set_data_type(type)
      .set_dim(shape)
      .set_stride(strides);
  constexpr const char* what = "an engine for a graph of element-by-element operations";
  check_frontend(what, graph->validate());
  check_frontend(what, target.properties != nullptr ? graph->build_operation_graph()
                                                    : graph->build_operation_graph(target.handle));
  check_frontend(what, graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
  check_frontend(what, graph->check_support());
  check_frontend(what, graph->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
  return graph;
}

Call make_pointwise_graph(cudnnHandle_t handle, Activation kind, bool gradient, const TensorSpec& spec) {
  const auto graph = plan_pointwise_graph(kind, gradient, spec, {.handle = handle});
  std::int64_t bytes = 0;
  check_frontend("get the workspace of a pointwise graph", graph->get_workspace_size(bytes));
  return {"cudnn:pointwise_graph",
          [graph, handle, gradient](Places from, Places to, void* workspace) {
            std::unordered_map<std::int64_t, void*> pointers{{x_uid, from[0]}, {y_uid, to[0]}};
            if (gradient) pointers[dy_uid] = from[1];
            check_frontend("execute a pointwise graph", graph->execute(handle, pointers, workspace));
          },
          bytes};
}

}  // namespace assay::cuda
