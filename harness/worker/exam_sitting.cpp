#include "harness/core/io/safetensors.hpp"
#include "harness/exam/answers_file.hpp"
#include "harness/exam/subject.hpp"
#include "harness/graph/passes/batch.hpp"
#include "harness/worker/exam.hpp"

namespace assay {
namespace {

void give(ExamScript& script, std::vector<HostTensor> tensors) {
  for (HostTensor& tensor : tensors) script.give(std::move(tensor));
}

HostTensor scalar(double value) {
  HostTensor tensor = HostTensor::zeros("loss", {DType::f64, {}});
  tensor.as<double>()[0] = value;
  return tensor;
}

HostBatch batch_of(const ExamAction& action) {
  return {action.inputs.data, reinterpret_cast<const std::int32_t*>(action.labels.data)};
}

HostTensor evaluated(Executable& executable, const Graph& inference, const ExamAction& action) {
  Shape shape = inference.value(inference.output("logits")).type.shape;
  shape.front() = action.inputs.type->shape.front();
  HostTensor logits = HostTensor::zeros("logits", {DType::f32, shape});
  executable.evaluate(batch_of(action), logits.as<float>().data());
  return logits;
}

void perform(const ExamAction& action, ExamScript& script, Executable& executable, const Program& program,
             const std::vector<HostTensor>& read) {
  switch (action.act) {
    case ExamAct::done:
    case ExamAct::own_loader:  // no C++ worker has one
      return;
    case ExamAct::stage:
      return executable.stage(action.slot, batch_of(action));
    case ExamAct::set_state:
      return executable.set_state(action.tensors);
    case ExamAct::step:
      return executable.step(action.slot, action.learning_rate, action.step);
    case ExamAct::prefill:
      return executable.prefill(action.slot);
    case ExamAct::next_token:
      return executable.next_token(action.slot);
    case ExamAct::synchronize:
      return executable.synchronize();
    case ExamAct::results:
      return give(script, executable.results());
    case ExamAct::state:
      return give(script, executable.state());
    case ExamAct::loss:
      return script.give(scalar(executable.loss()));
    case ExamAct::evaluate:
      return script.give(evaluated(executable, program.inference, action));
    case ExamAct::masks:
      return executable.supply_masks(action.tensors);
    case ExamAct::seed:
      return script.answer(0);
    case ExamAct::draw:
      executable.step(action.slot, 0, action.step);
      return give(script, executable.masks());
    case ExamAct::results_read:
      return give(script, read);
    case ExamAct::agree:
      return script.answer(executable.agree(action.value));
  }
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

}  // namespace

void sit(ExamScript& script, Executable& executable, const Program& program,
         const std::vector<HostTensor>& read) {
  for (const ExamAction* action = &script.next(); action->act != ExamAct::done; action = &script.next())
    perform(*action, script, executable, program, read);
}

std::vector<HostTensor> exam_answers(Executable& executable, const Program& program, Task task,
                                     const ExamFeeds& feeds, ExamPart part) {
  ExamScript script(feeds, subject_of(program, task), part);
  sit(script, executable, program);
  return script.take_answers();
}

std::vector<std::span<float>> real_inputs(const Program& program, Task task, HostTensor& inputs) {
  if (program.is_op()) return real_parts(program.graph(task), 1, inputs.as<float>());
  if (!is_floating(inputs.type.dtype)) return {};  // tokens
  if (packs_inputs(program)) return real_parts(program.inference, batch_of(program), inputs.as<float>());
  return {inputs.as<float>()};
}

void write_exam_results(Executable& executable, const Program& program, const std::optional<Trained>& run,
                        const std::filesystem::path& cell_folder) {
  const ExamFeeds feeds = read_exam(cell_folder);
  ExamOfRun before;
  if (run) before.last_step = run->last_step;
  ExamScript script(feeds, read_exam_subject(cell_folder / "check/exam.json"), ExamPart::whole, before);
  sit(script, executable, program, run ? run->read : std::vector<HostTensor>{});
  write_exam_answers(cell_folder, script.take_answers());
}

void write_oracle_results(Backend& backend, const Program& program, CompileOptions options,
                          const OracleOptions& oracle, const std::filesystem::path& cell_folder) {
  std::filesystem::create_directories(cell_folder / "results");
  write_safetensors(cell_folder / "results/oracle.safetensors",
                    oracle_answers(backend, program, std::move(options), oracle, read_exam(cell_folder)));
}

}  // namespace assay
