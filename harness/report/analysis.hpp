// All data that are derived from reports, computed once: the comparable cells, the forks that count, and the
// speed ratios. The tables print them, `assay show --format json` writes them, and the pictures draw them.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/report/axes.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/operator_times.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The work of a cell in plain words, for pictures and pages.
struct Heading {
  std::string title;  // "lenet5, training, batch 200"
  std::string about;  // the other settings: "fp32, fashion-mnist, adam, cpu, 2 threads, …, steps"
};

// Describes a network with its batch, or a single op at all of its sizes.
Heading group_heading(const Axes& axes);
// The same without the batch.
Heading family_heading(const Axes& axes);

// Which cells may be compared, and their differences: paired ratios within rounds.

// With fewer rounds a sample has no interval.
inline constexpr std::size_t rounds_for_interval = 6;

// A ratio of times, a / b, over the rounds that count in both: those of one session in which the forks of both count.
struct PairedRatio {
  double value = 0;                // median over rounds
  double least = 0, greatest = 0;  // over rounds
  std::optional<double> lower{};   // absent below six rounds
  std::optional<double> upper{};
  std::optional<double> confidence{};
  int n = 0;  // rounds

  // Whether the interval is above 1; below six rounds, whether every ratio is above 1.
  bool above_one() const { return (lower ? *lower : least) > 1; }
  bool below_one() const { return (upper ? *upper : greatest) < 1; }
};
// The rounds of one session in which both cells have a fork; of one cell with itself: its forks.
struct SharedRounds {
  int all = 0;
  int ok = 0;        // both forks are ok
  int counting = 0;  // both count
};
SharedRounds shared_rounds(const CellReport& a, const CellReport& b);

// Step time of `a` over that of `b`, both of one report; nothing if no round is shared, a cell is not clean, or
// they ran on two machines of a merged report.
std::optional<PairedRatio> time_ratio(const CellReport& a, const CellReport& b);
// A metric of `a` over that of `b`, for the forks of both metrics, so that flags do not matter; nothing if no
// round has both, or they ran on two machines of a merged report.
std::optional<PairedRatio> metric_ratio(const CellReport& a, const CellReport& b, std::string_view metric);
// The same with a metric of its own for each cell, which may be one cell: first_epoch_time over epoch_time.
std::optional<PairedRatio> metric_ratio(const CellReport& a, std::string_view metric, const CellReport& b,
                                        std::string_view other_metric);
// A metric of one cell over the rounds that have it, with the cell's own value and interval; n = 0 and no range if it
// is not measured in forks (what was planned). Nothing if it has no value.
std::optional<PairedRatio> metric_over_rounds(const CellReport& cell, std::string_view metric);

// The times of steps, by session and round, of the forks that count; empty unless the cell may be ranked.
std::map<RoundKey, double> counted_times(const CellReport& cell);
// One value for each round, as in a PairedRatio. Throws std::invalid_argument if empty.
PairedRatio over_rounds(const std::vector<double>& values);

// How the time of a step grows with a size: by a straight line, and by each doubling of the size. Each is fitted within
// a round, so what slows a whole round changes no doubling.
struct Growth {
  int sizes = 0;
  double smallest = 0, largest = 0;
  // Of the line; nothing if it misses a time by more than max_misfit, because then the time is no straight line.
  std::optional<PairedRatio> fixed{};  // seconds at size 0: what a step costs at any size
  std::optional<PairedRatio> each{};   // seconds that each further unit of the size adds
  PairedRatio doubling{};  // the factor of the time when the size doubles, from the power law that fits best
  double misfit = 0;       // of the line: the largest relative distance from the median time of a size
};
inline constexpr double max_misfit = 0.2;
struct SeriesGrowth : Growth {
  std::string series{};
};
// A size, and the cell that was timed at it.
struct SizedCell {
  double size = 0;
  const CellReport* cell = nullptr;
};
// The line minimises the sum of squares of relative distances, since times of unlike sizes have unlike errors; the power
// law is the least-squares line of the logarithms. Nothing with fewer than three sizes, without a round that counts at
// every size, or if the cells ran on several machines.
std::optional<Growth> growth_over(std::span<const SizedCell> cells);

// The seconds of training, compilation included, until the end of the first epoch after which the accuracy on the
// validation split (if there is none: on the test split) is at least a target. Evaluations are not part of them. A fork
// that does not reach the target counts as longer than any other.
struct TimeToAccuracy {
  double target = 0;
  DataSplit split = DataSplit::validation;
  int reached = 0, forks = 0;
  // Over the forks that count; absent if they are longer than any.
  std::optional<double> value{}, lower{}, upper{}, confidence{};
  std::optional<int> epochs{};  // median of the forks that reached it, the earlier of two
};

// A metric of the cell, or its ratio to one of another cell: `cell` and `other` are places in Analysis::cells.
struct Question {
  std::string metric{};
  std::string other_metric{};  // empty: the same metric
  std::size_t cell = 0;
  std::optional<std::size_t> other{};
};

// Median step time over the forks that count; nothing unless the cell may be ranked.
std::optional<double> ranked_time(const CellReport& cell);

struct AnalyzedFork {
  const Fork* fork = nullptr;
  bool clean = false;    // its times count, see counts()
  bool counted = false;  // one of the forks of the cell's metrics
  std::optional<ForkTime> time{};
  // Distances of the fork's step time, and of the quantiles 0.1 and 0.9 over its steady blocks, from the
  // cell's median over forks that are ok: 0.1 means 10 % above it.
  std::optional<double> off{}, off_low{}, off_high{};
  std::map<int, double> epochs{};            // epoch -> seconds in its timed blocks
  std::optional<double> training_seconds{};  // compilation and all epochs
  std::map<std::string, double> accuracy{};  // split -> value of its last evaluation

  // Seconds of training until the end of an epoch, compilation included.
  double seconds_until(int epoch) const;
};

// Over forks.
struct CurvePoint {
  int epoch = 0;
  double median = 0, low = 0, high = 0;
  int n = 0;
};

struct AnalyzedPublished {
  const Published* published = nullptr;
  Hint hint = Hint::number;            // how its value is best shown
  std::optional<std::size_t> other{};  // the cell that a ratio is to
  // For a ratio: the same ratio of the two cells, paired within rounds; with n = 0 the ratio of the two
  // values, if no round has the metric of both (planned values).
  std::optional<PairedRatio> measured{};
  std::optional<double> samples_per_second{};  // the published step time, as a rate
};

struct AnalyzedCell {
  const CellReport* cell = nullptr;
  std::size_t report = 0, group = 0;
  std::string series{};          // "onednn graph"; with several reports "onednn graph @ label"
  bool clean = false;            // it may be ranked
  std::optional<double> time{};  // seconds for each step, by which it is ranked
  // Its place in its group, from 1: any of these, see Places. Absent: it is not ranked.
  std::optional<int> rank{}, last_rank{};
  std::optional<std::size_t> base{};   // the base of its group and report, see AnalyzedGroup::baselines
  std::optional<PairedRatio> ratio{};  // of times, to the base
  bool taxed = false;                  // the ratio compares a framework with a bare library
  // Ratio of times to the first of the group; with n = 0 the ratio of the medians, if they share no round.
  std::optional<PairedRatio> to_fastest{};

  bool tied() const { return rank != last_rank; }  // it may have several places
  std::vector<AnalyzedFork> forks{};
  std::vector<CurvePoint> train_loss{};  // after each epoch that every ok fork has evaluated
  std::vector<CurvePoint> epoch_time{};
  std::optional<double> first_epoch_ratio{};  // the first epoch over the mean of the later ones
  std::vector<OpTime> operators{};            // with --profile
  std::optional<double> spread{};             // of forks that count: (slowest - fastest) / median
  // The minimum time of a step by the machine's bandwidth, and by its arithmetic.
  std::optional<double> memory_limit{}, arithmetic_limit{};
  std::optional<Timeline> timeline{};  // of the first fork that is ok and was sampled
  std::vector<AnalyzedPublished> published{};
  // Only in a document that has a target: nothing in it if the cell has none.
  std::optional<std::optional<TimeToAccuracy>> time_to_accuracy{};
};

// A cell in a provisional order.
struct ProvisionalRow {
  std::size_t cell = 0;  // a place in Analysis::cells
  double time = 0;       // seconds of a step: median over its forks
  // Times over those of the first row, over the rounds that both have. It has no interval: disturbed rounds are no sample of
  // undisturbed ones.
  PairedRatio to_first{};
  // The nearest row before it from which it stays apart: in each round, and in at least six, it took longer than that one,
  // also without what others can have cost it (undisturbed_step_at_least()). A place in Analysis::cells.
  std::optional<std::size_t> apart_from{};
};
// The order of a group by all of its rounds, also by the disturbed ones. It is not a ranking, and no verdict uses it.
struct Provisional {
  int rounds = 0, disturbed = 0;  // disturbed: of the rounds
  // The threads of its forks, if they have the flag fewer_threads: those are taken if no fewer cells have them than have others.
  std::optional<int> threads{};
  std::vector<ProvisionalRow> rows{};  // by the median of their times over those of the fastest
};

// The comparable cells of all reports.
struct AnalyzedGroup {
  std::string title{};
  Heading heading{};
  std::size_t family = 0;
  bool is_op = false;
  std::vector<std::size_t> cells{};  // in the order of the reports
  // The minimum of rounds that count which two neighbors in order share: of the ranked cells, or if none are, of those
  // that may be; 0: fewer than two, or they are of several reports.
  int rounds = 0;
  std::vector<std::size_t> in_rank{};  // first ranked cells, fastest first; then timed cells, then the others
  // For each report, the cell that the others are compared with: of those that may be ranked, the first of a bare
  // library, else of all.
  std::vector<std::optional<std::size_t>> baselines{};
  std::optional<Provisional>
      provisional{};  // if no order can be had from the rounds that count, see add_provisional()
};

// The time of a series over that of the leader, over the sizes that both have.
struct Follower {
  std::string series{};
  double low = 0, high = 0;
};
struct Leader {
  std::string series{};
  int wins = 0,
      sizes = 0;     // it is clearly the fastest at `wins` of the `sizes` with two or more ranked cells
  bool sure = true;  // every ratio has an interval
  std::vector<Follower> followers{};  // the nearest first
};

// Groups that differ only in the batch, or in the size of an op.
struct AnalyzedFamily {
  std::string title{};
  Heading heading{};
  bool is_op = false;
  std::vector<std::size_t> groups{};
  std::optional<Leader> leader{};  // nothing if no cell is clearly the fastest of its group
  // By series, in the order of their first cell: over the batch, or over the size of an op if it is one number (4096,
  // m512). A series that was not timed at three sizes has none.
  std::vector<SeriesGrowth> growth{};
};

// A program whose memory plan is known.
struct AnalyzedPlan {
  std::size_t cell = 0;         // the first cell with it; the plan depends on the graph, not on the backend
  std::int64_t persistent = 0;  // bytes that outlive a step, the minimum over backends; 0: not known
};

enum class ScalingKind { strong, weak };
template <>
inline constexpr auto words<ScalingKind> =
    std::array{Word{ScalingKind::strong, "strong"}, Word{ScalingKind::weak, "weak"}};

// The samples per second of a cell with several ranks, over those of one rank times the number of ranks. Paired within
// rounds, as the times are.
struct AnalyzedScaling {
  std::size_t cell = 0, base = 0;
  ScalingKind kind =
      ScalingKind::strong;  // strong: both have the same batch; weak: the same batch for each rank
  PairedRatio efficiency{};
};

struct Analysis {
  std::vector<const Report*> reports{};
  std::vector<std::string> labels{};
  std::vector<AnalyzedCell> cells{};  // of all reports, one after another
  std::vector<AnalyzedGroup> groups{};
  std::vector<AnalyzedFamily> families{};
  std::vector<AnalyzedPlan> plans{};
  std::vector<AnalyzedScaling> scaling{};

  const CellReport& report_cell(std::size_t i) const { return *cells[i].cell; }
};

// Cells of several reports were not run in the same rounds: they share groups, but are not paired. Leaves out
// the cells of other shards. `labels` has one name for each report; a single report needs none. The reports
// must outlive the result.
Analysis analyze(std::span<const Report> reports, std::span<const std::string> labels = {});
Analysis analyze(const Report& report);

// Nothing if no fork that counts was evaluated after an epoch.
std::optional<TimeToAccuracy> time_to_accuracy(const AnalyzedCell& cell, double target);

// The cells with forks that are ok, by all rounds, disturbed or not. `cell` and `apart_from` of a row are places in `cells`.
// Leaves out cells that share no round with the fastest. Nothing if fewer than two are left.
std::optional<Provisional> order_by_all_rounds(std::span<const CellReport* const> cells);

// Fills in the provisional order of each group of one report in which nothing is ranked, fewer than two rounds count, one or more were
// disturbed, and two or more cells were timed and are equal to the oracle; then their order in `in_rank` is this one.
// analyze() calls it.
void add_provisional(Analysis& all);

// Fills in Analysis::scaling, of the cells of each report; analyze() calls it.
void add_scaling(Analysis& all);

// Paired within rounds. With n = 0 of the two values, if the cells share no round: they are of two reports, or the
// metric is not measured in forks. Nothing if a value is missing.
std::optional<PairedRatio> answer_to(const Analysis& all, const Question& question);

// "onednn graph": the backend with its mode_words().
std::string short_name(const CellReport& cell);

}  // namespace assay
