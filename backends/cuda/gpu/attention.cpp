#include "backends/cuda/gpu/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>
#include <vector>

#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/compared_results.hpp"
#include "backends/cuda/gpu/plans.hpp"
#include "backends/cuda/workspace.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;

// Of our own kernels, where they are as fast as the best of cuDNN's.
constexpr const char* own_attention_name = "own:attention:measured";

class CudnnAttention final : public Attention, public CudnnPlans {
  enum Uid : std::int64_t { q_uid = 1, k_uid, v_uid, y_uid, logsumexp_uid, dy_uid, dq_uid, dk_uid, dv_uid };

 public:
  CudnnAttention(const AttentionSpec& spec, const Target& target)
      : CudnnPlans(target, "attention", text_of(spec)), spec_(spec) {}

  std::int64_t workspace_bytes() const override { return bytes_of_plan(engine()); }
  std::string name() const override { return taken(); }
  void run(const AttentionOperands& operands, void* workspace) override {
    run(engine(), operands, workspace);
  }

  // On noise.
  AgainstOwn search(Memory& trial, const MakeOwnAttention& make_own);

 private:
  bool describes_otherwise() override { return !is_gradient() && !std::exchange(in_parts_, true); }
  bool is_gradient() const { return spec_.kind == AttentionSpec::Kind::gradient; }
  void describe(fe::graph::Graph& graph) const override;
  std::vector<fe::NumericalNote_t> refused_notes() const override {
    return {fe::NumericalNote_t::DOWN_CONVERT_INPUTS, fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  }
  std::int64_t workspace_bytes(std::int64_t engine) const override { return bytes_of_plan(engine); }
  void try_run(std::int64_t engine, void* workspace) override { run(engine, trial_, workspace); }
  double error(std::int64_t engine, void* workspace) override {
    compared_.clear(*memory_);
    try_run(engine, workspace);
    return compared_.largest(Stream{target().stream}, *memory_) * allowed_of(1);
  }

  void run(std::int64_t engine, const AttentionOperands& at, void* workspace) {
    check_workspace("cudnn", workspace, bytes_of_plan(engine));
    execute(engine,
            {{q_uid, at.q},
             {k_uid, at.k},
             {v_uid, at.v},
             {y_uid, at.y},
             {logsumexp_uid, at.logsumexp},
             {dy_uid, at.dy},
             {dq_uid, at.dq},
             {dk_uid, at.dk},
             {dv_uid, at.dv}},
            workspace);
  }

  // Of a result in bf16: weights or gradients of scores are rounded to it, too.
  double allowed_of(int roundings) const {
    return allowed_error(DType::bf16, DType::bf16, false, std::max(spec_.queries, spec_.keys), roundings);
  }

  // (N, H, S, D), as the heads of positions that are `row` elements apart lie in memory.
  struct Form {
    std::vector<std::int64_t> dims, strides;
  };
  Form form_of(std::int64_t positions, std::int64_t heads, std::int64_t row) const {
    return {{spec_.samples, heads, positions, spec_.depth}, {positions * row, spec_.depth, row, 1}};
  }
  Form of_queries() const { return form_of(spec_.queries, spec_.heads, spec_.row_of_q()); }
  Form of_keys() const { return form_of(spec_.keys, spec_.groups, spec_.row_of_k()); }
  Form of_results() const { return form_of(spec_.queries, spec_.heads, spec_.row_of_y()); }
  Form of_rows() const {
    return {{spec_.samples, spec_.heads, spec_.queries, 1},
            {spec_.heads * spec_.queries, spec_.queries, 1, 1}};
  }
  static GraphTensor add(fe::graph::Graph& graph, std::int64_t uid, const Form& form,
                         fe::DataType_t type = fe::DataType_t::BFLOAT16) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_uid(uid)
                            .set_dim(form.dims)
                            .set_stride(form.strides)
                            .set_data_type(type));
  }
  static void give(const GraphTensor& tensor, std::int64_t uid, const Form& form,
                   fe::DataType_t type = fe::DataType_t::BFLOAT16) {
    tensor->set_output(true).set_uid(uid).set_dim(form.dims).set_stride(form.strides).set_data_type(type);
  }

  AttentionSpec spec_;
  bool in_parts_ = false;    // as products and a softmax, not as one operation
  AttentionOperands trial_;  // while engines are measured
  ComparedResults compared_;
  Memory* memory_ = nullptr;
};

void CudnnAttention::describe(fe::graph::Graph& graph) const {
  const GraphTensor q = add(graph, q_uid, of_queries()), k = add(graph, k_uid, of_keys()),
                    v = add(graph, v_uid, of_keys());
  if (!is_gradient()) {
    auto attributes = fe::graph::SDPA_attributes();
    attributes.set_name("attention").set_generate_stats(spec_.saved).set_attn_scale(spec_.scale);
    if (spec_.causal) attributes.set_causal_mask(true);
    if (in_parts_) attributes.set_implementation(fe::AttentionImplementation_t::COMPOSITE);
    auto [y, logsumexp] = graph.sdpa(q, k, v, attributes);
    give(y, y_uid, of_results());
    if (spec_.saved) give(logsumexp, logsumexp_uid, of_rows(), fe::DataType_t::FLOAT);
    return;
  }
  auto attributes = fe::graph::SDPA_backward_attributes();
  attributes.set_name("attention").set_attn_scale(spec_.scale);
  if (spec_.causal) attributes.set_causal_mask(true);
  auto [dq, dk, dv] =
      graph.sdpa_backward(q, k, v, add(graph, y_uid, of_results()), add(graph, dy_uid, of_results()),
                          add(graph, logsumexp_uid, of_rows(), fe::DataType_t::FLOAT), attributes);
  give(dq, dq_uid, of_queries());
  give(dk, dk_uid, of_keys());
  give(dv, dv_uid, of_keys());
}

AgainstOwn CudnnAttention::search(Memory& trial, const MakeOwnAttention& make_own) {
  constexpr const char* purpose = "the search of an attention's engine";
  // Scores with a standard deviation of 4/3: some keys have most of the weight, and none has all of it.
  const auto sharp = static_cast<float>(std::clamp(
      4 / (static_cast<double>(spec_.scale) * std::sqrt(static_cast<double>(spec_.depth))), 0x1p-8, 0x1p8));
  constexpr double of_exponentials = 0x1p-13;  // of logsumexp, which libraries compute with fast ones
  memory_ = &trial;
  NoiseBuffers buffers(trial, purpose);
  const auto buffer = [&](std::int64_t elements, DType dtype, float scale = 1) {
    return buffers.add(elements, dtype, scale);
  };
  const std::int64_t queries = spec_.samples * spec_.queries * spec_.row_of_q(),
                     keys = spec_.samples * spec_.keys * spec_.row_of_k(),
                     results = spec_.samples * spec_.queries * spec_.row_of_y(),
                     rows = spec_.samples * spec_.heads * spec_.queries;
  AttentionOperands own;
  if (spec_.joined) {
    own.q = buffer(queries, DType::bf16, std::sqrt(sharp));  // and k
    find_parts(spec_, own);
  } else {
    own.q = buffer(queries, DType::bf16, sharp);
    own.k = buffer(keys, DType::bf16);
    own.v = buffer(keys, DType::bf16);
  }
  own.y = buffer(results, DType::bf16);
  own.logsumexp = static_cast<float*>(buffer(rows, DType::f32));
  const auto kernels = make_own(spec_, own_attention_name);
  const Storage workspace(trial, kernels->workspace_bytes(), purpose);
  trial_ = own;
  if (is_gradient()) {
    AttentionSpec before = spec_;
    before.kind = AttentionSpec::Kind::forward;
    before.saved = true;
    const auto forward = make_own(before, own_attention_name);
    const Storage of_forward(trial, forward->workspace_bytes(), purpose);
    forward->run(own, of_forward.data());
    own.dy = trial_.dy = buffer(results, DType::bf16);
    const auto twice = [&](void* AttentionOperands::* place, std::int64_t elements) {
      own.*place = buffer(elements, DType::bf16);
      trial_.*place = buffer(elements, DType::bf16);
    };
    twice(&AttentionOperands::dq, queries);
    if (spec_.joined) {
      find_parts(spec_, own);
      find_parts(spec_, trial_);
    } else {
      twice(&AttentionOperands::dk, keys);
      twice(&AttentionOperands::dv, keys);
    }
    const auto compare = [&](void* AttentionOperands::* place, std::int64_t positions, Runs runs,
                             int roundings) {
      compared_.add(trial_.*place, own.*place, spec_.samples * positions * runs.part, DType::bf16,
                    allowed_of(roundings), runs);
    };
    const Runs of_key{spec_.groups * spec_.depth, spec_.row_of_k()};
    compare(&AttentionOperands::dq, spec_.queries, {spec_.row_of_y(), spec_.row_of_q()}, 3);
    compare(&AttentionOperands::dk, spec_.keys, of_key, 3);
    compare(&AttentionOperands::dv, spec_.keys, of_key, 2);
    ASSAY_CUDA(cudaStreamSynchronize(target().stream));  // the workspace of the forward pass is released
  } else {
    trial_.y = buffer(results, DType::bf16);
    compared_.add(trial_.y, own.y, results, DType::bf16, allowed_of(2));
    if (spec_.saved) {
      trial_.logsumexp = static_cast<float*>(buffer(rows, DType::f32));
      compared_.add(trial_.logsumexp, own.logsumexp, rows, DType::f32, of_exponentials);
    } else {
      own.logsumexp = trial_.logsumexp = nullptr;
    }
  }
  constexpr int calls = 10;
  AgainstOwn found;
  found.own = captured_seconds(target(), [&] { kernels->run(own, workspace.data()); }, calls);
  SearchLimits limits;
  limits.error = allowed_of(1);
  found.engine = take_fastest(trial, limits);
  compared_.forget();
  return found;
}

}  // namespace

std::shared_ptr<Attention> make_cudnn_attention(const AttentionSpec& spec, const Target& target,
                                                Memory& trial, const MakeOwnAttention& make_own) {
  if (!spec.is_one_graph()) return nullptr;
  // The frontend copies lengths from the host in each run of a gradient, for versions with a fault.
  if (spec.kind == AttentionSpec::Kind::gradient && cudnnGetVersion() <= 91500) return nullptr;
  auto attention = std::make_shared<CudnnAttention>(spec, target);
  try {
    switch (
        attention->take_if_faster(own_attention_name, [&] { return attention->search(trial, make_own); })) {
      case Faster::library:
        return attention;
      case Faster::own:
        return make_own(spec, own_attention_name);
      case Faster::unknown:
        break;
    }
    return nullptr;
  } catch (const OutOfMemory& error) {
    if (!attention->has_taken()) return nullptr;
    fmt::print(stderr, "[attention] an engine is taken without a measurement: {}\n", error.what());
    return attention;
  } catch (const std::exception& error) {
    fmt::print(stderr, "[attention] our own kernels run: {}\n", error.what());
    return nullptr;
  }
}

PlannedEngine plan_attention(const AttentionSpec& spec, const Target& target) {
  return CudnnAttention(spec, target).plan_first();
}

}  // namespace assay::cuda
