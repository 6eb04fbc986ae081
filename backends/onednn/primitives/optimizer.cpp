// SGD, RMSprop and Adam, tensor by tensor, made of oneDNN's elementwise primitives. A parameter keeps the
// format that its layer chose: these primitives see its storage as one row of floats, including padding,
// which is zero and stays zero.
#include "backends/onednn/adam_step.hpp"
#include "backends/onednn/primitives/composition.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

using dnnl::algorithm;

// A parameter with its gradient and moments.
struct Group {
  Term parameter, gradient;  // the gradient includes weight decay
  std::vector<Term> moments;
  Term new_parameter;
  std::vector<Term> new_moments;
};

Term learning_rate(Composition& steps) { return steps.input(0, row_major({DType::f32, {1}})); }

struct Sgd {
  static void update(const Request& request, Composition& steps, const Group& g) {
    const Term delta = steps.temporary(g.parameter.desc);
    if (g.moments.empty()) {
      steps.binary(algorithm::binary_mul, g.gradient, learning_rate(steps), delta);
    } else {
      const auto momentum = static_cast<float>(request.node.attributes.number("momentum"));
      steps.sum(momentum, g.moments[0], 1, g.gradient, g.new_moments[0]);
      steps.binary(algorithm::binary_mul, g.new_moments[0], learning_rate(steps), delta);
    }
    steps.binary(algorithm::binary_sub, g.parameter, delta, g.new_parameter);
  }
};

struct Rmsprop {
  static void update(const Request& request, Composition& steps, const Group& g) {
    const Attributes& a = request.node.attributes;
    const Term divisor = steps.temporary(g.parameter.desc), delta = steps.temporary(g.parameter.desc);
    steps.eltwise(algorithm::eltwise_square, g.gradient, divisor);
    steps.sum(static_cast<float>(a.number("decay")), g.moments[0], static_cast<float>(1 - a.number("decay")),
              divisor, g.new_moments[0]);
    steps.eltwise(algorithm::eltwise_sqrt, g.new_moments[0], divisor);
    steps.eltwise(algorithm::eltwise_linear, divisor, divisor, 1, static_cast<float>(a.number("epsilon")));
    steps.binary(algorithm::binary_div, g.gradient, divisor, delta);
    steps.binary(algorithm::binary_mul, delta, learning_rate(steps), delta);
    steps.binary(algorithm::binary_sub, g.parameter, delta, g.new_parameter);
  }
};

// Two numbers that depend on the step, computed by the host as any user of the library does:
// lr / (1 - beta1^t) and 1 / sqrt(1 - beta2^t).
class BiasCorrection final : public Kernel {
 public:
  BiasCorrection(const Attributes& attributes, std::int64_t step_size, std::int64_t inverse_root)
      : rule_(attributes), step_size_(step_size), inverse_root_(inverse_root) {}
  void bind(std::span<void* const> inputs, std::span<void* const>, void* scratch) override {
    schedule_ = static_cast<const float*>(inputs[0]);
    scratch_ = static_cast<char*>(scratch);
  }
  void run() override {
    rule_.begin_step(static_cast<double>(schedule_[0]), static_cast<double>(schedule_[1]));
    *reinterpret_cast<float*>(scratch_ + step_size_) = rule_.step.step_size;
    *reinterpret_cast<float*>(scratch_ + inverse_root_) = rule_.step.inverse_root;
  }
  std::string_view implementation() const override { return "host"; }

 private:
  AdamRule rule_;
  std::int64_t step_size_, inverse_root_;  // offsets in the scratch
  const float* schedule_ = nullptr;
  char* scratch_ = nullptr;
};

struct Adam {
  static void update(const Request& request, Composition& steps, const Group& g) {
    const AdamStep rule = AdamRule(request.node.attributes).step;
    const Desc one = row_major({DType::f32, {1}});
    const Term step_size = steps.temporary(one), inverse_root = steps.temporary(one);
    steps.run(
        std::make_unique<BiasCorrection>(request.node.attributes, step_size.offset, inverse_root.offset));
    const Term divisor = steps.temporary(g.parameter.desc), delta = steps.temporary(g.parameter.desc);
    steps.sum(rule.beta1, g.moments[0], rule.rest1, g.gradient, g.new_moments[0]);
    steps.eltwise(algorithm::eltwise_square, g.gradient, divisor);
    steps.sum(rule.beta2, g.moments[1], rule.rest2, divisor, g.new_moments[1]);
    steps.eltwise(algorithm::eltwise_sqrt, g.new_moments[1], divisor);
    steps.binary(algorithm::binary_mul, divisor, inverse_root, divisor);
    steps.eltwise(algorithm::eltwise_linear, divisor, divisor, 1, rule.epsilon);
    steps.binary(algorithm::binary_div, g.new_moments[0], divisor, delta);
    steps.binary(algorithm::binary_mul, delta, step_size, delta);
    if (const auto decay = static_cast<float>(AdamRule(request.node.attributes).decoupled); decay != 0) {
      steps.binary(algorithm::binary_mul, g.parameter, learning_rate(steps), divisor);
      steps.sum(1, delta, decay, divisor, delta);
    }
    steps.binary(algorithm::binary_sub, g.parameter, delta, g.new_parameter);
  }
};

// Operands schedule, then in groups parameter, gradient, moments; results in groups parameter, moments.
template <typename Rule>
Lowered lower_optimizer(const Request& request) {
  const auto operands = static_cast<std::size_t>(request.node.op->repeats());
  const std::size_t results = operands - 1;
  const bool decoupled = request.node.attributes.get_or("decoupled", false);
  const auto decay = static_cast<float>(decoupled ? 0 : request.node.attributes.number("weight_decay"));
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(row_major(request.inputs[0]));
  lowered.in_place = in_place(request.node);
  Composition steps(request);
  for (std::size_t i = 1, o = 0; i < request.node.inputs.size(); i += operands, o += results) {
    const Format format = group_format(request, i);
    const Desc row = row_major({DType::f32, {format.bytes / static_cast<std::int64_t>(sizeof(float))}});
    Group group{steps.input(i, row), steps.input(i + 1, row), {}, steps.output(o, row), {}};
    lowered.inputs[i] = lowered.inputs[i + 1] = lowered.outputs[o] = format;
    for (std::size_t m = 2; m < operands && request.has_input(i + m); ++m) {
      group.moments.push_back(steps.input(i + m, row));
      group.new_moments.push_back(steps.output(o + m - 1, row));
      lowered.inputs[i + m] = lowered.outputs[o + m - 1] = format;
    }
    if (decay != 0) {
      const Term decayed = steps.temporary(row);
      steps.sum(1, group.gradient, decay, group.parameter, decayed);
      group.gradient = decayed;
    }
    Rule::update(request, steps, group);
  }
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> optimizer_ops() {
  static constexpr std::array entries{OpEntry{"sgd", lower_optimizer<Sgd>},
                                      OpEntry{"rmsprop", lower_optimizer<Rmsprop>},
                                      OpEntry{"adam", lower_optimizer<Adam>}};
  return entries;
}

}  // namespace assay::onednn::primitives
