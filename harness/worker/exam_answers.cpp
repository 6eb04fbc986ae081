#include <algorithm>
#include <map>
#include <utility>

#include "harness/graph/passes/batch.hpp"
#include "harness/graph/program.hpp"
#include "harness/worker/exam.hpp"

namespace assay {

void stack(std::vector<HostTensor>& all, const HostTensor& next, std::int64_t count) {
  const auto found = std::ranges::find(all, next.name, &HostTensor::name);
  HostTensor* tensor = found != all.end() ? &*found : nullptr;
  if (tensor == nullptr) {
    Shape shape = next.type.shape;
    shape.insert(shape.begin(), count);
    all.push_back({next.name, {next.type.dtype, shape}, {}});
    tensor = &all.back();
  }
  tensor->bytes.insert(tensor->bytes.end(), next.bytes.begin(), next.bytes.end());
}

namespace {

// The exam's batches in the slots of an executable: a batch is staged when it is requested and its slot holds
// another one.
class StagedBatches {
 public:
  StagedBatches(Executable& executable, const ExamFeeds& feeds) : buffer_(executable), feeds_(feeds) {}

  std::int64_t count() const { return feeds_.batches.count(); }
  // The slot that now holds the batch.
  std::int64_t slot_of(std::int64_t batch) {
    const std::int64_t slot = feeds_.batches.slots[static_cast<std::size_t>(batch)];
    const auto held = held_.find(slot);
    if (held != held_.end() && held->second == batch) return slot;
    buffer_.stage(slot, feeds_.batch(batch));
    held_[slot] = batch;
    return slot;
  }
  // Stages as many batches as there are slots, so that steps follow each other without staging in between.
  void stage_all() {
    for (std::int64_t batch = 0; batch < count(); ++batch) slot_of(batch);
  }

 private:
  StagingBuffer buffer_;
  const ExamFeeds& feeds_;
  std::map<std::int64_t, std::int64_t> held_{};  // by slot
};

HostTensor number(std::string name, double value) {
  HostTensor tensor = HostTensor::zeros(std::move(name), {DType::f64, {}});
  tensor.as<double>()[0] = value;
  return tensor;
}

void add_under(std::vector<HostTensor>& all, const std::string& prefix, std::vector<HostTensor> tensors);

// As Answers::run(). last: of the last step; compute(slot): of a step on the batch in a slot.
template <typename Compute>
std::vector<HostTensor> answers_of_run(std::vector<HostTensor> last, std::vector<HostTensor> read,
                                       std::span<const std::int64_t> slots, const Compute& compute) {
  std::vector<HostTensor> answers, again;
  add_under(answers, "run/last/", std::move(last));
  add_under(answers, "run/read/", std::move(read));
  for (const std::int64_t slot : slots)
    for (const HostTensor& result : compute(slot))
      stack(again, result, static_cast<std::int64_t>(slots.size()));
  add_under(answers, "run/", std::move(again));
  return answers;
}

void add_under(std::vector<HostTensor>& all, const std::string& prefix, std::vector<HostTensor> tensors) {
  for (HostTensor& tensor : tensors) {
    tensor.name = prefix + tensor.name;
    all.push_back(std::move(tensor));
  }
}

// Without a dropout nothing tells the exam from a run.
void supply_masks(Executable& executable, const ExamFeeds& feeds) {
  if (const std::vector<HostTensor> masks = feeds.batch_masks(); !masks.empty())
    executable.supply_masks(masks);
}

// The real numbers among the inputs of packed samples; whole numbers are not changed.
std::vector<std::span<float>> real_parts(const Graph& graph, std::int64_t samples, std::span<float> values) {
  const std::map<std::string, PackedInput> inputs = packed_inputs(graph, samples);
  const std::int64_t sample = input_elements(graph) / samples;
  std::vector<std::span<float>> real;
  for (std::int64_t first = 0; first < static_cast<std::int64_t>(values.size()); first += sample)
    for (const auto& [name, input] : inputs)
      if (graph.value(graph.find(name)).type.dtype == DType::f32)
        real.push_back(values.subspan(static_cast<std::size_t>(first + input.offset),
                                      static_cast<std::size_t>(input.elements)));
  return real;
}

class NetworkAnswers : public Answers {
 public:
  NetworkAnswers(const Program& program, Task task)
      : program_(program), trains_(task == Task::train), decodes_(task == Task::decode) {}

  std::vector<HostTensor> exam(Executable& executable, const ExamFeeds& feeds) const override {
    StagedBatches staged(executable, feeds);
    if (trains_) supply_masks(executable, feeds);
    executable.set_state(feeds.state);
    staged.stage_all();
    if (decodes_) return of_decoding(executable, staged);
    return trains_ ? of_training(executable, feeds, staged) : of_inference(executable, staged);
  }

  std::vector<HostTensor> run(Executable& executable, std::span<const std::int64_t> slots,
                              std::vector<HostTensor> read) const override {
    return answers_of_run(executable.results(), std::move(read), slots, [&](std::int64_t slot) {
      return decodes_ ? std::vector{generated(executable, slot)} : inferred(executable, slot);
    });
  }

  std::vector<HostTensor> first_step(Executable& executable, const ExamFeeds& feeds) const {
    std::vector<HostTensor> answers;
    StagedBatches staged(executable, feeds);
    supply_masks(executable, feeds);
    executable.set_state(feeds.state);
    add_first_step(answers, executable, feeds, staged);
    return answers;
  }

  bool draws_masks() const override { return trains_; }

  // Tokens are not changed.
  std::vector<std::span<float>> real_inputs(HostTensor& inputs) const override {
    if (!is_floating(inputs.type.dtype)) return {};
    if (packs_inputs(program_)) return real_parts(program_.inference, batch_of(program_), inputs.as<float>());
    return {inputs.as<float>()};
  }

 private:
  // The results of the timed step on each batch.
  static std::vector<HostTensor> of_inference(Executable& executable, StagedBatches& staged) {
    std::vector<HostTensor> answers;
    for (std::int64_t batch = 0; batch < staged.count(); ++batch)
      for (const HostTensor& result : inferred(executable, staged.slot_of(batch)))
        stack(answers, result, staged.count());
    return answers;
  }

  static std::vector<HostTensor> inferred(Executable& executable, std::int64_t slot) {
    executable.step(slot, 0, 1);
    executable.synchronize();
    return executable.results();
  }

  // The logits of the last token of each prompt and of the tokens after it: (batches, B, 1 + tokens, classes).
  std::vector<HostTensor> of_decoding(Executable& executable, StagedBatches& staged) const {
    std::vector<HostTensor> answers;
    for (std::int64_t batch = 0; batch < staged.count(); ++batch)
      stack(answers, generated(executable, staged.slot_of(batch)), staged.count());
    return answers;
  }

  HostTensor generated(Executable& executable, std::int64_t slot) const {
    executable.prefill(slot);
    std::vector<HostTensor> positions{logits_of(executable)};
    for (std::int64_t token = 0; token < program_.generated(); ++token) {
      executable.next_token(slot);
      positions.push_back(logits_of(executable));
    }
    return side_by_side(positions);
  }

  static HostTensor logits_of(Executable& executable) {
    executable.synchronize();
    std::vector<HostTensor> results = executable.results();
    return std::move(*std::ranges::find(results, "logits", &HostTensor::name));
  }

  // Several (B, 1, classes) as one (B, positions, classes).
  static HostTensor side_by_side(const std::vector<HostTensor>& positions) {
    TensorType type = positions.front().type;
    const std::size_t row = positions.front().bytes.size() / static_cast<std::size_t>(type.shape.front());
    type.shape[1] = static_cast<std::int64_t>(positions.size());
    HostTensor all = HostTensor::zeros("logits", type);
    for (std::size_t p = 0; p < positions.size(); ++p) {
      for (std::size_t sample = 0; sample < static_cast<std::size_t>(type.shape.front()); ++sample) {
        std::copy_n(positions[p].bytes.begin() + static_cast<std::ptrdiff_t>(sample * row), row,
                    all.bytes.begin() + static_cast<std::ptrdiff_t>((sample * positions.size() + p) * row));
      }
    }
    return all;
  }

  std::vector<HostTensor> of_training(Executable& executable, const ExamFeeds& feeds,
                                      StagedBatches& staged) const {
    std::vector<HostTensor> answers;
    answers.push_back(evaluated(executable, feeds, "evaluation/logits"));
    add_first_step(answers, executable, feeds, staged);

    executable.set_state(feeds.state);
    for (std::int64_t row = 1; row <= feeds.steps(); ++row) step(executable, feeds, staged, row);
    executable.synchronize();
    answers.push_back(number("last/loss", executable.loss()));
    answers.push_back(evaluated(executable, feeds, "last/logits"));
    add_state(answers, "last/", executable);

    if (!feeds.extreme.empty()) {
      std::vector<HostTensor> state = feeds.state;
      for (const HostTensor& tensor : feeds.extreme)
        *std::ranges::find(state, tensor.name, &HostTensor::name) = tensor;
      executable.set_state(state);
      step(executable, feeds, staged, 0);
      executable.synchronize();
      answers.push_back(number("extreme/loss", executable.loss()));
    }
    return answers;
  }

  void add_first_step(std::vector<HostTensor>& answers, Executable& executable, const ExamFeeds& feeds,
                      StagedBatches& staged) const {
    step(executable, feeds, staged, 0);
    executable.synchronize();
    answers.push_back(number("first/loss", executable.loss()));
    add_state(answers, "first/", executable);
  }

  // Row 0 of the schedule is a step on the first batch; the other rows use all batches in order.
  static void step(Executable& executable, const ExamFeeds& feeds, StagedBatches& staged, std::int64_t row) {
    const std::int64_t batch = row == 0 ? 0 : (row - 1) % staged.count();
    executable.step(staged.slot_of(batch), feeds.learning_rate(row), feeds.step_count(row));
  }

  HostTensor evaluated(Executable& executable, const ExamFeeds& feeds, std::string name) const {
    const Graph& graph = program_.inference;
    Shape shape = graph.value(graph.output("logits")).type.shape;
    shape.front() = feeds.batches.batch;
    HostTensor logits = HostTensor::zeros(std::move(name), {DType::f32, shape});
    executable.evaluate(feeds.batch(0).host(), logits.as<float>().data());
    return logits;
  }

  void add_state(std::vector<HostTensor>& answers, const std::string& run, Executable& executable) const {
    for (HostTensor& tensor : executable.state()) {
      const ValueId id = program_.inference.find(tensor.name);
      const char* kind = id == none                                             ? "moment/"
                         : program_.inference.value(id).role == Role::parameter ? "parameter/"
                                                                                : "running/";
      tensor.name = run + kind + tensor.name;
      answers.push_back(std::move(tensor));
    }
  }

  const Program& program_;
  bool trains_, decodes_;
};

// Keeps the positions that task decode answers.
class AnswersWithoutCaches final : public NetworkAnswers {
 public:
  explicit AnswersWithoutCaches(const Program& program)
      : NetworkAnswers(program, Task::infer), kept_(1 + program.generated()) {}

  std::vector<HostTensor> exam(Executable& executable, const ExamFeeds& feeds) const override {
    std::vector<HostTensor> answers = NetworkAnswers::exam(executable, feeds);
    for (HostTensor& logits : answers) logits = last_positions(logits);
    return answers;
  }

 private:
  // (batches, B, T, classes), the last of T.
  HostTensor last_positions(const HostTensor& all) const {
    TensorType type = all.type;
    const std::int64_t samples = type.shape[0] * type.shape[1], length = type.shape[2];
    const auto row = static_cast<std::ptrdiff_t>(type.shape[3] * size_of(type.dtype));
    type.shape[2] = kept_;
    HostTensor kept{all.name, type, {}};
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      const auto end = all.bytes.begin() + static_cast<std::ptrdiff_t>((sample + 1) * length) * row;
      kept.bytes.insert(kept.bytes.end(), end - static_cast<std::ptrdiff_t>(kept_) * row, end);
    }
    return kept;
  }

  std::int64_t kept_;
};

// The results of one step on each set of operands.
class OpAnswers : public Answers {
 public:
  OpAnswers(const Program& program, Task task) : graph_(program.graph(task)) {}

  std::vector<HostTensor> exam(Executable& executable, const ExamFeeds& feeds) const override {
    StagedBatches staged(executable, feeds);
    supply_masks(executable, feeds);
    executable.set_state(feeds.state);
    staged.stage_all();
    std::vector<HostTensor> answers;
    for (std::int64_t batch = 0; batch < staged.count(); ++batch)
      for (const HostTensor& tensor : computed(executable, staged.slot_of(batch), batch + 1))
        stack(answers, tensor, staged.count());
    add_under(answers, "running/", executable.state());
    return answers;
  }
  std::vector<HostTensor> run(Executable& executable, std::span<const std::int64_t> slots,
                              std::vector<HostTensor> read) const override {
    return answers_of_run(named(executable.results()), named(std::move(read)), slots,
                          [&](std::int64_t slot) { return computed(executable, slot, 1); });
  }
  bool draws_masks() const override { return true; }

  std::vector<std::span<float>> real_inputs(HostTensor& inputs) const override {
    return real_parts(graph_, 1, inputs.as<float>());
  }

 private:
  static std::vector<HostTensor> computed(Executable& executable, std::int64_t slot, std::int64_t step) {
    executable.step(slot, 0, step);
    executable.synchronize();
    return named(executable.results());
  }

  static std::vector<HostTensor> named(std::vector<HostTensor> results) {
    for (HostTensor& tensor : results)
      if (!tensor.name.starts_with("gradient/")) tensor.name = "result/" + tensor.name;
    return results;
  }

  const Graph& graph_;
};

}  // namespace

std::vector<HostTensor> first_step_answers(Executable& executable, const Program& program,
                                           const ExamFeeds& feeds) {
  return NetworkAnswers(program, Task::train).first_step(executable, feeds);
}

std::unique_ptr<Answers> answers_of(const Program& program, Task task) {
  if (program.is_op()) return std::make_unique<OpAnswers>(program, task);
  return std::make_unique<NetworkAnswers>(program, task);
}

std::unique_ptr<Answers> answers_without_caches(const Program& program) {
  return std::make_unique<AnswersWithoutCaches>(program);
}

}  // namespace assay
