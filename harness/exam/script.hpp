// The exam as a script: what a worker does and reads after its run, one action after the other. It is the one
// description of the exam: docs/reference/protocol.md, "The exam".
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/exam/feeds.hpp"
#include "harness/exam/staging.hpp"

namespace assay {

// What the worker does now. harness/batch/c_api.h has the same numbers.
enum class ExamAct : std::int32_t {
  done = 0,
  stage,         // keeps the batch `inputs`, `labels` in `slot`
  set_state,     // sets `tensors`; what they do not name begins again
  step,          // enqueues the timed step on `slot`, with `learning_rate` and number `step`
  prefill,       // task decode: enqueues the prompts of `slot`
  next_token,    // task decode: enqueues the next token of `slot`
  synchronize,   // waits for all that was enqueued
  results,       // gives the results of the last step
  state,         // gives parameters, running statistics and moments
  loss,          // gives the loss of the last step, a scalar
  evaluate,      // gives "logits" of the batch `inputs` in inference mode
  masks,         // uses the masks `tensors` from the next step on; none: draws them again
  seed,          // its generator of masks begins again with `value`; answers 1, or 0 if it cannot
  draw,          // gives the masks that a step on `slot` draws now; the step may be made, with number `step`
  results_read,  // gives the results that were asked for last while it ran
  own_loader,    // gives what shows its own loader
  agree,         // answers the `value` of rank 0
};

// Trivial, because compilers differ in when they destroy what a coroutine yields.
struct ExamAction {
  ExamAct act = ExamAct::done;
  std::int64_t slot = 0, step = 0, value = 0;
  double learning_rate = 0;
  std::span<const HostTensor> tensors{};
  TensorView inputs{}, labels{};
};

static_assert(std::is_trivially_copyable_v<ExamAction>);

// A function that yields one action after the other.
class ExamActions {
 public:
  struct promise_type {
    ExamAction action{};
    std::exception_ptr error{};
    ExamActions get_return_object() {
      return ExamActions(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(ExamAction next) {
      action = std::move(next);
      return {};
    }
    static void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
  };

  ExamActions() = default;
  ExamActions(ExamActions&& other) noexcept : function_(std::exchange(other.function_, {})) {}
  ExamActions& operator=(ExamActions&& other) noexcept {
    std::swap(function_, other.function_);
    return *this;
  }
  ~ExamActions() {
    if (function_) function_.destroy();
  }

  // Whether there is another action. Rethrows what the function throws.
  bool next() {
    function_.resume();
    if (const std::exception_ptr error = function_.promise().error) std::rethrow_exception(error);
    return !function_.done();
  }
  const ExamAction& action() const { return function_.promise().action; }

 private:
  explicit ExamActions(std::coroutine_handle<promise_type> function) : function_(function) {}
  std::coroutine_handle<promise_type> function_{};
};

// Which part of the exam.
enum class ExamPart {
  whole,       // with the questions about the run, and about dropout
  compared,    // what the oracle answers, too
  first_step,  // of a network that trains: the answers "first/..."
};

// What ran before the exam.
struct ExamOfRun {
  std::optional<std::int64_t> last_step{};  // its number; absent: nothing ran
  bool own_loader = false;                  // a framework's own loader gave the batches
};

// Call next() and do what it says until that is `done`; between two calls, give() what the action asks for. Used from
// one thread. Borrows the feeds.
class ExamScript {
 public:
  ExamScript(const ExamFeeds& feeds, ExamSubject subject, ExamPart part = ExamPart::whole,
             ExamOfRun run = {});
  ExamScript(const ExamScript&) = delete;
  ExamScript& operator=(const ExamScript&) = delete;

  // The steps of the continuation are on so many slots in turn, from the first one of the exam on. Before next().
  void take_in_turn(std::int64_t slots) { in_turn_ = slots; }

  // Valid until the next call.
  const ExamAction& next();
  // A tensor that the last action asks for, under its own name.
  void give(HostTensor tensor) { given_.push_back(std::move(tensor)); }
  void answer(std::int64_t value) { answer_ = value; }

  // The tensors of results/verify.safetensors in the types in which they were given, losses in F64.
  std::vector<HostTensor> take_answers() { return std::move(answers_); }

 private:
  using Tensors = std::vector<HostTensor>;

  ExamActions script();
  ExamActions about_the_run();
  ExamActions continuation();
  ExamActions with_pauses(std::int64_t steps);
  ExamActions compared();
  ExamActions training();
  ExamActions first_step();
  ExamActions results_of_batches();
  ExamActions computed(std::int64_t slot, std::int64_t step);
  ExamActions generated(std::int64_t slot);
  ExamActions staged(std::int64_t batch);
  ExamActions dropout_as_timed();
  ExamActions dropout_with_masks();
  ExamActions step_from_start(std::int64_t draw, std::vector<double>& losses, std::vector<Tensors>& states);
  ExamActions op_as_timed();
  ExamActions op_with_masks();

  bool is_op() const { return subject_.kind == ExamKind::op; }
  bool trains() const { return subject_.kind == ExamKind::training; }
  bool has_masks() const { return !masks_.empty(); }
  std::int64_t slot_of(std::int64_t batch) const {
    return feeds_.batches.slots[static_cast<std::size_t>(batch)];
  }
  // Fills the buffer.
  ExamAction stage(std::int64_t batch);
  // A step of the schedule on the batch of its row; it must be staged.
  ExamAction row(std::int64_t row) const;
  std::int64_t batch_of(std::int64_t row) const;
  // A step after those of the run.
  ExamAction continued(std::int64_t step) const;
  void hand_over(const std::string& run, const Tensors& state);
  std::string under(const std::string& run, const std::string& state) const;
  HostTensor handed(const HostTensor& tensor) const;
  Tensors handed_state();
  Tensors named_results();
  void add(const std::string& prefix, Tensors tensors);
  void add_number(std::string name, double value);
  // Several sets of the same tensors, along a new first dimension.
  void add_stacked(const std::string& prefix, const std::vector<Tensors>& all);
  double given_loss() const;

  const ExamFeeds& feeds_;
  const ExamSubject subject_;
  const ExamPart part_;
  const ExamOfRun run_;
  std::int64_t in_turn_ = 0;  // 0: only the exam's slots
  Tensors masks_;             // with a row for each row of a batch; none if nothing is dropped
  StagingBuffer buffer_{};
  FedBatch first_batch_{};                       // for evaluations
  std::map<std::int64_t, std::int64_t> held_{};  // the batch in each slot
  Tensors given_{};
  std::int64_t answer_ = 0;
  ExamAct last_ = ExamAct::done;
  Tensors answers_{};
  Tensors start_{};  // the state with which a part begins
  Tensors computed_{};
  // Of dropout: what the timed program drew and computed.
  bool seeded_ = false;
  std::vector<double> timed_losses_{};
  std::vector<Tensors> timed_states_{}, drawn_{};
  ExamActions actions_{};
};

// Puts `next` after the tensors of its name in `all`, which are `count` in the end, along a new first dimension.
void stack(std::vector<HostTensor>& all, const HostTensor& next, std::int64_t count);

}  // namespace assay
