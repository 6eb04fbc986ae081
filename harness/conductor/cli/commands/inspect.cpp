// assay inspect: describes a workload without running it.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/table_options.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/memory_plan/summary.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "workloads/workload_registry.hpp"

namespace assay::cli {
namespace {

using Json = nlohmann::json;

struct InspectOptions {
  std::string workload;
  bool json = false, graph = false, nodes = false;
  TableOptions table;
};

Json to_json(const StepSummary& step) {
  Json nodes = Json::array();
  for (const NodeSummary& node : step.nodes)
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"type", node.type},
                     {"parameters", node.parameters},
                     {"flops", node.flops},
                     {"bytes", node.bytes}});
  return {{"flops", step.flops},
          {"bytes", step.bytes},
          {"persistent_bytes", step.persistent_bytes},
          {"arena_bytes",
           {{"naive", step.arena.naive},
            {"in_place", step.arena.in_place},
            {"co_share_only", step.arena.co_share_only},
            {"co_share", step.arena.co_share},
            {"lower_bound", step.arena.lower_bound}}},
          {"nodes", nodes}};
}

Json to_json(const ProgramSummary& summary) {
  return {{"workload", summary.workload},
          {"precision", to_string(summary.precision)},
          {"batch", summary.batch},
          {"parameters", summary.parameters},
          {"forward_flops", summary.forward_flops},
          {"backward_flops", summary.backward_flops},
          {"optimizer_flops", summary.optimizer_flops},
          {"training", summary.training ? to_json(*summary.training) : Json()},
          {"inference", to_json(summary.inference)}};
}

Entry amount(double value, Hint hint, const char* unit) {
  return {value == 0 ? "-" : format_value(value, hint, unit), value == 0 ? Tone::quiet : Tone::plain};
}

Table node_table(const std::string& title, const StepSummary& step) {
  Table table{.title = title,
              .columns = {{"node"},
                          {"op"},
                          {"result"},
                          {"parameters", Align::right},
                          {"FLOP", Align::right},
                          {"traffic", Align::right}},
              .rows = {},
              .notes = {}};
  for (const NodeSummary& node : step.nodes)
    table.rows.push_back({{node.name},
                          {node.op},
                          {node.type},
                          amount(static_cast<double>(node.parameters), Hint::count, "1"),
                          amount(node.flops, Hint::rate, "1"),
                          amount(node.bytes, Hint::bytes, "B")});
  return table;
}

Table memory_table(const ProgramSummary& summary) {
  Table table{.title = "Memory of a step",
              .columns = {{"task"},
                          {"FLOP", Align::right},
                          {"traffic", Align::right},
                          {"persistent", Align::right},
                          {"arena, naive", Align::right},
                          {"in place", Align::right},
                          {"co-share", Align::right},
                          {"in place + co-share", Align::right},
                          {"lower bound", Align::right}},
              .rows = {},
              .notes = {}};
  const auto add = [&](const char* task, const StepSummary& step) {
    const auto bytes = [](std::int64_t size) { return amount(static_cast<double>(size), Hint::bytes, "B"); };
    table.rows.push_back({{task},
                          amount(step.flops, Hint::rate, "1"),
                          amount(step.bytes, Hint::bytes, "B"),
                          bytes(step.persistent_bytes),
                          bytes(step.arena.naive),
                          bytes(step.arena.in_place),
                          bytes(step.arena.co_share_only),
                          bytes(step.arena.co_share),
                          bytes(step.arena.lower_bound)});
  };
  if (summary.training) add("train", *summary.training);
  add("infer", summary.inference);
  table.notes.push_back(
      "For the unfused graph with plain layouts; the formats and scratch of a backend need more.");
  return table;
}

// The workload or op to inspect.
struct Subject {
  std::string title;
  std::vector<std::string> notes;
  Program program;
};

// The value of an option that takes one value; empty if it was not given.
std::string one(const OptionValues& given, const char* name) {
  const auto values = list_of(given, name);
  if (values.size() > 1) throw UsageError(fmt::format("inspect: --{} takes one value, not a list", name));
  return values.empty() ? std::string() : values.front();
}

void reject(const OptionValues& given, const char* name, const std::string& workload) {
  if (given.contains(name))
    throw UsageError(fmt::format("inspect: {} does not support --{}", workload, name));
}

Subject network(const InspectOptions& options, const OptionValues& given) {
  reject(given, "size", options.workload);
  WorkloadRegistry workloads;
  if (WorkloadRegistry::is_folder(options.workload)) workloads.add_folder(options.workload);
  const Workload& workload = workloads.network(options.workload);
  Program program = workload.build(one(given, "batch").empty() ? workload.batch : integer_of(given, "batch"));
  const std::string optimizer = one(given, "optimizer");
  if (!optimizer.empty() && optimizer != program.optimizer->kind)
    program.optimizer = OptimizerSpec{.kind = optimizer};
  return {fmt::format("{}: {}", workload.name, workload.description), {workload.source}, std::move(program)};
}

Subject single_op(const InspectOptions& options, const OptionValues& given) {
  for (const char* name : {"batch", "optimizer"}) reject(given, name, options.workload);
  const OpWorkload& op = WorkloadRegistry::op(options.workload);
  const std::string size = one(given, "size").empty() ? op.default_size : op.canonical(one(given, "size"));
  return {fmt::format("{}: {}", op.name, op.description), {fmt::format("size {}", size)}, op.program(size)};
}

bool is_op(const std::string& workload) { return workload.starts_with("op/"); }

std::string facts(const InspectOptions& options, const ProgramSummary& summary, const Program& program) {
  if (is_op(options.workload)) return std::string(to_string(summary.precision));
  return fmt::format("batch {}, {}, {}; {}", summary.batch, to_string(summary.precision),
                     program.optimizer->kind, plural(summary.parameters, "parameter"));
}

int inspect(const InspectOptions& options) {
  const OptionValues given = options.table.values();
  const Subject subject = is_op(options.workload) ? single_op(options, given) : network(options, given);
  const Program& program = subject.program;
  if (options.graph) {
    print_json(assay::to_json(program));
    return fine;
  }
  const ProgramSummary summary =
      summarise(program, precision_of(from_word<PrecisionKind>(one(given, "precision")).value()));
  if (options.json) {
    print_json(to_json(summary));
    return fine;
  }
  Table head{.title = subject.title, .columns = {}, .rows = {}, .notes = subject.notes};
  head.notes.push_back(facts(options, summary, program));
  head.notes.push_back(program.training
                           ? fmt::format("FLOP of a training step: forward {}, backward {}, optimizer {}",
                                         format_value(summary.forward_flops, Hint::rate, "1"),
                                         format_value(summary.backward_flops, Hint::rate, "1"),
                                         format_value(summary.optimizer_flops, Hint::rate, "1"))
                           : "It has no gradient, so it has no training step.");
  std::vector<Table> tables{head, node_table("Inference", summary.inference)};
  if (options.nodes && summary.training) tables.push_back(node_table("Training step", *summary.training));
  tables.push_back(memory_table(summary));
  print(tables);
  return fine;
}

}  // namespace

void add_inspect(CLI::App& app, Context& context) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Show the graph, shapes, parameters, FLOPs and memory of a workload under each plan");
  command
      ->add_option("WORKLOAD", options->workload,
                   "Its name (assay list workloads), or the folder of an imported network")
      ->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--nodes", options->nodes, "Also list every node of the training step");
  command->add_flag("--graph", options->graph, "Print the program as a worker gets it (graph.json)");
  for (const char* name : {"batch", "size", "precision", "optimizer"}) options->table.add(*command, name);
  add_examples(*command, {"assay inspect lenet5 --batch 64", "assay inspect op/gemm --size m100n50k20"});
  command->callback([options, &context] { context.action = [options] { return inspect(*options); }; });
}

}  // namespace assay::cli
