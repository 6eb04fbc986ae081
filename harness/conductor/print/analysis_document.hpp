// The JSON form of an analysis: used to write it, and to make its schema and the tables of docs/reference/analysis.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/flag_rates.hpp"
#include "harness/report/hosts.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/time_spent.hpp"

namespace assay {

// What an analysis leaves to its document: texts for readers, and parts of the report.
struct AxisHeading {
  std::string key{}, heading{};
};
struct AnalyzedReport {
  const Report* report = nullptr;
  std::string label{};
  std::size_t cells = 0;
  std::vector<TimeShare> time_spent{};
  std::vector<FlagRate> flag_rates{};
};
struct GroupWithTexts : AnalyzedGroup {
  std::string answer{};
  std::vector<std::string> notes{};
};
struct Answer : Question {
  std::optional<PairedRatio> measured{};
};
struct NamedLibrary {
  std::string name{}, version{};
};
struct MetricWithReason : Metric {};
struct TensorRatio : TensorVerdict {};
struct EquivalenceOfCell {
  const Equivalence* equivalence = nullptr;
  std::vector<TensorRatio> tensors{};
};
struct WorkOfStep : Work {};
struct EpochTime {
  int epoch = 0;
  double seconds = 0;
};
struct EvaluationInTime : Evaluation {
  double after_seconds = 0;
};

struct AnalysisDocument : Analysis {
  std::string schema{};
  std::vector<MetricRow> metrics{};
  std::vector<AxisHeading> axes{};
  std::vector<AnalyzedReport> reports_of_cells{};
  std::vector<GroupWithTexts> groups_with_texts{};
  std::vector<Answer> answers{};
};

inline Description describe(Of<PairedRatio>) {
  return fields(
      "ratio",
      "A ratio over the rounds that count in both cells. If they share no round, it is the ratio of their medians. Of one "
      "metric: its value and interval, and its extremes over its forks.",
      field("value", &PairedRatio::value, "Median over these rounds."),
      field("lower", &PairedRatio::lower, "Lower bound of the median; null below six rounds."),
      field("upper", &PairedRatio::upper, "Upper bound."),
      field("confidence", &PairedRatio::confidence, "Of the bounds."),
      field("least", &PairedRatio::least, "The least over the rounds."),
      field("greatest", &PairedRatio::greatest, "The greatest over the rounds."),
      field("n", &PairedRatio::n, "The number of these rounds; 0 if there is none."));
}

inline Description describe(Of<MetricRow>) {
  return fields(
      "metric_row", "A row of the metric table.", field("name", &MetricRow::name, "Its name."),
      field("unit", &MetricRow::unit, "Its unit."),
      field("hint", &MetricRow::hint, "How a value is best shown."),
      field("better", &MetricRow::better,
            "`assay compare` counts growth of a metric with no direction as a loss."),
      field("section", &MetricRow::section, "The table of networks that has it; `only_ops` for no table."),
      field("heading", &MetricRow::heading, "Of its column there."),
      field("op_heading", &MetricRow::op_heading,
            "Of its column in the tables of single ops; empty: not shown."),
      field("about", &MetricRow::about, "How it follows from the raw numbers."),
      field("every_fork", &MetricRow::every_fork,
            "It is over all forks that are ok, also of rounds in which the machine was disturbed."));
}

inline Description describe(Of<AxisHeading>) {
  return fields("axis", "An axis of a cell.", field("key", &AxisHeading::key, "Its key in `axes` of a cell."),
                field("heading", &AxisHeading::heading, "Its name in words."));
}

inline Description describe(Of<TimeShare>) {
  return fields("time_share", "A part of the time of a run.",
                field("name", &TimeShare::name, "What took it: `timed blocks`."),
                field("seconds", &TimeShare::seconds, "Of all checks and forks together."));
}

inline Description describe(Of<FlagRate>) {
  return fields(
      "flag_rate", "How often the forks of a backend have a flag.",
      field("flag", &FlagRate::flag, "A flag that drops forks, or `stolen`."),
      field("backend", &FlagRate::backend, "The backend."),
      field("forks", &FlagRate::forks, "Number of its forks that are ok."),
      field("flagged", &FlagRate::flagged, "How many of them have the flag."),
      field(
          "p", &FlagRate::p,
          "The probability of a number as unlikely as `flagged`, or more so, if the flags of each round had fallen on any of "
          "its forks: Fisher's exact test, stratified by group, session and round. Null if no round has flagged and other "
          "forks of several backends."),
      field(
          "differs", &FlagRate::differs,
          "`p` is below 1 % over the number of backends: the flag depends on the backend, or on what ran with it."));
}

inline Description describe(Of<AnalyzedReport>) {
  return fields(
      "report", "A report that was analyzed.",
      field("label", &AnalyzedReport::label, "Its file's name, with as many folders as make it unique."),
      field("cells", &AnalyzedReport::cells, "Number of its cells, without those of other shards."),
      field("run", &AnalyzedReport::report, &Report::run, "As in the report."),
      field("environment", &AnalyzedReport::report, &Report::environment, "As in the report."),
      field("environments", &AnalyzedReport::report, &Report::environments,
            "As in the report; empty unless merged."),
      field("hosts", &AnalyzedReport::report, &Report::hosts,
            "As in the report; empty unless ranks were on several machines."),
      field("time_spent", &AnalyzedReport::time_spent, "What its checks and forks took, largest first."),
      field("flag_rates", &AnalyzedReport::flag_rates, "How often forks have each flag, by backend."));
}

inline Description describe(Of<Heading>) {
  return fields("heading", "Work in plain words.",
                field("title", &Heading::title, "Workload, task and batch."),
                field("about", &Heading::about, "What else was set."));
}

inline Description describe(Of<Follower>) {
  return fields("follower",
                "How many times as long a series takes as the leader, over the sizes that both have.",
                field("series", &Follower::series, "The series."),
                field("low", &Follower::low, "The least of these ratios."),
                field("high", &Follower::high, "The greatest."));
}

inline Description describe(Of<Leader>) {
  return fields("leader", "The series that is the fastest most often.",
                field("series", &Leader::series, "The series."),
                field("wins", &Leader::wins, "Number of sizes at which it is clearly the fastest."),
                field("sizes", &Leader::sizes, "Number of sizes at which two cells or more are ranked."),
                field("sure", &Leader::sure, "Every ratio of the followers has an interval."),
                field("followers", &Leader::followers, "The others, the nearest first."));
}

inline Description describe(Of<SeriesGrowth>) {
  return fields(
      "growth",
      "How the time of a series grows with the size: the batch of a network, or the size of an op if it is one number "
      "(`4096`, `m512`). Each number is fitted within the rounds that count at all of these sizes.",
      field("series", &SeriesGrowth::series, "The series."),
      field("sizes", &SeriesGrowth::sizes, "Number of sizes at which it was timed: three or more."),
      field("smallest", &SeriesGrowth::smallest, "The smallest size."),
      field("largest", &SeriesGrowth::largest, "The largest size."),
      field(
          "fixed", &SeriesGrowth::fixed,
          "Seconds at size 0 of the straight line through the times, which minimises the sum of squares of the relative "
          "distances. Null if `misfit` is above 0.2."),
      field("each", &SeriesGrowth::each,
            "Seconds that each further element or sample adds to that line. Null with `fixed`."),
      field(
          "doubling", &SeriesGrowth::doubling,
          "The factor of the time when the size doubles, from the least-squares line of the logarithms: 2 for the "
          "elements of a vector, 8 for the side of square matrices."),
      field(
          "misfit", &SeriesGrowth::misfit,
          "The largest relative distance of the straight line from the median time of a size: if it is large, the time is "
          "no straight line of the size."));
}

inline Description describe(Of<AnalyzedFamily>) {
  return fields(
      "family", "Groups that differ only in the batch, or the size of an op.",
      field("title", &AnalyzedFamily::title, "Unique."),
      field("heading", &AnalyzedFamily::heading, "The same in plain words."),
      field("is_op", &AnalyzedFamily::is_op, "It is of a single op."),
      field("groups", &AnalyzedFamily::groups, "Its groups."),
      field("leader", &AnalyzedFamily::leader,
            "The series that is clearly the fastest at most sizes; null if there is none."),
      field("growth", &AnalyzedFamily::growth, "One for each series that was timed at three sizes or more."));
}

inline Description describe(Of<ProvisionalRow>) {
  return fields(
      "provisional_row", "A cell in a provisional order.", field("cell", &ProvisionalRow::cell, "The cell."),
      field("time", &ProvisionalRow::time, "Seconds per step: the median over its forks."),
      field("to_first", &ProvisionalRow::to_first,
            "Its time over that of the first row, over all rounds of both: without an interval."),
      field(
          "apart_from", &ProvisionalRow::apart_from,
          "The nearest cell before it from which it stays apart, in every round and by more than the disturbance explains."));
}

inline Description describe(Of<Provisional>) {
  return fields("provisional",
                "The order of a group by all of its rounds, also the disturbed ones. It is not a ranking.",
                field("rounds", &Provisional::rounds, "Number of rounds."),
                field("disturbed", &Provisional::disturbed, "Number of rounds that do not count."),
                field("threads", &Provisional::threads,
                      "The threads of its forks, if they have the flag `fewer_threads`; else null."),
                field("rows", &Provisional::rows, "The fastest first."));
}

inline Description describe(Of<GroupWithTexts>) {
  return fields(
      "group", "Cells that may be compared: alike in all axes but backend, mode and layout.",
      field("title", &GroupWithTexts::title, "Unique; names the work that its cells share."),
      field("heading", &GroupWithTexts::heading, "The same in plain words."),
      field("family", &GroupWithTexts::family, "Its family."),
      field("is_op", &GroupWithTexts::is_op, "It is of a single op."),
      field(
          "rounds", &GroupWithTexts::rounds,
          "The minimum number of rounds that count which two neighbors in order share: of the ranked cells, or if none "
          "are, of those that may be; 0 if there are fewer than two, or they are of several reports."),
      field(
          "answer", &GroupWithTexts::answer,
          "Some sentences: which is the fastest, how much longer the others take, what makes it surer; the provisional "
          "order, if there is one."),
      field("cells", &GroupWithTexts::cells, "In the order of the reports."),
      field("in_rank", &GroupWithTexts::in_rank,
            "Ranked cells, the fastest first, then cells that were timed, then the others."),
      field(
          "baselines", &GroupWithTexts::baselines,
          "For each report the cell that others are compared with: of those that may be ranked, the first bare library in "
          "order, else the first cell; null if there is none."),
      field(
          "provisional", &GroupWithTexts::provisional,
          "An order by disturbed rounds, if nothing is ranked and fewer than two rounds count; else null. No rank or ratio "
          "depends on it."),
      field("notes", &GroupWithTexts::notes,
            "Sentences: why a cell is not ok or not ranked, what its forks were warned of."));
}

inline Description describe(Of<AnalyzedPlan>) {
  return fields(
      "plan", "A program whose memory plan is known.",
      field("cell", &AnalyzedPlan::cell, "The first cell that has it."),
      field("persistent", &AnalyzedPlan::persistent, "Bytes that outlive a step; 0 if it is not known."));
}

inline Description describe(Of<AnalyzedScaling>) {
  return fields("scaling", "The scaling efficiency of a cell with several ranks. A cell may have both kinds.",
                field("cell", &AnalyzedScaling::cell, "The cell."),
                field("base", &AnalyzedScaling::base, "The cell of the same report with one rank."),
                field("kind", &AnalyzedScaling::kind,
                      "`strong`: both have the same batch; `weak`: the batch of `base` is that of one rank."),
                field("efficiency", &AnalyzedScaling::efficiency,
                      "The samples per second of `cell`, over those of `base` times the number of ranks."));
}

inline Description describe(Of<Answer>) {
  return fields("answer", "The answer to a question of `--ask`.",
                field("metric", &Answer::metric, "The metric of `cell`."),
                field("other_metric", &Answer::other_metric, "The metric of `other`."),
                field("cell", &Answer::cell, "The cell."),
                field("other", &Answer::other, "The cell in the denominator; null for a metric."),
                field("measured", &Answer::measured, "Null if a value is missing."));
}

inline Description describe(Of<NamedLibrary>) {
  return fields("library", "A library that the worker had loaded.",
                field("name", &NamedLibrary::name, "Its name."),
                field("version", &NamedLibrary::version, "Its version."));
}

inline Description describe(Of<MetricWithReason>) {
  return fields(
      "metric", "A metric of a cell, as in the report.",
      field("value", &MetricWithReason::value, "Null with a reason."),
      field("lower", &MetricWithReason::lower, "Lower bound of the median of forks within this run."),
      field("upper", &MetricWithReason::upper, "Upper bound."),
      field("confidence", &MetricWithReason::confidence, "Of the bounds."),
      field("n", &MetricWithReason::n, "Number of forks."),
      field("unit", &MetricWithReason::unit, "Its unit."),
      field("hint", &MetricWithReason::hint, "How the value is best shown."),
      field("reason", &MetricWithReason::reason, "Why there is no value.").left_out_by_default());
}

inline Description describe(Of<TensorRatio>) {
  return fields("tensor", "A tensor that was compared with the oracle's.",
                field("name", &TensorRatio::name, "The run of the exam and the tensor."),
                field("ratio", &TensorRatio::ratio, "The larger ratio of an error to its bound."));
}

inline Description describe(Of<EquivalenceOfCell>) {
  return fields("equivalence", "Whether the cell computes the same as the oracle.",
                field("checked", &EquivalenceOfCell::equivalence, &Equivalence::checked, "As in the report."),
                field("passed", &EquivalenceOfCell::equivalence, &Equivalence::passed,
                      "Every tensor is within its bound."),
                field("worst", &EquivalenceOfCell::equivalence, &Equivalence::worst,
                      "The largest ratio of error to bound."),
                field("reason", &EquivalenceOfCell::equivalence, &Equivalence::reason,
                      "Why it was not checked, or which tensor failed."),
                field("tensors", &EquivalenceOfCell::tensors, "Each tensor that was compared."));
}

inline Description describe(Of<WorkOfStep>) {
  return fields("work", "The minimum work of one step.",
                field("flops", &WorkOfStep::flops, "Floating-point operations."),
                field("bytes", &WorkOfStep::bytes,
                      "Of a single op: each operand read once and each result written once."));
}

inline Description describe(Of<CurvePoint>) {
  return fields(
      "point", "A point of a curve, over the forks that count.",
      field("epoch", &CurvePoint::epoch, "From 1."), field("median", &CurvePoint::median, "Over the forks."),
      field("low", &CurvePoint::low, "The least."), field("high", &CurvePoint::high, "The greatest."),
      field("n", &CurvePoint::n, "Number of forks."));
}

inline Description describe(Of<OpTime>) {
  return fields("operator", "An op of the profile.", field("op", &OpTime::op, "Its name."),
                field("seconds", &OpTime::seconds, "Per step: the median over the forks."));
}

inline Description describe(Of<AnalyzedPublished>) {
  const auto is_ratio = +[](const AnalyzedPublished& entry) { return entry.published->to.has_value(); };
  return fields(
      "published", "A number of another publication about the cell.",
      field("metric", &AnalyzedPublished::published, &Published::metric, "The metric that it is about."),
      field("value", &AnalyzedPublished::published, &Published::value, "The published number."),
      field("unit", &AnalyzedPublished::published, &Published::unit, "Its unit."),
      field("hint", &AnalyzedPublished::hint, "How the value is best shown."),
      field("is_ratio", is_ratio, "It is a ratio to the cell `other`."),
      field("other", &AnalyzedPublished::other, "The cell in the denominator."),
      field("measured", &AnalyzedPublished::measured,
            "The same ratio here, of whatever metric and also of cells with flags."),
      field("samples_per_second", &AnalyzedPublished::samples_per_second,
            "The published time or rate of a step, as a rate."),
      field("source", &AnalyzedPublished::published, &Published::source, "Citation."),
      field("statement", &AnalyzedPublished::published, &Published::statement,
            "The words, if it has no number."));
}

inline Description describe(Of<Phase>) {
  return fields("phase", "Consecutive blocks of one kind, in seconds since the fork's first event.",
                field("kind", &Phase::kind, "`warm up`, `timed`, `epoch 3`."),
                field("begin", &Phase::begin, "Its begin."), field("end", &Phase::end, "Its end."));
}

inline Description describe(Of<Timeline>) {
  return fields("timeline", "The first fork that is ok and was sampled.",
                field("phases", &Timeline::phases, "In the order of time."),
                field("times", &Timeline::times, "Of the samples: seconds since the fork's first event."),
                field("cpu", &Timeline::cpu, "Busy cores."),
                field("gpu", &Timeline::gpu, "Share, 0 to 1; empty if no GPU was sampled."));
}

inline Description describe(Of<EpochTime>) {
  return fields("epoch", "The time of an epoch.", field("epoch", &EpochTime::epoch, "From 1."),
                field("seconds", &EpochTime::seconds, "In its timed blocks."));
}

inline Description describe(Of<EvaluationInTime>) {
  return fields(
      "evaluation", "An evaluation, as in the report.",
      field("epoch", &EvaluationInTime::epoch, "After this epoch."),
      field("split", &EvaluationInTime::split, "Of the data set."),
      field("loss", &EvaluationInTime::loss, "Mean cross-entropy."),
      field("accuracy", &EvaluationInTime::accuracy, "Share of correct answers."),
      field("after_seconds", &EvaluationInTime::after_seconds, "Of training, compilation included."));
}

std::optional<double> step_seconds(const AnalyzedFork& fork);
std::optional<double> cpu_seconds(const AnalyzedFork& fork);
std::vector<EpochTime> epoch_times(const AnalyzedFork& fork);
std::vector<EvaluationInTime> evaluations(const AnalyzedFork& fork);

inline Description describe(Of<AnalyzedFork>) {
  return fields(
      "fork", "One execution of a cell.",
      field("round", &AnalyzedFork::fork, &Fork::round, "As in the report."),
      field("seed", &AnalyzedFork::fork, &Fork::seed, "As in the report."),
      field("session", &AnalyzedFork::fork, &Fork::session, "As in the report."),
      field("resident", &AnalyzedFork::fork, &Fork::resident, "As in the report."),
      field("status", &AnalyzedFork::fork, &Fork::status, "As in the report."),
      field("reason", &AnalyzedFork::fork, &Fork::reason, "As in the report."),
      field("clean", &AnalyzedFork::clean, "Its times count: it is ok, and has no flag that drops it."),
      field("counted", &AnalyzedFork::counted, "It is part of the times of the cell."),
      field("flags", &AnalyzedFork::fork, &Fork::flags, "As in the report."),
      field("warnings", &AnalyzedFork::fork, &Fork::warnings, "As in the report."),
      field("compile_seconds", &AnalyzedFork::fork, &Fork::compile_seconds, "As in the report."),
      field("step_seconds", step_seconds, "Median over its steady blocks of the time per step."),
      field("cpu_seconds", cpu_seconds, "The same of the CPU time."),
      field("off", &AnalyzedFork::off,
            "How far `step_seconds` is from the cell's median over ok forks: 0.1 is 10 % above it."),
      field("off_low", &AnalyzedFork::off_low, "The same of the quantile 0.1 over its blocks."),
      field("off_high", &AnalyzedFork::off_high, "The same of the quantile 0.9."),
      field("epochs", epoch_times, "The time of each epoch."),
      field("training_seconds", &AnalyzedFork::training_seconds, "Compilation and all epochs."),
      field("accuracy", &AnalyzedFork::accuracy, "Of the last evaluation of each split."),
      field("evaluations", evaluations, "In the order of time."));
}

inline Description describe(Of<TimeToAccuracy>) {
  return fields(
      "time_to_accuracy", "The time of training until the end of the first epoch with an accuracy.",
      field("target", &TimeToAccuracy::target, "The accuracy."),
      field("split", &TimeToAccuracy::split, "Where it was evaluated."),
      field("reached", &TimeToAccuracy::reached, "How many of the forks that count reached it."),
      field("forks", &TimeToAccuracy::forks, "Number of forks that count."),
      field(
          "value", &TimeToAccuracy::value,
          "Seconds, median over the forks that count. A fork that did not reach it counts as longer than any; a number "
          "that would be that long is null."),
      field("lower", &TimeToAccuracy::lower, "Lower bound of the median."),
      field("upper", &TimeToAccuracy::upper, "Upper bound."),
      field("confidence", &TimeToAccuracy::confidence, "Of the bounds."),
      field("epochs", &TimeToAccuracy::epochs, "Median of the forks that reached it."));
}

std::string mode_of(const AnalyzedCell& cell);
bool is_tied(const AnalyzedCell& cell);
nlohmann::json axes_of(const AnalyzedCell& cell);
std::map<std::string, std::string> variant_of(const AnalyzedCell& cell);
bool is_of_op(const AnalyzedCell& cell);
std::vector<HostShare> hosts_of_cell(const AnalyzedCell& cell);
std::vector<NamedLibrary> libraries_of(const AnalyzedCell& cell);
EquivalenceOfCell equivalence_of(const AnalyzedCell& cell);
std::map<std::string, MetricWithReason> metrics_of(const AnalyzedCell& cell);
WorkOfStep work_of(const AnalyzedCell& cell);
std::string log_of(const AnalyzedCell& cell);

inline Description describe(Of<HostShare>) {
  using H = HostShare;
  return fields("host_share", "What the ranks on one machine did: medians over the rounds that count.",
                field("name", &H::name, "Its host name, in the report's `hosts`."),
                field("ranks", &H::ranks, "The numbers of its ranks."),
                field("step_time", &H::step_time,
                      "Seconds per step of its slowest rank, the mean over its timed blocks."),
                field("taken", &H::taken, "The largest share of its ranks' processors that others took."),
                field("memory", &H::memory, "Bytes: the sum of its ranks' maxima."),
                field("local_step_time", &H::local_step_time,
                      "Seconds of a step without the exchange, of its slowest rank; null if not measured."));
}

inline Description describe(Of<AnalyzedCell>) {
  return fields(
      "cell", "One point of the matrix of a report.",
      field("id", &AnalyzedCell::cell, &CellReport::id, "Unique in the report."),
      field("report", &AnalyzedCell::report, "Its report."),
      field("group", &AnalyzedCell::group, "Its group."),
      field(
          "environment", &AnalyzedCell::cell, &CellReport::environment,
          "Of a merged report: index into the report's `environments`; else null. Cells of unlike machines are not "
          "paired."),
      field("series", &AnalyzedCell::series,
            "Backend and `mode`; where several reports measured the same work, also the report."),
      field("mode", mode_of,
            "The mode, with the layout, the allocator and the compile cache if they are not the defaults."),
      field("axes", axes_of, "The axes by key; an axis that the cell does not have has its default.")
          .object(),
      field("variant", variant_of, "The axes without a key, by the name of their option."),
      field("is_op", is_of_op, "It is of a single op."),
      field("host_shares", hosts_of_cell, "The machines of its ranks, if they were on several."),
      field("kind", &AnalyzedCell::cell, &CellReport::kind, "As in the report."),
      field("status", &AnalyzedCell::cell, &CellReport::status, "As in the report."),
      field("reason", &AnalyzedCell::cell, &CellReport::reason, "As in the report."),
      field("flags", &AnalyzedCell::cell, &CellReport::flags, "As in the report."),
      field("reproduce", &AnalyzedCell::cell, &CellReport::reproduce, "As in the report."),
      field("backend_version", &AnalyzedCell::cell, &CellReport::backend_version, "As in the report."),
      field("libraries", libraries_of, "As in the report."),
      field("equivalence", equivalence_of, "As in the report."),
      field("clean", &AnalyzedCell::clean, "It may be ranked: ok, equal to the oracle, undisturbed."),
      field("time", &AnalyzedCell::time, "Seconds per step by which it is ranked."),
      field(
          "rank", &AnalyzedCell::rank,
          "The first place that it may have, from 1: one more than the number of cells that are clearly faster; null if it "
          "is not ranked."),
      field(
          "last_rank", &AnalyzedCell::last_rank,
          "The last place that it may have: the number of ranked cells, less those that are clearly slower."),
      field("tied", is_tied, "It may have several places."),
      field("base", &AnalyzedCell::base, "The baseline."),
      field("ratio", &AnalyzedCell::ratio, "The time over the baseline's."),
      field("taxed", &AnalyzedCell::taxed,
            "The ratio is the tax: of a cell of kind `framework` or `runtime` over one of kind `bare`."),
      field(
          "to_fastest", &AnalyzedCell::to_fastest,
          "The time over that of the first cell of the group in order, also of another report; then `n` is 0."),
      field("metrics", metrics_of, "By name."),
      field("train_loss", &AnalyzedCell::train_loss, "After each epoch that every ok fork has evaluated."),
      field("epoch_time", &AnalyzedCell::epoch_time, "Of each epoch."),
      field("first_epoch_ratio", &AnalyzedCell::first_epoch_ratio,
            "The first epoch over the mean of the later ones."),
      field("operators", &AnalyzedCell::operators, "With `--profile`: the time of each op, largest first."),
      field("spread", &AnalyzedCell::spread, "Slowest fork minus fastest fork, over their median."),
      field("work", work_of, "The work of a step."),
      field("memory_limit", &AnalyzedCell::memory_limit,
            "The minimum time of a step by the machine's bandwidth."),
      field("arithmetic_limit", &AnalyzedCell::arithmetic_limit,
            "The minimum time of a step by its arithmetic."),
      field("published", &AnalyzedCell::published, "Numbers of other publications."),
      field("timeline", &AnalyzedCell::timeline, "Of a fork."),
      field("log_tail", log_of, "The end of the first log that a fork left."),
      field("forks", &AnalyzedCell::forks, "In the order of the rounds."),
      field("time_to_accuracy", &AnalyzedCell::time_to_accuracy,
            "With `--time-to-accuracy SHARE`; null if it was not evaluated after an epoch.")
          .left_out_by_default());
}

inline Description describe(Of<AnalysisDocument>) {
  return fields("analysis", "Everything that Assay derives from reports.",
                field("schema", &AnalysisDocument::schema, "The version of this format."),
                field("metrics", &AnalysisDocument::metrics, "The metric table."),
                field("axes", &AnalysisDocument::axes, "The axes of a cell."),
                field("reports", &AnalysisDocument::reports_of_cells, "Each report."),
                field("families", &AnalysisDocument::families, "Groups that differ only in a size."),
                field("groups", &AnalysisDocument::groups_with_texts, "Cells that may be compared."),
                field("plans", &AnalysisDocument::plans, "Programs whose memory plan is known."),
                field("scaling", &AnalysisDocument::scaling, "Of each cell with several ranks."),
                field("answers", &AnalysisDocument::answers, "What `--ask` asked for, in its order."),
                field("cells", &AnalysisDocument::cells, "The cells of all reports, one after another."));
}

}  // namespace assay
