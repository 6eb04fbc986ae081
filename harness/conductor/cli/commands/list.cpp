// assay list: workloads, ops, backends, configs and data sets, and why a backend is unavailable.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/table_options.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/provenance.hpp"
#include "harness/core/error.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"
#include "workloads/workload_registry.hpp"

namespace assay::cli {
namespace {

using Json = nlohmann::json;

// One kind of thing, as JSON and as a table.
struct Listing {
  Json items = Json::array();
  Table table;
};

Listing list_workloads(const OptionValues& given, bool only) {
  Listing out;
  out.table = {.title = "Workloads",
               .columns = {{"name"}, {"batch", Align::right}, {"data set"}, {"optimizer"}, {"description"}},
               .rows = {},
               .notes = {}};
  WorkloadRegistry workloads;
  for (const std::string& name : list_of(given, "workload"))
    if (WorkloadRegistry::is_folder(name)) workloads.add_folder(name);
  for (const Workload& workload : workloads.networks()) {
    out.items.push_back({{"name", workload.name},
                         {"description", workload.description},
                         {"source", workload.source},
                         {"dataset", workload.dataset},
                         {"batch", workload.batch},
                         {"classes", workload.classes},
                         {"sample_shape", workload.sample_shape},
                         {"parameters", workload.parameters},
                         {"optimizer", workload.optimizer.kind},
                         {"learning_rate", workload.learning_rate}});
    out.table.rows.push_back({{workload.name},
                              {std::to_string(workload.batch)},
                              {workload.dataset},
                              {fmt::format("{} {}", workload.optimizer.kind, workload.learning_rate)},
                              {workload.description}});
  }
  for (const OpWorkload& op : workloads.ops()) {
    out.items.push_back({{"name", op.name},
                         {"description", op.description},
                         {"sizes", op.sizes},
                         {"size", op.default_size},
                         {"tasks", op.differentiable ? Json{"infer", "train"} : Json{"infer"}}});
    if (only)
      out.table.rows.push_back(
          {{op.name}, {}, {}, {}, {fmt::format("{}; sizes {}", op.description, fmt::join(op.sizes, " "))}});
  }
  if (!only) {
    out.table.notes.push_back(
        fmt::format("assay list workloads adds the {} single ops, op/*.", workloads.ops().size()));
    return out;
  }
  out.table.notes.push_back(
      "op/* are single ops: they have --size and --cache, not a batch and a data set; task train is forward "
      "and backward.");
  return out;
}

Listing list_ops(const OptionValues& given, bool only) {
  Listing out;
  out.table = {.title = "Ops", .columns = {{"name"}, {"operands"}, {"results"}}, .rows = {}, .notes = {}};
  const BackendRegistry registry = find_backends(parse_interpreters(list_of(given, "interpreter")));
  for (const BackendDescription& backend : registry.backends) out.table.columns.push_back({backend.name});
  for (const Op* op : all_ops()) {
    std::vector<std::string> operands, results;
    for (const Operand& operand : op->operands())
      operands.push_back(operand.name + (operand.optional ? "?" : ""));
    for (const Result& result : op->results())
      results.push_back(result.name + (result.saved ? "*" : "") + (result.optional ? "?" : ""));
    std::vector<Entry> row{{std::string(op->name())},
                           {fmt::format("{}{}", fmt::join(operands, " "), op->repeats() > 0 ? " ..." : "")},
                           {fmt::format("{}", fmt::join(results, " "))}};
    Json backends = Json::object();
    for (const BackendDescription& backend : registry.backends) {
      const std::string found = support(backend, *op);
      backends[backend.name] = found;
      row.push_back({found, found == "no" ? Tone::quiet : Tone::plain});
    }
    out.items.push_back({{"name", op->name()},
                         {"operands", operands},
                         {"results", results},
                         {"backends", backends},
                         {"contract", op->contract()}});
    out.table.rows.push_back(std::move(row));
  }
  if (!only) {
    out.table = {
        .title = fmt::format("{} ops: assay list ops shows which backend has which", out.items.size()),
        .columns = {},
        .rows = {},
        .notes = {}};
    return out;
  }
  out.table.notes.push_back(
      "? optional, * kept only for the gradient, own: a framework's own gradient or optimizer. "
      "docs/reference/operators.md has each op's contract.");
  return out;
}

Listing list_backends(const OptionValues& given, bool) {
  Listing out;
  out.table = {
      .title = "Backends",
      .columns = {{"name"}, {"kind"}, {"modes"}, {"devices"}, {"precisions"}, {"ranks"}, {"state"}, {"what"}},
      .rows = {},
      .notes = {}};
  const BackendRegistry registry = find_backends(parse_interpreters(list_of(given, "interpreter")));
  const auto joined = [](const auto& items) { return fmt::format("{}", fmt::join(items, " ")); };
  for (const BackendDescription& backend : registry.backends) {
    out.items.push_back({{"name", backend.name},
                         {"kind", to_string(backend.kind)},
                         {"bare_modes", backend.bare_modes},
                         {"oracle", backend.oracle},
                         {"description", backend.description},
                         {"framework", backend.framework},
                         {"modes", backend.modes},
                         {"devices", texts_of(backend.devices)},
                         {"tasks", texts_of(backend.tasks)},
                         {"precisions", texts_of(backend.precisions)},
                         {"layouts", backend.layouts},
                         {"loaders", texts_of(backend.loaders)},
                         {"collectives", backend.collectives},
                         {"folder", backend.folder.string()},
                         {"available", backend.available()},
                         {"reason", backend.unavailable},
                         {"remedy", backend.remedy}});
    out.table.rows.push_back(
        {{backend.name},
         {std::string(to_string(backend.kind))},
         {joined(backend.modes)},
         {joined(texts_of(backend.devices))},
         {joined(texts_of(backend.precisions))},
         {backend.collectives.empty() ? "-" : joined(backend.collectives)},
         backend.available() ? Entry{"available", Tone::good} : Entry{"unavailable", Tone::doubtful},
         {backend.description}});
    if (!backend.available())
      out.table.notes.push_back(fmt::format("{}: {}{}", backend.name, backend.unavailable,
                                            backend.remedy.empty() ? "" : "; get it: " + backend.remedy));
    else if (!backend.unavailable_in_ranks.empty())
      out.table.notes.push_back(
          fmt::format("{} with several ranks: {}", backend.name, backend.unavailable_in_ranks));
  }
  for (const std::string& fault : registry.faults) out.table.notes.push_back(fault);
  return out;
}

Listing list_configs(const OptionValues&, bool) {
  Listing out;
  out.table = {
      .title = "Configs", .columns = {{"name"}, {"description"}, {"source"}}, .rows = {}, .notes = {}};
  for (const auto& file : all_configs()) {
    try {
      const RunConfig config = read_config(file);
      out.items.push_back({{"name", file.stem().string()},
                           {"file", file.string()},
                           {"title", config.title},
                           {"source", config.source},
                           {"rows", config.rows.size()}});
      out.table.rows.push_back({{file.stem().string()}, {config.title}, {config.source}});
    } catch (const Error& error) {  // one bad file must not hide the others
      out.items.push_back({{"name", file.stem().string()}, {"file", file.string()}, {"fault", error.what()}});
      out.table.notes.push_back(error.what());
    }
  }
  return out;
}

std::string size_text(std::int64_t bytes) {
  return bytes >= 1'000'000 ? fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6)
                            : fmt::format("{} B", bytes);
}

std::string count_text(std::int64_t count) { return count > 0 ? std::to_string(count) : "?"; }

constexpr std::int64_t max_summed = std::int64_t{4} << 30, max_read = std::int64_t{64} << 20;

// With `checksums`, reads new files of the present data sets for their checksums, which is slow, unless they have more than
// max_summed bytes; the listing of everything skips it to stay quick.
Listing list_datasets(const OptionValues& given, bool checksums) {
  Listing out;
  out.table = {.title = "Data sets",
               .columns = {{"name"},
                           {"train", Align::right},
                           {"validation", Align::right},
                           {"test", Align::right},
                           {"state"},
                           {"size", Align::right},
                           {"checksum"},
                           {"what"}},
               .rows = {},
               .notes = {}};
  std::vector<std::filesystem::path> folders;
  for (const std::string& folder : list_of(given, "data")) folders.emplace_back(folder);
  folders = dataset_folders(folders);
  for (const Dataset& dataset : datasets()) {
    const DatasetPlace place = locate_dataset(dataset, folders);
    std::string fault, size, checksum;
    std::optional<Provenance> provenance;
    if (place.here && !dataset.made_here() && checksums) {
      try {
        if (const auto files = find_dataset_files(dataset, folders)) {
          dataset.format->check_sizes(dataset, files->files);
          if (dataset.classes == 0) dataset.format->describe(place);
          provenance = provenance_of(*files, FileStamps(*files), cache_folder(), {.max_bytes = max_summed});
          if (provenance->bytes <= max_read && !dataset.any_image_size() && !dataset.any_sequence_length())
            dataset.format->read(dataset, files->files);  // throws for values that no run would accept
          if (!provenance->checksum)
            out.table.notes.push_back(fmt::format("{}: the first run with it reads its {} for the checksum",
                                                  dataset.name, size_text(provenance->bytes)));
        }
      } catch (const std::runtime_error& error) {  // one set that cannot be read must not hide the others
        fault = error.what();
        out.table.notes.push_back(fault);
      }
    }
    Json item = {{"name", dataset.name},
                 {"description", dataset.description},
                 {"sample_shape", dataset.sample_shape},
                 {"classes", dataset.classes},
                 {"train", dataset.train},
                 {"validation", dataset.validation},
                 {"test", dataset.test},
                 {"available", place.here && fault.empty()},
                 {"folder", place.text()},
                 {"remedy", place.here && fault.empty() ? "" : dataset.remedy}};
    if (!fault.empty()) item["fault"] = fault;
    if (provenance) {
      item["provenance"] = encode(*provenance);
      size = size_text(provenance->bytes);
      checksum = provenance->checksum.value_or("").substr(0, 16);
    }
    out.items.push_back(std::move(item));
    out.table.rows.push_back({{dataset.name},
                              {count_text(dataset.train)},
                              {count_text(dataset.validation)},
                              {count_text(dataset.test)},
                              !place.here     ? Entry{"missing", Tone::doubtful}
                              : fault.empty() ? Entry{"here", Tone::good}
                                              : Entry{"damaged", Tone::bad},
                              {size},
                              {checksum},
                              {dataset.description}});
    if (!place.here) out.table.notes.push_back(fmt::format("{}: get it: {}", dataset.name, place.remedy));
    if (place.here && !place.folder.empty())
      out.table.notes.push_back(fmt::format("{}: in {}", dataset.name, place.text()));
  }
  if (!checksums) out.table.notes.push_back("assay list datasets adds sizes and checksums.");
  return out;
}

struct Kind {
  const char* name;
  Listing (*list)(const OptionValues&, bool only);  // only: no other kind is listed, so this one in full
};
constexpr Kind kinds[] = {{"workloads", list_workloads},
                          {"ops", list_ops},
                          {"backends", list_backends},
                          {"configs", list_configs},
                          {"datasets", list_datasets}};

struct ListOptions {
  std::string kind;
  bool json = false;
  TableOptions table;
};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.emplace_back(kind.name);
  return names;
}

int list(const ListOptions& options) {
  const OptionValues given = options.table.values();
  const std::vector<std::string> known = kind_names();
  if (!options.kind.empty() && !contains(known, options.kind))
    throw UsageError(fmt::format("list: '{}' is not workloads, ops, backends, configs or datasets{}",
                                 options.kind, suggestion(options.kind, known)));

  Json json = Json::object();
  std::vector<Table> tables;
  for (const Kind& kind : kinds) {
    if (!options.kind.empty() && options.kind != kind.name) continue;
    Listing listing = kind.list(given, !options.kind.empty());
    json[kind.name] = std::move(listing.items);
    tables.push_back(std::move(listing.table));
  }
  if (options.json)
    print_json(options.kind.empty() ? json : json[options.kind]);
  else
    print(tables);
  return fine;
}

}  // namespace

void add_list(CLI::App& app, Context& context) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command =
      app.add_subcommand("list", "List what is available; why a backend is unavailable and how to get it");
  CLI::Option* kind = command->add_option("KIND", options->kind,
                                          "workloads, ops, backends, configs or datasets (default: all)");
  context.choices[kind] = kind_names();
  command->add_flag("--json", options->json, "Print JSON");
  options->table.add(*command, "interpreter");
  options->table.add(*command, "data");
  options->table.add(*command, "workload");
  add_examples(*command, {"assay list backends", "assay list workloads"});
  command->callback([options, &context] { context.action = [options] { return list(*options); }; });
}

}  // namespace assay::cli
