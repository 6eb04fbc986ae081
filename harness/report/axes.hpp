// The axes of a cell: they identify it within a report. axis_table() is the only list of them: options,
// config keys, expansion, ids, titles, CSV columns, request.json, the report's fields and its schema are made
// from it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/domain.hpp"
#include "harness/core/option.hpp"

namespace assay {

// What a cell measures: the steps of a network, or a single operator at one size.
enum class CellKind { network, op };

// The values of a cell's axes.
struct Axes {
  std::string workload{}, backend{};
  DeviceKind device = DeviceKind::cpu;
  std::string mode{};
  Task task = Task::train;
  PrecisionKind precision = PrecisionKind::fp32;
  std::string layout = "native";
  std::int64_t batch = 0;
  std::string dataset{};
  LoaderKind loader = LoaderKind::resident;
  int loader_workers = 1;
  std::string size{};  // "m1760n16k1760"
  // Only for single ops. Warm: one set of operands; cold: sets that the last-level cache cannot hold.
  std::optional<CacheState> cache{};
  std::string optimizer{};
  int threads = 1;
  CacheState compile_cache = CacheState::cold;
  bool deterministic = false;
  std::string measure{};  // "steps" or "epochs:15"
  // The axes without their own field, by name, if they differ from the default or from the workload's own
  // value: {"schedule", "every:10x0.9"}. Each value has one spelling.
  std::map<std::string, std::string> variant{};

  CellKind kind() const { return size.empty() ? CellKind::network : CellKind::op; }
  bool is_op() const { return kind() == CellKind::op; }

  // The value of the axis with that name, as text; its default if it is not set. Throws std::out_of_range for
  // a name that is not in the table.
  std::string text(std::string_view axis) const;
  // The same for axes of whole numbers, of numbers and of flags; 0 or false without a value.
  std::int64_t integer(std::string_view axis) const;
  double number(std::string_view axis) const;
  bool flag(std::string_view axis) const;

  // Worker processes that train one model together; each has the threads below. At least 1.
  int ranks() const;
  // Threads that load batches: all of them, and those that --loader-threads pays for.
  int loader_threads() const { return loader == LoaderKind::resident ? 0 : loader_workers; }
  int extra_threads() const;
  // All threads of a worker: for computing and for loading. Without overflow, whatever a report says.
  int all_threads() const;
  // Those of all ranks.
  std::int64_t threads_of_all_ranks() const { return std::int64_t{ranks()} * all_threads(); }
};

enum class AppliesTo { every, network, op };

// When a cell's id names an axis. Ids omit the values that most cells share, so that they stay readable.
enum class Identity {
  always,
  if_set,  // only if it differs from the default, or from the workload's own value
  last,    // always, after all others
};

// The part of a group's title that names an axis: commas separate parts, spaces separate words within a part.
// No title names a column of the table, or a setting of the contestant, which mode_words() name.
enum class TitlePart { column, contestant, work, machine, operands, setup, own };

// The place of an axis's value; monostate: in Axes::variant. An enum must have words, and is text in options
// and reports.
using AxisField = std::variant<std::monostate, std::string Axes::*, std::int64_t Axes::*, int Axes::*,
                               bool Axes::*, Task Axes::*, PrecisionKind Axes::*, DeviceKind Axes::*,
                               LoaderKind Axes::*, CacheState Axes::*, std::optional<CacheState> Axes::*>;

// One row of the table.
struct Axis {
  Option option;                  // its name, type, default, limits and help; choices: the words of an enum
  std::string_view derived = {};  // not an option itself: the settings that determine it
  AppliesTo applies = AppliesTo::every;
  std::string_view depends_on = {};        // the axis whose value decides whether this one has an effect …
  bool (*matters)(const Axes&) = nullptr;  // … and the test for it; null: always
  AxisField field = {};
  Identity identity = Identity::if_set;
  // Its spelling in the id and the title, with the separator in front: {0} is the value, {1} the name.
  std::string_view id = "/{1}={0}";
  std::string_view title = "{1} {0}";
  TitlePart part = TitlePart::own;
  bool sweep = false;     // the x axis of curves: cells that differ only in it are one family
  bool compared = false;  // in a round, cells that differ only in it run next to each other
  bool request = false;   // a field of request.json; protocol.md lists those that are not copied unchanged

  std::string_view name() const { return option.name; }
  std::string key() const;  // name in the report, the CSV and request.json: "loader_workers"
  // key() == text without a copy, because it runs for each field of each cell.
  bool has_key(std::string_view text) const;
  bool is_in_titles() const { return part != TitlePart::column && part != TitlePart::contestant; }
  bool has_field() const { return field.index() != 0; }
  bool applies_to(CellKind kind) const;
  bool matters_to(const Axes& axes) const { return applies_to(axes.kind()) && (!matters || matters(axes)); }
};

// In the order of the help. References stay valid.
const std::deque<Axis>& axis_table();
// nullptr for an unknown name.
const Axis* find_axis(std::string_view name);
// The order in the id: first those that every id has, then the optional ones with a field, then those without
// (by name), then the last.
bool comes_before(const Axis* a, const Axis* b);
const std::vector<const Axis*>& axes_in_order();

// The value as text, in its only spelling; empty without a value.
std::string axis_text(const Axis& axis, const Axes& axes);
// Accepts text that the option's rules allow; an empty text unsets the value. Numbers get their only
// spelling.
void set_axis(const Axis& axis, Axes& axes, std::string_view text);
// The value as JSON of its type; null without a value.
nlohmann::json axis_json(const Axis& axis, const Axes& axes);

// "lenet5/onednn/cpu/graph/train/fp32/native/b200/fashion-mnist/resident/adam/t2/steps", or for a single op
// "op/relu/onednn/cpu/graph/infer/fp32/native/4096/warm/t2/steps"; unique in a report.
std::string cell_id(const Axes& axes);
// The same without some axes, so that cells that differ only in these have the same text. `hidden` is called
// with each row.
std::string cell_id_without(const Axes& axes, const std::function<bool(const Axis&)>& hidden);
// For each cell, its short name on a console: workload, backend, mode, and the axes in which the cells
// differ: "lenet5 torch eager b32".
std::vector<std::string> short_ids(std::span<const Axes* const> cells);
// "lenet5 train fp32 b200 fashion-mnist adam, cpu t2, resident, steps": cells of one title are compared.
std::string group_title(const Axes& axes);
// The title without the swept axis, the batch or the op's size: shared by the cells of one curve.
std::string family_title(const Axes& axes);
// The parts of the id, one word for each axis that is in titles; every cell has the same number of words,
// some of them empty.
std::vector<std::string> title_words(const Axes& axes);
// The mode, with the contestant's other settings that differ from their defaults: "eager nhwc",
// "jit allocator=keep".
std::string mode_words(const Axes& axes);
// The options of a command line that set these axes: " --workload lenet5 --backend onednn …", without the
// settings that determine `measure`.
std::string axis_options(const Axes& axes);

// The table of axes as Markdown, for docs/reference/axes.md.
std::string axis_reference();

// Adds a row while it lives, so that a test can follow one axis through the program. Must not be used while
// other threads read the table.
class AddedAxis {
 public:
  explicit AddedAxis(const Axis& axis);
  ~AddedAxis();
  AddedAxis(const AddedAxis&) = delete;
  AddedAxis& operator=(const AddedAxis&) = delete;
};

}  // namespace assay
