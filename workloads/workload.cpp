#include "workloads/workload.hpp"

#include <utility>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/graph/passes/batch.hpp"
#include "harness/graph/passes/recompute.hpp"

namespace assay {

// The position moves on after everything that reads it.
Graph Workload::decoding_graph(const Shape& inputs, std::int64_t prompt, std::int64_t class_count,
                               bool step) const {
  Graph graph(name);
  const std::int64_t tokens = step ? 1 : prompt;
  const ValueId position = graph.add_value("position", {DType::i32, {1}}, Role::position, "zeros");
  GraphBuilder builder(graph, {.step = step, .length = inputs[1], .position = position});
  const ValueId all = builder.tokens("inputs", inputs);
  const ValueId read = builder.apply("tokens_at", {all, position}, {{"length", tokens}}, "tokens").front();
  graph.add_output("logits", network(builder, read, class_count));
  graph.add_update(position, builder.apply("advance", {position}, {{"by", tokens}}, "position.next").front());
  return graph;
}

NetworkForm Workload::form(std::int64_t batch_size, Task task) const {
  return {
      .batch = batch_size, .sample = sample_shape, .classes = classes, .task = task, .optimizer = optimizer};
}

Program Workload::build(std::int64_t batch_size, const Shape& sample, std::int64_t class_count,
                        Task task) const {
  NetworkForm made = form(batch_size, task);
  made.sample = sample;
  made.classes = class_count;
  return build(made);
}

Program Workload::build(const NetworkForm& form) const {
  if (form.batch < 1)
    throw GraphError(fmt::format("[{}] got batch {}: it must be at least 1", name, form.batch));
  if (make_program) return make_program(form);
  if (form.classes < 2)
    throw GraphError(fmt::format("[{}] got {} classes: there must be two", name, form.classes));
  Shape shape{form.batch};
  shape.insert(shape.end(), form.sample.begin(), form.sample.end());

  const auto inputs = [&](GraphBuilder& builder) {
    return vocabulary > 0 ? builder.tokens("inputs", shape) : builder.input("inputs", shape);
  };
  Program program{.training = {}, .inference = Graph(name)};
  GraphBuilder inference(program.inference, false);
  inference.norm_momentum(form.norm_momentum);
  program.inference.add_output("logits", network(inference, inputs(inference), form.classes));
  if (form.task == Task::train) {
    Graph& graph = program.training.emplace(name);
    GraphBuilder training(graph, true);
    training.sparse_embedding_gradients(form.sparse_embedding_gradients);
    training.norm_momentum(form.norm_momentum);
    const ValueId logits = network(training, inputs(training), form.classes);
    Shape labelled = next_token ? shape : Shape{form.batch};
    if (positions > 0) labelled.push_back(positions);
    const ValueId labels = training.label("labels", labelled);
    graph.add_output("logits", logits);
    graph.add_output("loss", training.softmax_cross_entropy(logits, labels, "loss"));
    program.optimizer = form.optimizer;
    program.segments = recompute_segments(graph, form.recompute);
  }
  if (form.task != Task::decode || !decodes) return program;
  const std::int64_t length = shape.back(), prompt = (length + 1) / 2;
  if (length < 2)
    throw GraphError(fmt::format("[{}] got sequences of {}: task decode needs a prompt and a token after it",
                                 name, length));
  program.decoding = {prompt, decoding_graph(shape, prompt, form.classes, false),
                      decoding_graph(shape, prompt, form.classes, true)};
  return program;
}

Program Workload::build_small(Task task) const {
  Workload shallow = *this;
  if (small.network) shallow.network = small.network;
  if (small.vocabulary > 0) shallow.vocabulary = small.vocabulary;
  return shallow.build(small.batch, small.sample_shape.empty() ? sample_shape : small.sample_shape,
                       small.classes > 0 ? small.classes : classes, task);
}

Workload workload_of(Graph inference) {
  Program known{.training = {}, .inference = std::move(inference)};
  check_program(known);
  std::int64_t parameters = 0;
  for (const ValueId id : known.inference.with_role(Role::parameter))
    parameters += known.inference.value(id).type.elements();
  Workload made{.name = known.name(),
                .description = "a network that was made from a graph",
                .dataset = "synthetic",
                .sample_shape = {},
                .parameters = parameters,
                .batch = batch_of(known),
                .network = {}};
  made.make_program = [known = std::move(known)](const NetworkForm& form) {
    if (form.task != Task::infer)
      throw GraphError(fmt::format("[{}] is only inferred: use --task infer", known.name()));
    return with_batch(known, form.batch);
  };
  return made;
}

}  // namespace assay
