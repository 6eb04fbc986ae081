#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "harness/batch/c_api.h"
#include "harness/batch/c_boundary.hpp"
#include "harness/exam/answers_file.hpp"
#include "harness/exam/script.hpp"

namespace {

using assay::DType;
using assay::ExamAct;

static_assert(static_cast<int>(ExamAct::stage) == ASSAY_EXAM_STAGE);
static_assert(static_cast<int>(ExamAct::agree) == ASSAY_EXAM_AGREE);

constexpr DType types[] = {DType::f32, DType::i32, DType::u8, DType::f64};

std::int64_t number_of(DType type) { return std::ranges::find(types, type) - std::begin(types); }

assay_tensor view_of(const char* name, const assay::TensorType& type, const std::byte* data) {
  assay_tensor view{.name = name,
                    .type = number_of(type.dtype),
                    .rank = static_cast<std::int64_t>(type.shape.size()),
                    .shape = {},
                    .data = data};
  std::ranges::copy(type.shape, view.shape);
  return view;
}

// A copy. Throws CallError if it is none of the types, and GraphError for an impossible shape.
assay::HostTensor copy_of(const assay_tensor& given) {
  const bool known = given.name != nullptr && given.data != nullptr && given.type >= 0 &&
                     given.type < std::ssize(types) && given.rank >= 0 && given.rank <= 8;
  if (!known)
    throw assay::CallError("[assay_exam_give] got a tensor without name or data, or of an unknown type");
  const assay::TensorType type{types[given.type], {given.shape, given.shape + given.rank}};
  assay::check_shape(type.shape);
  const auto* bytes = static_cast<const std::byte*>(given.data);
  return {given.name, type, {bytes, bytes + type.bytes()}};
}

assay::ExamOfRun run_before(std::int64_t last_step, bool own_loader) {
  return {.last_step = last_step < 0 ? std::nullopt : std::optional(last_step), .own_loader = own_loader};
}

}  // namespace

struct assay_exam {
  assay_exam(const std::filesystem::path& cell_folder, const assay::ExamOfRun& run)
      : folder(cell_folder),
        feeds(assay::read_exam(folder)),
        script(feeds, assay::read_exam_subject(folder / "check/exam.json"), assay::ExamPart::whole, run) {}

  void take(const assay::ExamAction& next) {
    tensors.clear();
    if (next.inputs.data != nullptr) {
      for (const assay::TensorView& view : {next.inputs, next.labels})
        tensors.push_back(view_of(view.name, *view.type, view.data));
    }
    for (const assay::HostTensor& tensor : next.tensors)
      tensors.push_back(view_of(tensor.name.c_str(), tensor.type, tensor.bytes.data()));
  }

  std::filesystem::path folder;
  assay::ExamFeeds feeds;
  assay::ExamScript script;
  std::vector<assay_tensor> tensors;  // of the last action
  bool ended = false, done = false;   // done: without an error
};

namespace {

assay::boundary::OpenObjects<assay_exam> exams;

template <typename Action>
std::int64_t with(const char* call, assay_exam* exam, bool arguments, Action action) noexcept {
  return assay::boundary::with(exams, "exam", call, exam, arguments, action);
}

}  // namespace

assay_exam* assay_exam_open(const char* cell_folder, int64_t last_step, int own_loader) {
  assay_exam* exam = nullptr;
  assay::boundary::guarded([&]() -> std::int64_t {
    if (cell_folder == nullptr) throw assay::CallError("[assay_exam_open] got a null cell folder");
    auto opened = std::make_unique<assay_exam>(cell_folder, run_before(last_step, own_loader != 0));
    if (!exams.add(opened.get()))
      throw assay::CallError("[assay_exam_open] too many exams are open: close one");
    exam = opened.release();
    return 0;
  });
  return exam;
}

int assay_exam_slots_in_turn(assay_exam* exam, int64_t slots) {
  return static_cast<int>(with("assay_exam_slots_in_turn", exam, slots > 0, [&](assay_exam& open) {
    open.script.take_in_turn(slots);
    return 0;
  }));
}

int assay_exam_next(assay_exam* exam, assay_exam_action* action) {
  return static_cast<int>(with("assay_exam_next", exam, action != nullptr, [&](assay_exam& open) {
    if (open.ended)
      throw assay::CallError("[assay_exam_next] was called after the last action, or after an error");
    open.ended = true;  // unless there is another action
    const assay::ExamAction& next = open.script.next();
    open.done = next.act == ExamAct::done;
    open.ended = open.done;
    open.take(next);
    *action = {.kind = static_cast<std::int32_t>(next.act),
               .slot = next.slot,
               .step = next.step,
               .value = next.value,
               .learning_rate = next.learning_rate,
               .count = std::ssize(open.tensors),
               .tensors = open.tensors.data()};
    return open.done ? 0 : 1;
  }));
}

int assay_exam_give(assay_exam* exam, const assay_tensor* tensor) {
  return static_cast<int>(with("assay_exam_give", exam, tensor != nullptr, [&](assay_exam& open) {
    open.script.give(copy_of(*tensor));
    return 0;
  }));
}

int assay_exam_answer(assay_exam* exam, int64_t value) {
  return static_cast<int>(with("assay_exam_answer", exam, true, [&](assay_exam& open) {
    open.script.answer(value);
    return 0;
  }));
}

int assay_exam_close(assay_exam* exam) {
  if (exam == nullptr) return 0;
  if (!exams.remove(exam)) {
    assay::boundary::remember("[assay_exam_close] got an exam that is not open");
    return -1;
  }
  const std::int64_t status = assay::boundary::guarded([&]() -> std::int64_t {
    if (exam->done) assay::write_exam_answers(exam->folder, exam->script.take_answers());
    return 0;
  });
  delete exam;
  return static_cast<int>(status);
}
