// All that is derived from reports, computed once: which cells are compared, which forks count, who is how much
// faster. The tables print it, `assay show --format json` writes it, and the pictures draw that.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/axes.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/operator_times.hpp"
#include "harness/report/report.hpp"

namespace assay {

// What the work of a cell is called in plain words, for pictures and pages.
struct Heading {
  std::string title;  // "lenet5, training, batch 200"
  std::string about;  // what else was set: "fp32, fashion-mnist, adam, cpu, 2 threads, …, steps"
};

// Of a network with its batch, of a single op at all of its sizes.
Heading group_heading(const Axes& axes);
// The same without the batch.
Heading family_heading(const Axes& axes);

// Which cells may be compared, and by how much they differ: paired ratios within rounds.

// Below it a sample has no interval.
inline constexpr std::size_t rounds_for_interval = 6;

// A ratio of times, a / b, over the rounds that count in both.
struct PairedRatio {
  double value = 0;                // median over rounds
  double least = 0, greatest = 0;  // over rounds
  std::optional<double> lower{};   // absent below six rounds
  std::optional<double> upper{};
  std::optional<double> confidence{};
  int n = 0;  // rounds

  // Whether the interval, or below six rounds each single ratio, lies above 1.
  bool above_one() const { return (lower ? *lower : least) > 1; }
  bool below_one() const { return (upper ? *upper : greatest) < 1; }
};
// Time a step of `a` over that of `b`; nothing where no round is shared or a cell is not clean.
std::optional<PairedRatio> time_ratio(const CellReport& a, const CellReport& b);
// A metric of `a` over that of `b`, of the forks behind both metrics, so that flags do not matter; nothing where no
// round has both.
std::optional<PairedRatio> metric_ratio(const CellReport& a, const CellReport& b, std::string_view metric);
// The same with a metric of its own for each cell, which may be one cell: first_epoch_time over epoch_time.
std::optional<PairedRatio> metric_ratio(const CellReport& a, std::string_view metric, const CellReport& b,
                                        std::string_view other_metric);
// A metric of one cell over the rounds that have it, with the cell's own value and interval; n = 0 and no range if it
// is not measured in forks (what was planned). Nothing if it has no value.
std::optional<PairedRatio> metric_over_rounds(const CellReport& cell, std::string_view metric);

// A metric of the cell, or its ratio to one of another cell: `cell` and `other` are places in Analysis::cells.
struct Question {
  std::string metric{};
  std::string other_metric{};  // empty: the same metric
  std::size_t cell = 0;
  std::optional<std::size_t> other{};
};

// Median time a step over the forks that count; nothing unless the cell may be ranked.
std::optional<double> ranked_time(const CellReport& cell);

struct AnalyzedFork {
  const Fork* fork = nullptr;
  bool clean = false;    // its times count: ok, and not in a disturbed round
  bool counted = false;  // one of those behind the cell's metrics
  std::optional<ForkTime> time{};
  // How far the fork's time a step, and the quantiles 0.1 and 0.9 over its steady blocks, lie from the cell's
  // median over forks that are ok: 0.1 is 10 % above it.
  std::optional<double> off{}, off_low{}, off_high{};
  std::map<int, double> epochs{};            // epoch -> seconds in its timed blocks
  std::optional<double> training_seconds{};  // compilation and all epochs
  std::map<std::string, double> accuracy{};  // split -> of its last evaluation

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
  std::optional<std::size_t> other{};  // the cell that a ratio is to
  // Of a ratio the same of the two cells, paired within rounds; with n = 0 of the two values, where no round has the
  // metric of both (what was planned).
  std::optional<PairedRatio> measured{};
  std::optional<double> samples_per_second{};  // what was published of a step, as a rate
};

struct AnalyzedCell {
  const CellReport* cell = nullptr;
  std::size_t report = 0, group = 0;
  std::string series{};          // "onednn graph"; of several reports "onednn graph @ label"
  bool clean = false;            // it may be ranked
  std::optional<double> time{};  // seconds a step, by which it is ranked
  // From 1, in its group. Cells whose ratio to the one before is not clear of 1 share its rank.
  std::optional<int> rank{};
  bool tied = false;                   // another cell has the same rank
  std::optional<std::size_t> base{};   // of its group and report, see AnalyzedGroup::baselines
  std::optional<PairedRatio> ratio{};  // of times, to the base
  bool taxed = false;                  // the ratio is a framework's to a bare library
  // Of times, to the fastest of the group; with n = 0 of the medians, where they share no round.
  std::optional<PairedRatio> to_fastest{};
  std::vector<AnalyzedFork> forks{};
  std::vector<CurvePoint> train_loss{};  // after each epoch that every fork that is ok has evaluated
  std::vector<CurvePoint> epoch_time{};
  std::optional<double> first_epoch_ratio{};  // the first epoch over the mean of the later ones
  std::vector<OperatorTime> operators{};      // with --profile
  std::optional<double> spread{};             // of forks that count: (slowest - fastest) / median
  // The least time that one step takes by the machine's bandwidth, and by its arithmetic.
  std::optional<double> memory_limit{}, arithmetic_limit{};
  std::optional<Timeline> timeline{};  // of the first fork that is ok and was sampled
  std::vector<AnalyzedPublished> published{};
};

// The cells of all reports that may be compared.
struct AnalyzedGroup {
  std::string title{};
  Heading heading{};
  std::size_t family = 0;
  bool is_op = false;
  std::vector<std::size_t> cells{};  // in the order of the reports
  int rounds = 0;  // the least number of rounds that two ranked neighbors share; 0: no two are ranked
  std::vector<std::size_t> in_rank{};  // ranked ones by time, then those that were timed, then the others
  // Per report what its others are measured against: the fastest ranked cell of a bare library, else of all.
  std::vector<std::optional<std::size_t>> baselines{};
};

// How many times as long as the leader a series takes, over the sizes that both have.
struct Follower {
  std::string series{};
  double low = 0, high = 0;
};
struct Leader {
  std::string series{};
  int wins = 0, sizes = 0;  // it is the fastest at so many of the sizes with two ranked cells or more
  bool sure = true;         // every ratio has an interval
  std::vector<Follower> followers{};  // the nearest first
};

// Groups that differ in nothing but the batch, or the size of an op.
struct AnalyzedFamily {
  std::string title{};
  Heading heading{};
  bool is_op = false;
  std::vector<std::size_t> groups{};
  std::optional<Leader> leader{};  // nothing where no group has two ranked cells
};

// A program whose memory plan is known.
struct AnalyzedPlan {
  std::size_t cell = 0;         // the first that has it; the plan is of the graph, whatever executes it
  std::int64_t persistent = 0;  // bytes that outlive a step, the minimum over backends; 0: not known
};

struct Analysis {
  std::vector<const Report*> reports{};
  std::vector<std::string> labels{};
  std::vector<AnalyzedCell> cells{};  // of all reports, one after another
  std::vector<AnalyzedGroup> groups{};
  std::vector<AnalyzedFamily> families{};
  std::vector<AnalyzedPlan> plans{};

  const CellReport& report_cell(std::size_t i) const { return *cells[i].cell; }
};

// Cells of several reports were not run in the same rounds: they share groups, and are not paired. `labels`
// name the reports, one each; a single one needs none. The reports must outlive the result.
Analysis analyze(std::span<const Report> reports, std::span<const std::string> labels = {});
Analysis analyze(const Report& report);

// Paired within rounds. With n = 0 of the two values, if the cells share no round: they are of two reports, or the
// metric is not measured in forks. Nothing if a value is missing.
std::optional<PairedRatio> answer_to(const Analysis& all, const Question& question);

// "onednn graph", with the layout where it is not the backend's own.
std::string short_name(const CellReport& cell);

}  // namespace assay
