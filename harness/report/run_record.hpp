// How a report came to be: the build, each start of the program, and the data sets that it read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"

namespace assay {

struct BuildRecord {
  std::string compiler{}, type{}, flags{};
};
constexpr auto describe(Of<BuildRecord>) {
  return fields("build", "How this program was built: all that is ours and not a vendor's.",
                field("compiler", &BuildRecord::compiler, "Name and version."),
                field("type", &BuildRecord::type, "CMake's, such as `Release`."),
                field("flags", &BuildRecord::flags, "With which C++ was compiled."));
}
struct FileDigest {
  std::string name{};  // relative to the set's folder
  std::int64_t bytes = 0;
  std::string sha256{};
};
constexpr auto describe(Of<FileDigest>) {
  return fields("dataset_file", "A file of a data set.",
                field("name", &FileDigest::name, "Relative to the folder."),
                field("bytes", &FileDigest::bytes, "Its length.").at_least(0),
                field("sha256", &FileDigest::sha256, "Of its content."));
}
// Where the files of a data set are and what they contain.
struct Provenance {
  std::filesystem::path folder{};
  std::int64_t bytes = 0, file_count = 0;
  std::optional<std::string> checksum{};  // absent where it was not computed
  std::string checksum_of{};
  std::vector<FileDigest> files{};
};
constexpr auto describe(Of<Provenance>) {
  return fields(
      "provenance", "Where the files of a data set are and what they contain.",
      field("folder", &Provenance::folder, "Of the publisher's files; empty for sets that are made here."),
      field("bytes", &Provenance::bytes, "Of all files together.").at_least(0),
      field("file_count", &Provenance::file_count, "Files.").at_least(0),
      field(
          "checksum", &Provenance::checksum,
          "SHA-256 of the lines `<sha256>  <name>` of all files, as `sha256sum FILES | sha256sum` prints it; of "
          "something else where `checksum_of` says so."),
      field("checksum_of", &Provenance::checksum_of,
            "`contents`; of JPEG folders `names and lengths`; of a synthetic set its description."),
      field("files", &Provenance::files, "Each file, where there are at most 64."));
}
struct DatasetRecord : Provenance {
  std::string name{};
  std::vector<std::int64_t> sample_shape{};
  std::int64_t classes = 0;
  std::map<std::string, std::int64_t> splits{};
};
constexpr auto describe(Of<DatasetRecord>) {
  return fields("dataset",
                "What samples were read from, so that others can tell whether theirs are the same.",
                field("name", &DatasetRecord::name, "As `--dataset` names it."),
                field("sample_shape", &DatasetRecord::sample_shape, "Of one sample."),
                field("classes", &DatasetRecord::classes, "How many there are.").at_least(1),
                field("splits", &DatasetRecord::splits, "Samples of each split."))
      .followed_by(describe(Of<Provenance>{}));
}
struct SessionRecord {
  std::string start{}, commit{}, version{}, boot_id{};
  bool dirty = false;
  std::map<std::string, std::string> variables{};
};
constexpr auto describe(Of<SessionRecord>) {
  return fields("session", "One start of the program: the run, and each `--resume` of it.",
                field("start", &SessionRecord::start, "ISO 8601, UTC."),
                field("commit", &SessionRecord::commit, "Of this program; empty outside a repository."),
                field("dirty", &SessionRecord::dirty, "Built from files that differ from the commit."),
                field("version", &SessionRecord::version, "Of this program."),
                field("boot_id", &SessionRecord::boot_id,
                      "Of the system: it changes with every boot. Empty where the system has none."),
                field("variables", &SessionRecord::variables,
                      "Environment variables of the caller that affect speed, such as `OMP_WAIT_POLICY`."));
}
// One setting of a backend that --mode best tried.
struct TriedRecord {
  std::string mode{}, layout{};
  std::optional<double> step_time{};
  std::string reason{};
};
constexpr auto describe(Of<TriedRecord>) {
  return fields("tried", "One fork of a mode and layout, unchecked.",
                field("mode", &TriedRecord::mode, "Of the backend."),
                field("layout", &TriedRecord::layout, "Of its activations."),
                field("step_time", &TriedRecord::step_time, "Seconds; null where it could not be run."),
                field("reason", &TriedRecord::reason, "Why not.").left_out_by_default());
}
struct BestRecord {
  std::string backend{}, work{};
  std::vector<TriedRecord> tried{};
};
constexpr auto describe(Of<BestRecord>) {
  return fields("best", "What `--mode best` tried of a backend for one work.",
                field("backend", &BestRecord::backend, "Its name."),
                field("work", &BestRecord::work, "The title of the group."),
                field("tried", &BestRecord::tried,
                      "The fastest first; it is the one that was measured. Those without a time come last."));
}

// As far as its fields are known: reports keep the run as JSON, and further fields with it.
struct RunRecord {
  std::vector<std::string> command_line{};
  nlohmann::json config{};
  std::string start{}, commit{}, version{};
  std::optional<std::string> end{};
  bool dirty = false, complete = false, quick = false;
  std::map<std::string, double> quick_seconds{};
  nlohmann::json settings{};
  std::vector<std::string> programs{};
  std::vector<std::string> left_out{};
  std::vector<BestRecord> best{};
  BuildRecord build{};
  std::vector<SessionRecord> sessions{};
  std::vector<DatasetRecord> datasets{};
};
constexpr auto describe(Of<RunRecord>) {
  return fields(
      "run", "How the report came to be.",
      field("command_line", &RunRecord::command_line, "As it was called."),
      field("config", &RunRecord::config,
            "What was asked for: the config with the options of the command line over it."),
      field("settings", &RunRecord::settings,
            "What holds for the whole run, given or by default; a cell's `settings` has the rest.")
          .object()
          .optional(),
      field("programs", &RunRecord::programs,
            "Command lines of the workers that it started, without the folder.")
          .optional(),
      field("left_out", &RunRecord::left_out,
            "Sentences: backends that were named and make no cell, and why.")
          .optional(),
      field("best", &RunRecord::best, "What `--mode best` tried before the run.").optional(),
      field("start", &RunRecord::start, "ISO 8601, UTC."),
      field("end", &RunRecord::end, "ISO 8601, UTC; null while it is running."),
      field("commit", &RunRecord::commit, "Of this program; empty outside a repository."),
      field("dirty", &RunRecord::dirty, "Built from files that differ from the commit."),
      field("version", &RunRecord::version, "Of this program."),
      field("build", &RunRecord::build, "Compiler, build type and flags of this program.").optional(),
      field("sessions", &RunRecord::sessions, "Each start of the program, in the order of time.").optional(),
      field("complete", &RunRecord::complete, "Every fork that was planned has its row."),
      field(
          "quick", &RunRecord::quick,
          "Shrunk by `--quick`: to see that it works. Not a measurement, and never the protocol of its config.")
          .optional(),
      field("quick_seconds", &RunRecord::quick_seconds,
            "Of a quick run: how much it took of each backend's two minutes.")
          .optional(),
      field("datasets", &RunRecord::datasets, "The data sets that were read, once for each shape.")
          .optional());
}

}  // namespace assay
