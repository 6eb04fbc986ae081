// cuDNN's backend API: descriptions made of attributes.
#include <algorithm>
#include <cstring>
#include <limits>

#include "tests/stand_in/dnn_graph.hpp"

using namespace assay::stand_in;

namespace {

struct Description {
  struct Attribute {
    cudnnBackendAttributeType_t type{};
    std::int64_t count = 0;
    std::vector<std::byte> bytes;
    std::vector<std::shared_ptr<Description>> parts;  // of the type "backend descriptor"
  };

  explicit Description(cudnnBackendDescriptorType_t type_of) : type(type_of) {}

  template <typename T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.bytes.size() / sizeof(T));
    std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  template <typename T>
  T one(cudnnBackendAttributeName_t name, T otherwise) const {
    const std::vector<T> values = all<T>(name);
    return values.empty() ? otherwise : values.front();
  }
  std::vector<std::shared_ptr<Description>> parts(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? std::vector<std::shared_ptr<Description>>() : found->second.parts;
  }
  std::shared_ptr<Description> part(cudnnBackendAttributeName_t name) const {
    const auto found = parts(name);
    return found.empty() ? nullptr : found.front();
  }

  cudnnBackendDescriptorType_t type;
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  // What it stands for, once it is final.
  std::shared_ptr<const DnnGraph> graph;                     // of a graph, an engine and a heuristic
  std::vector<std::shared_ptr<Description>> configurations;  // of a heuristic
  Engine engine;                                             // of an engine and its configuration
  std::shared_ptr<const Plan> plan;
};

// What a caller has: the description may be shared, as a part of others.
struct Handle {
  std::shared_ptr<Description> description;
};
Description& described(cudnnBackendDescriptor_t handle) { return *static_cast<Handle*>(handle)->description; }

std::size_t size_of_type(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
      return 8;
    default:
      return 4;
  }
}

cudnnStatus_t missing(const char* what) { return refuse(CUDNN_STATUS_BAD_PARAM, what); }

GraphTensor tensor_of(const Description& d) {
  GraphTensor tensor;
  tensor.uid = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, -1);
  tensor.shaped = {number_of(d.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)),
                   d.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                   d.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES)};
  tensor.alignment = static_cast<std::uint64_t>(d.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1));
  tensor.is_virtual = d.one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  tensor.is_by_value = d.one<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0;
  return tensor;
}

// The names of a convolution's attributes, by kind.
struct ConvolutionNames {
  GraphStep::Kind kind;
  cudnnBackendAttributeName_t a, b, result, how, alpha, beta;
};
constexpr ConvolutionNames forward_names{GraphStep::Kind::forward,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr ConvolutionNames data_names{GraphStep::Kind::input_gradient,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr ConvolutionNames filter_names{GraphStep::Kind::weight_gradient,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

cudnnStatus_t add_convolution(const Description& d, const ConvolutionNames& names, DnnGraph& graph) {
  const auto a = d.part(names.a), b = d.part(names.b), result = d.part(names.result), how = d.part(names.how);
  if (!a || !b || !result || !how) return missing("a convolution lacks a tensor or its description");
  GraphStep step;
  step.kind = names.kind;
  step.operands = {tensor_of(*a), tensor_of(*b)};
  step.results = {tensor_of(*result)};
  step.padding = how->all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  step.stride = how->all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  step.dilation = how->all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const bool plain =
      how->one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION) == CUDNN_CROSS_CORRELATION &&
      how->one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_DOUBLE) == CUDNN_DATA_FLOAT &&
      d.one(names.alpha, 0.0F) == 1 && d.one(names.beta, 1.0F) == 0;
  if (!plain || step.padding.size() != 2 || step.dilation.size() != 2 || step.a().shaped.dims.size() != 4)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a convolution that the stand-in does not have");
  graph.steps.push_back(std::move(step));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t add_pointwise(const Description& d, DnnGraph& graph) {
  const auto how = d.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  if (!how) return missing("an operation has no mode");
  GraphStep step;
  step.mode = how->one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
  step.upper_clip = how->one(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, std::numeric_limits<double>::max());
  step.softplus_beta = how->one(CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, 1.0);
  step.axis = how->one(CUDNN_ATTR_POINTWISE_AXIS, std::int64_t{-1});
  std::shared_ptr<Description> a, b, c, result;
  switch (step.mode) {
    case CUDNN_POINTWISE_BINARY_SELECT:
      c = d.part(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
      if (!c) return missing("a choice lacks what decides it");
      [[fallthrough]];
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_CMP_GE:
    case CUDNN_POINTWISE_CMP_GT:
      b = d.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
      if (!b) return missing("an operation lacks its second operand");
      [[fallthrough]];
    case CUDNN_POINTWISE_ABS:
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_GEN_INDEX:
    case CUDNN_POINTWISE_RELU_FWD:
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
      a = d.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
      result = d.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      break;
    case CUDNN_POINTWISE_SOFTPLUS_BWD:
      a = d.part(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC);
      b = d.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
      result = d.part(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC);
      break;
    default:
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a mode that the stand-in does not have");
  }
  if (!a || !result) return missing("an operation lacks an operand or its result");
  step.operands = {tensor_of(*a)};
  step.results = {tensor_of(*result)};
  if (b) step.operands.push_back(tensor_of(*b));
  if (c) step.operands.push_back(tensor_of(*c));
  graph.steps.push_back(std::move(step));
  return CUDNN_STATUS_SUCCESS;
}

// The operands and results of a step of this kind, none of which may be missing.
cudnnStatus_t add_step(const Description& d, GraphStep step,
                       const std::vector<cudnnBackendAttributeName_t>& operands,
                       const std::vector<cudnnBackendAttributeName_t>& results, DnnGraph& graph) {
  const auto add = [&](const auto& names, std::vector<GraphTensor>& to) {
    for (const auto name : names) {
      const auto part = d.part(name);
      if (!part) return false;
      to.push_back(tensor_of(*part));
    }
    return true;
  };
  if (!add(operands, step.operands) || !add(results, step.results))
    return missing("an operation lacks a tensor");
  for (const GraphTensor& tensor : step.results) {
    if (tensor.shaped.dims.size() != 4)
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "an operation on other than four dimensions");
  }
  graph.steps.push_back(std::move(step));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t add_product(const Description& d, DnnGraph& graph) {
  if (d.part(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a product of sizes that the stand-in does not know");
  return add_step(d, {.kind = GraphStep::Kind::product},
                  {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
                  {CUDNN_ATTR_OPERATION_MATMUL_CDESC}, graph);
}

cudnnStatus_t add_reduction(const Description& d, DnnGraph& graph) {
  const auto how = d.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  if (!how) return missing("a reduction has no operator");
  const auto mode = how->one(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_MUL);
  if (mode != CUDNN_REDUCE_TENSOR_ADD && mode != CUDNN_REDUCE_TENSOR_MAX)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a reduction that the stand-in does not have");
  return add_step(d, {.kind = GraphStep::Kind::reduction, .is_maximum = mode == CUDNN_REDUCE_TENSOR_MAX},
                  {CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, {CUDNN_ATTR_OPERATION_REDUCTION_YDESC}, graph);
}

// Another view of the same memory: here only with the last two dimensions exchanged.
cudnnStatus_t add_reshape(const Description& d, DnnGraph& graph) {
  const cudnnStatus_t added =
      add_step(d, {.kind = GraphStep::Kind::transposition}, {CUDNN_ATTR_OPERATION_RESHAPE_XDESC},
               {CUDNN_ATTR_OPERATION_RESHAPE_YDESC}, graph);
  if (added != CUDNN_STATUS_SUCCESS) return added;
  Shaped x = graph.steps.back().a().shaped;
  const Shaped& y = graph.steps.back().result().shaped;
  std::swap(x.dims[2], x.dims[3]);
  std::swap(x.strides[2], x.strides[3]);
  if (x.dims == y.dims && x.strides == y.strides) return CUDNN_STATUS_SUCCESS;
  return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a view that the stand-in does not have");
}

#if CUDNN_VERSION >= 91301
cudnnStatus_t add_attention(const Description& d, DnnGraph& graph) {
  std::vector results{CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC};
  if (d.part(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC))
    results.push_back(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC);
  return add_step(d, {.kind = GraphStep::Kind::attention},
                  {CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
                   CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC},
                  results, graph);
}
#endif

// Batch normalisation or its gradient.
cudnnStatus_t add_norm(const Description& d, GraphStep::Kind kind, DnnGraph& graph) {
  using Names = std::vector<cudnnBackendAttributeName_t>;
  const bool forward = kind == GraphStep::Kind::norm;
  const Names operands =
      forward ? Names{CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
                      CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC}
              : Names{CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC,
                      CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
                      CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC};
  const Names results =
      forward ? Names{CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
                      CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC}
              : Names{CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
                      CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC};
  const auto mode = forward ? CUDNN_ATTR_OPERATION_NORM_FWD_MODE : CUDNN_ATTR_OPERATION_NORM_BWD_MODE;
  if (d.one(mode, CUDNN_LAYER_NORM) != CUDNN_BATCH_NORM ||
      d.part(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a normalisation that the stand-in does not have");
  return add_step(d, {.kind = kind}, operands, results, graph);
}

cudnnStatus_t make_graph(Description& d) {
  auto graph = std::make_shared<DnnGraph>();
  for (const auto& operation : d.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    switch (operation->type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        status = add_convolution(*operation, forward_names, *graph);
        break;
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        status = add_convolution(*operation, data_names, *graph);
        break;
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        status = add_convolution(*operation, filter_names, *graph);
        break;
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        status = add_pointwise(*operation, *graph);
        break;
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        status = add_norm(*operation, GraphStep::Kind::norm, *graph);
        break;
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        status = add_norm(*operation, GraphStep::Kind::norm_gradient, *graph);
        break;
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        status = add_product(*operation, *graph);
        break;
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        status = add_reduction(*operation, *graph);
        break;
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        status = add_reshape(*operation, *graph);
        break;
#if CUDNN_VERSION >= 91301
      case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR:
        status = add_attention(*operation, *graph);
        break;
#endif
      default:
        break;
    }
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  if (graph->steps.empty()) return missing("a graph without operations");
  d.graph = std::move(graph);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ask(Description& d) {
  const auto graph = d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (!graph) return missing("a heuristic without a graph");
  const auto mode = d.one(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_INSTANT);
  for (const Engine& engine : engines_of(*graph->graph, mode)) {
    auto& configuration =
        d.configurations.emplace_back(std::make_shared<Description>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    configuration->graph = graph->graph;
    configuration->engine = engine;
    configuration->is_final = true;
  }
  return d.configurations.empty() ? refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine has this graph")
                                  : CUDNN_STATUS_SUCCESS;
}

// Plans that were written, by the number that stands for one. Never destroyed: another process may read them.
std::map<std::string, Plan>& written() {
  static auto* const plans = new std::map<std::string, Plan>;
  return *plans;
}

std::string write(const Plan& plan) {
  const std::string text = R"({"plan":)" + std::to_string(written().size()) + "}";
  written().emplace(text, Plan{std::make_shared<DnnGraph>(*plan.graph), plan.engine});
  return text;
}

cudnnStatus_t read(Description& d, const std::vector<char>& text) {
  const auto found = written().find(std::string(text.begin(), text.end()));
  if (found == written().end()) return refuse(CUDNN_STATUS_BAD_PARAM, "no plan that was written");
  d.plan = std::make_shared<const Plan>(found->second);
  d.plan->graph->built_last = d.plan;
  auto configuration = std::make_shared<Description>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration->graph = d.plan->graph;
  configuration->engine = d.plan->engine;
  configuration->is_final = true;
  d.configurations = {std::move(configuration)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t build(Description& d) {
  if (const auto text = d.all<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION); !text.empty())
    return read(d, text);
  const auto configuration = d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!configuration) return missing("a plan without an engine");
  if (!configuration->engine.can_be_built)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the engine cannot be built for this device");
  const std::int64_t without_memory = machine().conditions.plans_without_memory_from;
  if (machine().plans++ >= without_memory && without_memory >= 0)
    return refuse(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, "no memory for a plan");
  d.plan = std::make_shared<const Plan>(Plan{configuration->graph, configuration->engine});
  d.plan->graph->built_last = d.plan;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish_tensor(const Description& d) {
  for (const auto name :
       {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,
        CUDNN_ATTR_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT}) {
    if (!d.attributes.contains(name)) return missing("a tensor lacks an attribute");
  }
  const auto type = d.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_DOUBLE);
  const bool is_index = type == CUDNN_DATA_INT32 && d.one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  if (!is_known(type) && type != CUDNN_DATA_BOOLEAN && !is_index)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  "the stand-in has float, bfloat16, bits and, within a graph, indices");
  return CUDNN_STATUS_SUCCESS;
}

// Fills the descriptions that the caller made for the answer.
cudnnStatus_t give_parts(const std::vector<std::shared_ptr<Description>>& parts, std::int64_t requested,
                         std::int64_t* count, void* to) {
  if (count != nullptr) *count = static_cast<std::int64_t>(parts.size());
  if (to == nullptr) return CUDNN_STATUS_SUCCESS;
  auto* const handles = static_cast<cudnnBackendDescriptor_t*>(to);
  for (std::size_t i = 0; i < std::min(parts.size(), static_cast<std::size_t>(requested)); ++i)
    static_cast<Handle*>(handles[i])->description = parts[i];
  return CUDNN_STATUS_SUCCESS;
}

template <typename T>
cudnnStatus_t give(const std::vector<T>& values, std::int64_t requested, std::int64_t* count, void* to) {
  if (count != nullptr) *count = static_cast<std::int64_t>(values.size());
  const std::size_t given = std::min(values.size(), static_cast<std::size_t>(requested));
  if (to != nullptr && given > 0) std::memcpy(to, values.data(), given * sizeof(T));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* handle) {
  *handle = new Handle{std::make_shared<Description>(type)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  delete static_cast<Handle*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  Description& d = described(handle);
  if (d.is_final) return refuse(CUDNN_STATUS_BAD_PARAM, "the description is final");
  if (values == nullptr && count > 0) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no values");
  Description::Attribute attribute{type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* const handles = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i) {
      attribute.parts.push_back(static_cast<Handle*>(handles[i])->description);
      if (!attribute.parts.back()->is_final)
        return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not final");
    }
  } else {
    const auto* const first = static_cast<const std::byte*>(values);
    attribute.bytes.assign(first, first + static_cast<std::size_t>(count) * size_of_type(type));
  }
  d.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  Description& d = described(handle);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      status = finish_tensor(d);
      break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      status = make_graph(d);
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      status = ask(d);
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      status = build(d);
      break;
    default:
      break;
  }
  d.is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t requested,
                                       std::int64_t* count, void* values) {
  const Description& d = described(handle);
  if (!d.is_final) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the description is not final");
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return give_parts(d.configurations, requested, count, values);
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
      auto engine = std::make_shared<Description>(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      engine->engine = d.engine;
      engine->is_final = true;
      return give_parts({engine}, requested, count, values);
    }
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      return give_parts({}, requested, count, values);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      return give(std::vector{d.engine.workspace_bytes}, requested, count, values);
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
      return give(std::vector{std::int32_t{0}}, requested, count, values);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return give(std::vector{d.engine.index}, requested, count, values);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return give(d.engine.numerical, requested, count, values);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      return give(d.engine.behavior, requested, count, values);
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      return give_parts(d.configurations, requested, count, values);
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: {
      // The caller asks for the size first.
      static std::string text;
      if (values == nullptr) text = write(*d.plan);
      return give(std::vector<char>(text.begin(), text.end()), requested, count, values);
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return give(std::vector{d.plan->engine.workspace_bytes}, requested, count, values);
    case CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION: {
      const std::string text = R"({"deviceName":"stand-in"})";
      return give(std::vector<char>(text.begin(), text.end()), requested, count, values);
    }
    default:
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "an attribute that the stand-in does not have");
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                  cudnnBackendDescriptor_t pack_handle) {
  std::shared_ptr<const Plan> plan = described(plan_handle).plan;
  const Description& given = described(pack_handle);
  if (plan == nullptr || !given.is_final)
    return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or its pack");
  if (const auto last = plan->graph->built_last.lock(); machine().conditions.runs_the_plan_built_last && last)
    plan = last;
  Pack pack;
  pack.workspace = given.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  // cudnn-frontend places its own tensors before that of an attention's engine, and does not round their bytes.
  const std::uint64_t alignment = has_attention(*plan->graph) ? sizeof(float) : 256;
  if (plan->engine.workspace_bytes > 0 && !is_aligned(pack.workspace, alignment))
    return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the workspace is not aligned");
  const auto uids = given.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto addresses = given.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (uids.size() != addresses.size())
    return refuse(CUDNN_STATUS_BAD_PARAM, "uids and addresses differ in number");
  for (std::size_t i = 0; i < uids.size(); ++i) pack.addresses[uids[i]] = addresses[i];
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  for (const GraphStep& step : plan->graph->steps) {
    step.for_each_tensor([&](const GraphTensor& tensor) {
      if (tensor.is_virtual || status != CUDNN_STATUS_SUCCESS) return;
      const auto found = pack.addresses.find(tensor.uid);
      if (found == pack.addresses.end()) {
        status = refuse(CUDNN_STATUS_BAD_PARAM, "a tensor has no address");
      } else if (tensor.is_by_value) {
        // The caller may change the number after the call.
        pack.numbers[tensor.uid] = load(found->second, tensor.shaped.number, 0);
      } else if (!is_aligned(found->second, tensor.alignment)) {
        status = refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is not aligned as it says");
      }
    });
  }
  if (status != CUDNN_STATUS_SUCCESS) return status;
  // Code that was compiled for a plan is gone with it.
  const bool compiled = plan->engine.is_compiled_at_run_time();
  enqueue(handle->stream, [pack, kept = compiled ? nullptr : plan, owner = std::weak_ptr(plan)] {
    const auto there = kept != nullptr ? kept : owner.lock();
    if (there == nullptr) return fault("the code of a plan of cuDNN ran after the plan was destroyed");
    compute(*there, pack);
  });
  return CUDNN_STATUS_SUCCESS;
}
