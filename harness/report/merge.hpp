// Joins the reports of the shards of one run. The shards may have run on different machines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/words.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Why reports must not be merged, as a code that programs may rely on.
enum class MergeRefusal {
  not_a_shard,
  already_merged,
  other_schema,
  other_build,
  other_config,
  other_shards,
  other_cells,
  duplicate_forks,
  overlapping_cells,
  other_libraries,
  other_data,
  contradiction
};
template <>
inline constexpr auto words<MergeRefusal> =
    std::array{Word{MergeRefusal::not_a_shard, "not_a_shard"},
               Word{MergeRefusal::already_merged, "already_merged"},
               Word{MergeRefusal::other_schema, "other_schema"},
               Word{MergeRefusal::other_build, "other_build"},
               Word{MergeRefusal::other_config, "other_config"},
               Word{MergeRefusal::other_shards, "other_shards"},
               Word{MergeRefusal::other_cells, "other_cells"},
               Word{MergeRefusal::duplicate_forks, "duplicate_forks"},
               Word{MergeRefusal::overlapping_cells, "overlapping_cells"},
               Word{MergeRefusal::other_libraries, "other_libraries"},
               Word{MergeRefusal::other_data, "other_data"},
               Word{MergeRefusal::contradiction, "contradiction"}};

// what(): "[merge] other_build: b.json was made by commit …"
class MergeError : public Error {
 public:
  MergeError(MergeRefusal code, const std::string& text);
  MergeRefusal code() const { return code_; }

 private:
  MergeRefusal code_;
};

// The report of one shard, and the name of its file for errors.
struct MergePart {
  std::string name{};
  Report report{};
};

// One report with the cells of all parts, in the order of the plan, each with the index of its machine in
// `environments`. The order of the parts does not matter. The cells of a shard that is not given become
// `interrupted` with the code `shard_missing`. The places of forks in time (Fork::order) and their sessions are
// numbered again. `run` is that of the first shard, with the sessions and data sets of all; its command line is
// `command_line`. Throws MergeError if the parts are not shards of one run by one build. Precondition: `parts`
// is not empty.
Report merge(std::vector<MergePart> parts, const std::vector<std::string>& command_line);

// The meaning of each code as Markdown, for docs/reference/reason-codes.md.
std::string merge_refusal_reference();

}  // namespace assay
