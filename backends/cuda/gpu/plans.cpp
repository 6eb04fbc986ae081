#include "backends/cuda/gpu/plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/gpu/check.hpp"
#include "harness/core/clock.hpp"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;

// A larger workspace is refused: it would be part of the planned memory of the whole step.
constexpr std::int64_t max_workspace = std::int64_t{1} << 30;
// Rises when a spec gets another graph, other numbers of its tensors among them.
constexpr int graph_rules = 1;

// In the order of a shape's dimensions (N, C, H, W).
std::vector<std::int64_t> strides_in(const Shape& shape, bool channels_last) {
  const Strides s = strides_of(shape, channels_last ? Layout::channels_last : Layout::plain);
  return {s.n, s.c, s.h, s.w};
}

}  // namespace

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

GraphTensor Images::add(fe::graph::Graph& graph, std::int64_t uid, fe::DataType_t type) const {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(uid)
                          .set_dim(shape)
                          .set_stride(strides_in(shape, channels_last))
                          .set_data_type(type));
}
void Images::give(fe::graph::Tensor_attributes& tensor, std::int64_t uid, fe::DataType_t type) const {
  tensor.set_output(true).set_uid(uid).set_data_type(type).set_dim(shape).set_stride(
      strides_in(shape, channels_last));
}
GraphTensor add_vector(fe::graph::Graph& graph, std::int64_t uid, std::int64_t channels) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(uid)
                          .set_dim({1, channels, 1, 1})
                          .set_stride({channels, 1, channels, channels})
                          .set_data_type(fe::DataType_t::FLOAT));
}

std::string CudnnPlans::take_first() {
  if (std::string missing = ask(); !missing.empty()) return missing;
  std::string reason = "no engine can be built";
  std::exception_ptr failure;
  for (engine_ = 0; engine_ < count(); ++engine_) {
    try {
      const auto built = graph_->build_plan_at_index(engine_);
      has_taken_ = built.is_good();
      if (has_taken_) return {};
      reason = reason_of("build an engine", built);
    } catch (const std::runtime_error&) {
      failure = std::current_exception();  // another engine may do
    }
  }
  if (failure) std::rethrow_exception(failure);
  return reason;
}

bool CudnnPlans::take_given(const std::string& name) {
  const std::string plan = name.substr(0, name.find(":workspace"));
  if (plan.substr(std::min(plan.find('+'), plan.size())) != suffix()) return false;
  if (take_kept(name)) return true;
  if (!ask().empty()) return false;
  for (engine_ = 0; engine_ < count(); ++engine_) {
    if (!name.starts_with(prefix_of(engine_)) || !build(engine_)) continue;
    measured_ = true;
    if (taken() != name) continue;
    keep();
    return true;
  }
  measured_ = false;
  return false;
}

Faster CudnnPlans::take_if_faster(const std::string& own, const std::function<AgainstOwn()>& search) {
  const std::string given = target_.choices->given(spec_);
  if (given == own || (!given.empty() && take_given(given))) {
    target_.choices->reuse();
    return given == own ? Faster::own : Faster::library;
  }
  if (!given.empty())
    fmt::print(stderr, "[{}] an engine is searched again: cuDNN does not offer {}\n", what_, given);
  if (!take_first().empty()) return Faster::unknown;
  const AgainstOwn found = search();
  if (!found.engine && !is_wrong_) return Faster::unknown;
  if (!found.engine || *found.engine >= found.own) return Faster::own;
  keep();
  return Faster::library;
}

std::string CudnnPlans::key() const {
  return fmt::format("{}, graph {}, frontend {}", spec_, graph_rules, CUDNN_FRONTEND_VERSION);
}

bool CudnnPlans::take_kept(const std::string& name) {
  try {
    const std::vector<std::uint8_t> bytes = target_.choices->plan(key(), name);
    if (bytes.empty()) return false;
    graph_ = std::make_unique<fe::graph::Graph>();
    constexpr bool only_plans = true, runs_it = false;
    check_frontend("read a plan", graph_->deserialize(target_.handle, bytes, only_plans, runs_it));
    engine_ = 0;
    if (name.find(fmt::format(":workspace{}:", bytes_of_plan(engine_))) == std::string::npos) return false;
    kept_name_ = name;
    return true;
  } catch (const std::exception& error) {
    fmt::print(stderr, "[{}] a plan is built again, because the kept one cannot be read: {}\n", what_,
               error.what());
    return false;
  }
}

void CudnnPlans::keep() {
  if (!measured_) return;
  std::vector<std::uint8_t> bytes;
  constexpr bool with_operations = false;
  try {
    // It is built; this makes it the one that is written.
    check_frontend("build an engine", graph_->build_plan_at_index(engine_));
    check_frontend("write a plan", graph_->serialize(bytes, with_operations));
    target_.choices->keep_plan(key(), taken(), bytes);
  } catch (const std::exception& error) {
    fmt::print(stderr, "[{}] a plan is not kept: {}\n", what_, error.what());
  }
}

std::optional<double> CudnnPlans::take_fastest(Memory& trial, const SearchLimits& limits) {
  const SearchResult found = fastest_engine(*this, trial, limits);
  // A comparison that found no memory left its run enqueued.
  ASSAY_CUDA(cudaStreamSynchronize(target_.stream));
  for (const auto& [engine, error] : found.wrong)
    target_.choices->refuse(name_of(engine), spec_, error, limits.error);
  is_wrong_ = !found.fastest && !found.wrong.empty();
  if (!found.fastest) return {};
  engine_ = found.fastest->engine;
  measured_ = true;
  return found.fastest->seconds;
}

PlannedEngine CudnnPlans::plan_first() {
  const auto start = std::chrono::steady_clock::now();
  if (std::string reason = take_first(); !reason.empty()) return {.missing = std::move(reason)};
  return {taken(), {}, count(), bytes_of_plan(engine_), is_generated(engine_), seconds_since(start)};
}

bool CudnnPlans::is_generated(std::int64_t engine) const {
  std::vector<fe::BehaviorNote_t> notes;
  return graph_->get_behavior_notes_for_plan_at_index(engine, notes).is_good() &&
         std::ranges::find(notes, fe::BehaviorNote_t::RUNTIME_COMPILATION) != notes.end();
}

bool CudnnPlans::build(std::int64_t engine) {
  try {
    return reason_of("build an engine", graph_->build_plan_at_index(engine)).empty();
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "[{}] an engine is left out: {}\n", what_, error.what());
    return false;
  }
}

std::optional<double> CudnnPlans::measure(std::int64_t engine, void* workspace) {
  constexpr int calls = 10;
  try {
    return captured_seconds(target_, [&] { try_run(engine, workspace); }, calls);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "[{}] an engine is left out: {}\n", what_, error.what());
    return {};
  }
}

std::int64_t CudnnPlans::bytes_of_plan(std::int64_t engine) const {
  std::int64_t bytes = 0;
  check_frontend("ask for a workspace", graph_->get_workspace_size_plan_at_index(engine, bytes));
  return bytes;
}

void CudnnPlans::execute(std::int64_t engine, std::initializer_list<Place> places, void* workspace) {
  for (const auto& [uid, place] : places)
    if (place != nullptr) pointers_[uid] = const_cast<void*>(place);
  check_frontend("execute a plan",
                 graph_->execute_plan_at_index(target_.handle, pointers_, workspace, engine));
}

std::string CudnnPlans::ask() {
  std::string reason = ask_once();
  while (!reason.empty() && describes_otherwise()) reason = ask_once();
  return reason;
}

std::string CudnnPlans::ask_once() {
  graph_ = std::make_unique<fe::graph::Graph>();
  graph_->set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
  if (target_.properties != nullptr)
    graph_->set_device_properties(target_.properties).set_sm_version(target_.architecture);
  describe(*graph_);
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

std::string CudnnPlans::prefix_of(std::int64_t engine) const {
  std::string plan;
  if (graph_->get_plan_name_at_index(engine, plan).is_bad()) plan = "?";
  return fmt::format("cudnn:{}{}:workspace", plan, suffix());
}
std::string CudnnPlans::name_of(std::int64_t engine) const {
  return fmt::format("{}{}", prefix_of(engine), bytes_of_plan(engine));
}

}  // namespace assay::cuda
