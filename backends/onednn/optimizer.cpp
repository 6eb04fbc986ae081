// SGD, RMSprop and Adam over all tensors of a node in one parallel region. Parameters keep the formats that
// the matrix ops chose. The padding of a blocked format is zero in the gradient and the moments, so it stays
// zero in the parameter.
#include <algorithm>

#include "backends/onednn/adam_step.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

// In elements: each thread has whole cache lines, and always the same ones.
constexpr std::int64_t parameter_grain = 1024;

struct Group {
  std::int64_t begin = 0;  // in the concatenation of all tensors, each rounded up to whole lines
  std::int64_t elements = 0;
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* moments[2] = {nullptr, nullptr};
};

// A rule updates elements [begin, end) of a group with the values that begin_step() computed from the
// schedule.
struct Adam : AdamRule {
  using AdamRule::AdamRule;
  void update(const Group& g, std::int64_t i, std::int64_t n) const {
    loops().adam(step, g.parameter + i, g.gradient + i, g.moments[0] + i, g.moments[1] + i, n);
  }
};

struct Sgd {
  explicit Sgd(const Attributes& a) {
    step = {static_cast<float>(a.number("momentum")), static_cast<float>(a.number("weight_decay")), 0};
  }
  void begin_step(double learning_rate, double) { step.learning_rate = static_cast<float>(learning_rate); }
  void update(const Group& g, std::int64_t i, std::int64_t n) const {
    loops().sgd(step, g.parameter + i, g.gradient + i, g.moments[0] == nullptr ? nullptr : g.moments[0] + i,
                n);
  }
  SgdStep step{};
};

struct Rmsprop {
  explicit Rmsprop(const Attributes& a) {
    step = {.decay = static_cast<float>(a.number("decay")),
            .rest = static_cast<float>(1.0 - a.number("decay")),
            .epsilon = static_cast<float>(a.number("epsilon")),
            .weight_decay = static_cast<float>(a.number("weight_decay")),
            .learning_rate = 0};
  }
  void begin_step(double learning_rate, double) { step.learning_rate = static_cast<float>(learning_rate); }
  void update(const Group& g, std::int64_t i, std::int64_t n) const {
    loops().rmsprop(step, g.parameter + i, g.gradient + i, g.moments[0] + i, n);
  }
  RmspropStep step{};
};

template <typename Rule>
class OptimizerKernel final : public Kernel {
 public:
  // elements: the size of each group's storage. operands: those of a group; the first result is the
  // parameter.
  OptimizerKernel(const Request& request, std::span<const std::int64_t> elements, std::size_t operands)
      : threads_(request.context.threads), rule_(request.node.attributes), operands_(operands) {
    for (const std::int64_t n : elements) {
      groups_.push_back({total_, n, nullptr, nullptr, {nullptr, nullptr}});
      total_ += (n + line_floats - 1) / line_floats * line_floats;
    }
    copies_.resize(groups_.size() * (operands_ - 1));
  }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    schedule_ = static_cast<const float*>(inputs[0]);
    const std::size_t results = operands_ - 1;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      const auto operand = inputs.subspan(1 + g * operands_, operands_);
      const auto result = outputs.subspan(g * results, results);
      group.gradient = static_cast<const float*>(operand[1]);
      group.parameter = static_cast<float*>(result[0]);
      for (std::size_t m = 0; m + 1 < results; ++m) group.moments[m] = static_cast<float*>(result[m + 1]);
      // The loops work in place; if the executor could not use one storage, the old value is copied
      // first.
      for (std::size_t r = 0; r < results; ++r) {
        const void* old = operand[r == 0 ? 0 : r + 1];
        copies_[g * results + r] = {static_cast<const float*>(old == result[r] ? nullptr : old),
                                    static_cast<float*>(result[r]), group.elements};
      }
    }
  }

  void run() override {
    for (const Copy& copy : copies_) {
      if (copy.from != nullptr && copy.to != nullptr) std::copy_n(copy.from, copy.elements, copy.to);
    }
    rule_.begin_step(static_cast<double>(schedule_[0]), static_cast<double>(schedule_[1]));
    parallel(threads_, total_, parameter_grain, [this](std::int64_t begin, std::int64_t end) {
      for (const Group& group : groups_) {
        const std::int64_t from = std::max(begin, group.begin);
        const std::int64_t to = std::min(end, group.begin + group.elements);
        if (from < to) rule_.update(group, from - group.begin, to - from);
      }
    });
  }

 private:
  struct Copy {
    const float* from = nullptr;
    float* to = nullptr;
    std::int64_t elements = 0;
  };

  int threads_;
  Rule rule_;
  std::size_t operands_;
  std::int64_t total_ = 0;
  std::vector<Group> groups_;
  std::vector<Copy> copies_;
  const float* schedule_ = nullptr;
};

template <typename Rule>
Lowered lower_optimizer(const Request& request) {
  const auto operands = static_cast<std::size_t>(request.node.op->repeats());
  const std::size_t results = operands - 1, groups = (request.node.inputs.size() - 1) / operands;
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(row_major(request.inputs[0]));
  std::vector<std::int64_t> elements;
  for (std::size_t g = 0; g < groups; ++g) {
    const Format format = group_format(request, 1 + g * operands);
    for (std::size_t i = 0; i < operands; ++i) {
      if (request.has_input(1 + g * operands + i)) lowered.inputs[1 + g * operands + i] = format;
    }
    for (std::size_t r = 0; r < results; ++r) {
      if (request.has_output(g * results + r)) lowered.outputs[g * results + r] = format;
    }
    elements.push_back(format.bytes / static_cast<std::int64_t>(sizeof(float)));
  }
  lowered.in_place = in_place(request.node);
  lowered.kernel = std::make_unique<OptimizerKernel<Rule>>(request, elements, operands);
  return lowered;
}

}  // namespace

std::span<const OpEntry> optimizer_ops() {
  static constexpr std::array entries{OpEntry{"sgd", lower_optimizer<Sgd>},
                                      OpEntry{"rmsprop", lower_optimizer<Rmsprop>},
                                      OpEntry{"adam", lower_optimizer<Adam>}};
  return entries;
}

}  // namespace assay::onednn
