// The origin of a report: the build, each start of the program, and the data sets that it read.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/core/json/reported.hpp"
#include "harness/core/words.hpp"

namespace assay {

struct BuildRecord {
  std::string compiler{}, type{}, flags{};
  bool operator==(const BuildRecord&) const = default;
};
inline Description describe(Of<BuildRecord>) {
  return fields("build", "How this program was built: our own code, not the vendors' libraries.",
                field("compiler", &BuildRecord::compiler, "Name and version."),
                field("type", &BuildRecord::type, "CMake's build type, such as `Release`."),
                field("flags", &BuildRecord::flags, "Compiler flags for C++."));
}
struct FileDigest {
  std::string name{};  // relative to the set's folder
  std::int64_t bytes = 0;
  std::string sha256{};
  bool operator==(const FileDigest&) const = default;
};
inline Description describe(Of<FileDigest>) {
  return fields("dataset_file", "A file of a data set, or of weights.",
                field("name", &FileDigest::name, "Path, of a data set relative to its folder."),
                field("bytes", &FileDigest::bytes, "Its length.").at_least(0),
                field("sha256", &FileDigest::sha256, "SHA-256 of its content."));
}
// The location of a data set's files, and their content.
struct Provenance {
  std::filesystem::path folder{};
  std::int64_t bytes = 0, file_count = 0;
  std::optional<std::string> checksum{};  // absent if it was not computed
  std::string checksum_of{};
  std::vector<FileDigest> files{};
  bool operator==(const Provenance&) const = default;
};
inline Description describe(Of<Provenance>) {
  return fields(
      "provenance", "The location of a data set's files, and their content.",
      field("folder", &Provenance::folder,
            "Folder of the publisher's files; empty for sets that are made here."),
      field("bytes", &Provenance::bytes, "Total size of all files.").at_least(0),
      field("file_count", &Provenance::file_count, "Number of files.").at_least(0),
      field("checksum", &Provenance::checksum,
            "SHA-256 of the lines `<sha256>  <name>` of all files, as `sha256sum FILES | sha256sum` prints "
            "it, or of a synthetic set's description."),
      field(
          "checksum_of", &Provenance::checksum_of,
          "`contents`; for a synthetic set its description; in older reports `names and lengths` of JPEG files."),
      field("files", &Provenance::files, "Each file, if there are at most 64."));
}
struct DatasetRecord : Provenance {
  std::string name{};
  std::vector<std::int64_t> sample_shape{};
  std::int64_t classes = 0;
  std::map<std::string, std::int64_t> splits{};
  bool operator==(const DatasetRecord&) const = default;
};
inline Description describe(Of<DatasetRecord>) {
  return fields("dataset", "The source of the samples, so that others can check whether theirs are the same.",
                field("name", &DatasetRecord::name, "As `--dataset` names it."),
                field("sample_shape", &DatasetRecord::sample_shape, "Shape of one sample."),
                field("classes", &DatasetRecord::classes, "Number of classes.").at_least(1),
                field("splits", &DatasetRecord::splits, "Samples of each split."))
      .followed_by(describe(Of<Provenance>{}));
}
// Content that two entries of one data set should share, and do not. A different shape has different splits and, if the
// set is made here, another checksum. In the order "checksum", "checksum_of", "splits".
struct ContentDifference {
  std::string_view what{};  // "checksum"
  nlohmann::json was{}, is{};
};
std::vector<ContentDifference> content_differences(const DatasetRecord& earlier, const DatasetRecord& now);

struct SessionRecord {
  std::string start{}, commit{}, version{}, boot_id{};
  bool dirty = false;
  std::map<std::string, std::string> variables{};
  std::vector<std::string> dropped{};
};
inline Description describe(Of<SessionRecord>) {
  return fields(
      "session", "One start of the program: the run, and each `--resume` of it.",
      field("start", &SessionRecord::start, "ISO 8601, UTC."),
      field("commit", &SessionRecord::commit, "Commit of this program; empty outside of a repository."),
      field("dirty", &SessionRecord::dirty, "True if built from files that differ from the commit."),
      field("version", &SessionRecord::version, "Version of this program."),
      field("boot_id", &SessionRecord::boot_id,
            "Id of the system's boot; it changes with every boot. Empty if the system has none."),
      field(
          "variables", &SessionRecord::variables,
          "Environment variables that every worker got: those of `--environment`, and those of the caller that affect "
          "speed and reach workers, such as `LD_LIBRARY_PATH`."),
      field("dropped", &SessionRecord::dropped,
            "Names of the variables of the caller that affect speed and reached no worker.")
          .left_out_by_default());
}
// One setting of a backend that --mode best tried.
struct TriedRecord {
  std::string mode{}, layout{};
  std::optional<double> step_time{};
  std::int64_t forks = 0;
  std::optional<double> ratio{}, lower{}, upper{};
  std::string reason{};
};
inline Description describe(Of<TriedRecord>) {
  return fields(
      "tried", "The forks of a mode and layout in the search.",
      field("mode", &TriedRecord::mode, "Mode of the backend."),
      field("layout", &TriedRecord::layout, "Layout of its activations."),
      field(
          "step_time", &TriedRecord::step_time,
          "Seconds: the median of the forks that others did not disturb; null if it could not run or was wrong."),
      field("forks", &TriedRecord::forks, "Their number, with disturbed ones.").left_out_by_default(),
      field("ratio", &TriedRecord::ratio,
            "Its step time over that of the first one, in the rounds that both share.")
          .left_out_by_default(),
      field("lower", &TriedRecord::lower,
            "Lower bound of the ratio; the bounds hold for all pairs of the work together with 98 %.")
          .left_out_by_default(),
      field("upper", &TriedRecord::upper, "Upper bound.").left_out_by_default(),
      field("reason", &TriedRecord::reason, "Why it could not run, or what was wrong.")
          .left_out_by_default());
}
struct BestRecord {
  std::string backend{}, work{};
  std::vector<TriedRecord> tried{};
};
inline Description describe(Of<BestRecord>) {
  return fields("best", "The settings of a backend that `--mode best` tried for one work.",
                field("backend", &BestRecord::backend, "Its name."),
                field("work", &BestRecord::work, "The title of the group."),
                field("tried", &BestRecord::tried,
                      "The chosen one first, which was measured. Those without a time come last."));
}

// How `--until clear` ended.
enum class HowEnded { clear, equal, rounds, time, disturbed, interrupted };
template <>
inline constexpr auto words<HowEnded> =
    std::array{Word{HowEnded::clear, "clear"},         Word{HowEnded::equal, "equal"},
               Word{HowEnded::rounds, "rounds"},       Word{HowEnded::time, "time"},
               Word{HowEnded::disturbed, "disturbed"}, Word{HowEnded::interrupted, "interrupted"}};
struct GroupEnd {
  std::string group{};
  HowEnded how = HowEnded::clear;
  bool operator==(const GroupEnd&) const = default;
};
inline Description describe(Of<GroupEnd>) {
  return fields(
      "group_end", "How `--until clear` ended for a group of cells that are compared.",
      field("group", &GroupEnd::group, "The title of the group."),
      field(
          "how", &GroupEnd::how,
          "`clear`: each ratio of two cells is clear of 1; `equal`: each is clear of 1 or within 2 % of it; `rounds`: after "
          "25 rounds that count, one is not; `time`: --max-time ended first; `disturbed`: too few rounds counted; "
          "`interrupted`: the user ended it."));
}

// A part of a run: `--shard index/count` measures only its cells.
struct Shard {
  int index = 1, count = 1;  // index: from 1 to count
  bool operator==(const Shard&) const = default;
};
inline Description describe(Of<Shard>) {
  return fields("shard", "The part of a run that `--shard` measured.",
                field("index", &Shard::index, "Its number, from 1.").at_least(1),
                field("count", &Shard::count, "Number of all shards of the run.").at_least(1));
}
// One of the reports that were merged.
struct MergedShard {
  int index = 1;
  std::string start{};
  std::optional<std::string> end{};
  bool complete = false;
  std::vector<std::string> command_line{};
};
inline Description describe(Of<MergedShard>) {
  return fields("merged_shard", "A report that was merged.",
                field("index", &MergedShard::index, "Number of its shard, from 1.").at_least(1),
                field("start", &MergedShard::start, "ISO 8601, UTC."),
                field("end", &MergedShard::end, "ISO 8601, UTC; null if it was cut off."),
                field("complete", &MergedShard::complete, "True if it had every planned fork."),
                field("command_line", &MergedShard::command_line, "The arguments of the program."));
}
struct Merged {
  int count = 1;
  std::vector<MergedShard> shards{};
};
inline Description describe(Of<Merged>) {
  return fields(
      "merged", "How `assay merge` made the report.",
      field("count", &Merged::count, "Number of all shards of the run.").at_least(1),
      field("shards", &Merged::shards,
            "The shards whose reports were merged: entry n ran in entry n of the report's `environments`."));
}

// The settings of the whole run. Absent: the version that wrote the report did not have the setting.
struct RunSettingsRecord {
  std::optional<int> forks{}, spare_rounds{}, exams{};
  std::optional<std::string> until{}, fork_style{}, examine{};
  std::optional<std::uint64_t> seed{};
  std::optional<bool> seed_per_round{}, quick{}, profile{};
  std::optional<double> max_time{}, time_limit{};
  std::optional<std::string> roofline{};
  std::optional<std::vector<std::filesystem::path>> data{};
  Reported<std::filesystem::path> weights{};
  std::optional<std::map<std::string, std::string>> environment{};
};
inline Description describe(Of<RunSettingsRecord>) {
  return fields(
      "run_settings", "The settings of the whole run, given or by default: see the options of `assay run`.",
      field("forks", &RunSettingsRecord::forks, "`--forks`.").left_out_by_default(),
      field("spare_rounds", &RunSettingsRecord::spare_rounds, "`--spare-rounds`.").left_out_by_default(),
      field("until", &RunSettingsRecord::until, "`--until`: `clear` or `forks`.").left_out_by_default(),
      field("fork_style", &RunSettingsRecord::fork_style, "`--fork-style`: `fresh` or `resident`.")
          .left_out_by_default(),
      field("exams", &RunSettingsRecord::exams, "Sets of questions that the rounds alternate between.")
          .left_out_by_default(),
      field("examine", &RunSettingsRecord::examine, "`--examine`: `all` or `some`.").left_out_by_default(),
      field("max_time", &RunSettingsRecord::max_time, "`--max-time`, in seconds; 0: no limit.")
          .left_out_by_default(),
      field("seed", &RunSettingsRecord::seed, "`--seed`.").left_out_by_default(),
      field("seed_per_round", &RunSettingsRecord::seed_per_round, "`--seed-per-round`.")
          .left_out_by_default(),
      field("time_limit", &RunSettingsRecord::time_limit, "`--time-limit`, in seconds.")
          .left_out_by_default(),
      field("quick", &RunSettingsRecord::quick, "`--quick`.").left_out_by_default(),
      field("profile", &RunSettingsRecord::profile, "`--profile`.").left_out_by_default(),
      field("roofline", &RunSettingsRecord::roofline, "`--roofline`.").left_out_by_default(),
      field("data", &RunSettingsRecord::data, "`--data`.").left_out_by_default(),
      field("weights", &RunSettingsRecord::weights, "`--weights`; null: the parameters are drawn.")
          .left_out_by_default(),
      field("environment", &RunSettingsRecord::environment, "`--environment`, by variable.")
          .left_out_by_default());
}

// How a report came to be. The optional fields are absent in reports of versions that did not have them.
struct RunRecord {
  std::vector<std::string> command_line{};
  nlohmann::json config{};  // as to_json(RunConfig): any option by its name
  std::string start{}, commit{}, version{};
  std::optional<std::string> end{};
  bool dirty = false, complete = false;
  std::optional<bool> quick{};
  std::map<std::string, double> quick_seconds{};
  RunSettingsRecord settings{};
  std::optional<std::vector<std::string>> programs{};
  std::vector<std::string> left_out{};
  std::vector<BestRecord> best{};
  std::vector<GroupEnd> ended{};
  std::optional<BuildRecord> build{};
  std::vector<SessionRecord> sessions{};
  std::optional<std::vector<DatasetRecord>> datasets{};
  std::optional<FileDigest> weights{};
  std::optional<Shard> shard{};
  std::optional<Merged> merged{};
};
inline Description describe(Of<RunRecord>) {
  return fields(
      "run", "How the report came to be.",
      field("command_line", &RunRecord::command_line, "The arguments of the program."),
      field("config", &RunRecord::config,
            "The request: the config, with the options of the command line over it."),
      field("settings", &RunRecord::settings,
            "The settings of the whole run, given or by default; a cell's `settings` has the rest.")
          .left_out_by_default(),
      field("programs", &RunRecord::programs,
            "Command lines of the workers that it started, without the folder.")
          .left_out_by_default(),
      field("left_out", &RunRecord::left_out,
            "Sentences about the backends that were named but have no cell, and why.")
          .left_out_by_default(),
      field("best", &RunRecord::best, "The settings that `--mode best` tried before the run.")
          .left_out_by_default(),
      field("ended", &RunRecord::ended, "With `--until clear`: how it ended for each group of cells.")
          .left_out_by_default(),
      field("start", &RunRecord::start, "ISO 8601, UTC."),
      field("end", &RunRecord::end, "ISO 8601, UTC; null while it is running."),
      field("commit", &RunRecord::commit, "Commit of this program; empty outside of a repository."),
      field("dirty", &RunRecord::dirty, "True if built from files that differ from the commit."),
      field("version", &RunRecord::version, "Version of this program."),
      field("build", &RunRecord::build, "Compiler, build type and flags of this program.")
          .left_out_by_default(),
      field("sessions", &RunRecord::sessions, "Each start of the program, in the order of time.")
          .left_out_by_default(),
      field("complete", &RunRecord::complete, "True if every planned fork is in the report."),
      field("quick", &RunRecord::quick,
            "True if `--quick` made it smaller: a test that it works, not a measurement, and never the "
            "protocol of its config.")
          .left_out_by_default(),
      field("quick_seconds", &RunRecord::quick_seconds,
            "For a quick run: the part of each backend's two minutes that was used.")
          .left_out_by_default(),
      field("datasets", &RunRecord::datasets, "The data sets that were read, one entry for each shape.")
          .left_out_by_default(),
      field(
          "weights", &RunRecord::weights,
          "The files of initial values, if there are any: that of `--weights`, and those of imported networks.")
          .left_out_by_default(),
      field("shard", &RunRecord::shard, "For `--shard`: the part of the run that this report measured.")
          .left_out_by_default(),
      field("merged", &RunRecord::merged, "For a report of `assay merge`: the reports that it joins.")
          .left_out_by_default());
}

}  // namespace assay
