#include "harness/conductor/check/oracle.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/tensor_file.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/exam_files.hpp"
#include "harness/protocol/message.hpp"
#include "harness/protocol/request.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// For files that are only replaced whole.
void link_or_copy(const fs::path& from, const fs::path& to) {
  fs::remove(to);
  std::error_code failure;
  fs::create_hard_link(from, to, failure);
  if (failure) copy_atomically(from, to, false);
}

void write_json(const fs::path& path, const nlohmann::json& json) {
  write_atomically(path, json.dump() + "\n", false);
}

}  // namespace

int slices_of(const Program& program, int ranks) {
  const bool normalises = std::ranges::any_of(program.inference.nodes(),
                                              [](const Node& node) { return node.op == &batch_norm_op(); });
  return normalises ? ranks : 1;
}

void write_oracle_cell(const fs::path& oracle_folder, const OracleQuestion& question, const Program& program,
                       const OracleWorker& worker) {
  ExamBatches batches = read_exam_batches(question.exam / "batches.json");
  batches.batch = batches.distinct;
  batches.row_of.resize(static_cast<std::size_t>(batches.distinct));
  std::iota(batches.row_of.begin(), batches.row_of.end(), std::int64_t{0});
  const CellRequest request{.protocol = protocol::version,
                            .backend = worker.backend,
                            .workload = program.name(),
                            .task = question.task,
                            .mode = worker.mode,
                            .precision = PrecisionKind::fp64,
                            .batch = batches.distinct,
                            .threads = worker.threads,
                            .deterministic = true,
                            .oracle = OracleRequest{.precision = question.precision,
                                                    .perturbations = question.perturbations,
                                                    .slices = question.slices}};

  Program asked = with_batch(program, batches.distinct);
  asked.segments.clear();  // the oracle computes nothing again: its answers judge every recomputation
  const fs::path to = oracle_folder / "check";
  fs::create_directories(to);
  for (const fs::directory_entry& file : fs::directory_iterator(question.exam))
    link_or_copy(file.path(), to / file.path().filename());
  write_json(oracle_folder / "request.json", encode(request));
  write_json(oracle_folder / "graph.json", to_json(asked));
  write_json(to / "batches.json", encode(batches));
  link_or_copy(question.exam / "state.safetensors", oracle_folder / "parameters.safetensors");
}

namespace {

constexpr const char* answers_name = "oracle.safetensors";
constexpr const char* digest_name = "sha256";
constexpr const char* notes_name = "sharpest";

std::string key_of(const fs::path& oracle_folder, const OracleWorker& worker) {
  std::ostringstream text;
  text << "check " << check_version << '\n';
  // The program, and the script that it may run. A word that is not a file, such as an option or a program on the PATH,
  // counts as it is.
  for (const std::string& word : worker.command)
    text << "worker " << (fs::is_regular_file(word) ? sha256_of_file(word) : word) << '\n';
  for (const char* file :
       {"request.json", "graph.json", "check/state.safetensors", "check/inputs.npy", "check/labels.npy",
        "check/schedule.npy", "check/batches.json", "check/masks.safetensors", "check/extreme.safetensors"}) {
    if (fs::exists(oracle_folder / file)) text << file << ' ' << sha256_of_file(oracle_folder / file) << '\n';
  }
  return sha256(text.str());
}

// Whether the content of the entry is intact.
bool intact(const fs::path& entry) {
  std::ifstream file(entry / digest_name);
  std::string digest;
  if (!(file >> digest) || !fs::is_regular_file(entry / answers_name)) return false;
  return sha256_of_file(entry / answers_name) == digest;
}

// Writes into a new folder and then renames it, so that no process sees an incomplete entry.
void keep(const fs::path& answers, const fs::path& entry) {
  const fs::path temporary = entry.string() + fmt::format(".{}", ::getpid());
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  link_or_copy(answers, temporary / answers_name);
  std::ofstream file(temporary / digest_name);
  file << sha256_of_file(answers) << '\n';
  file.close();
  std::error_code failure;
  if (file) {
    fs::remove_all(entry, failure);
    fs::rename(temporary, entry, failure);  // another process may have been faster; its entry is equal
  }
  fs::remove_all(temporary, failure);
}

// Removes the entries that were not used for longest, until the others take no more than `max_bytes`.
void trim(const fs::path& folder, std::uintmax_t max_bytes) {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    std::uintmax_t bytes;
  };
  std::vector<Entry> entries;
  std::uintmax_t total = 0;
  std::error_code failure;
  for (const fs::directory_entry& found : fs::directory_iterator(folder)) {
    const fs::path answers = found.path() / answers_name;
    const std::uintmax_t bytes = fs::file_size(answers, failure);
    if (failure) continue;  // another process makes or removes it
    const fs::file_time_type used = fs::last_write_time(answers, failure);
    if (failure) continue;
    entries.push_back({found.path(), used, bytes});
    total += bytes;
  }
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= max_bytes) return;
    fs::remove_all(entry.path, failure);
    total -= entry.bytes;
  }
}

}  // namespace

OracleCache::OracleCache(fs::path folder, std::uintmax_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {}

OracleCache::Answers OracleCache::answers(const OracleQuestion& question, const Program& program,
                                          const OracleWorker& worker, const fs::path& scratch,
                                          const Run& run) const {
  fs::remove_all(scratch);
  write_oracle_cell(scratch, question, program, worker);
  const fs::path entry = folder_.empty() ? fs::path() : folder_ / key_of(scratch, worker);
  const fs::path answers = scratch / "results" / answers_name;
  try {
    if (!entry.empty() && intact(entry)) {
      // Its own name, because another process may remove the entry while it is read.
      fs::create_directories(answers.parent_path());
      link_or_copy(entry / answers_name, answers);
      std::error_code gone;
      fs::last_write_time(entry / answers_name, fs::file_time_type::clock::now(), gone);
      return {answers, true, entry};
    }
  } catch (const std::runtime_error&) {
    fs::remove(answers);  // an unreadable entry is treated as absent
  }

  run(scratch);
  TensorFile::read(answers);  // throws if there are no usable answers
  try {
    if (!entry.empty() && fs::file_size(answers) <= max_bytes_) {
      keep(answers, entry);
      trim(folder_, max_bytes_);
    }
  } catch (const std::runtime_error&) {
    // A cache that cannot be written only costs time.
  }
  return {answers, false, entry};
}

void OracleCache::forget(const Answers& answers) {
  std::error_code ignored;
  if (!answers.entry.empty()) fs::remove_all(answers.entry, ignored);
}

std::optional<int> OracleCache::sharpest_draw(const std::string& exam) const {
  std::ifstream file(folder_ / notes_name / exam);
  int draw = -1;
  return file >> draw && draw >= 0 ? std::optional(draw) : std::nullopt;
}

void OracleCache::note_sharpest_draw(const std::string& exam, int draw) const try {
  constexpr std::chrono::days lifetime{30};
  const fs::path notes = folder_ / notes_name;
  fs::create_directories(notes);
  write_atomically(notes / exam, fmt::format("{}\n", draw), false);
  std::error_code gone;
  for (const fs::directory_entry& note : fs::directory_iterator(notes))
    if (note.last_write_time(gone) < fs::file_time_type::clock::now() - lifetime && !gone)
      fs::remove(note.path(), gone);
} catch (const std::runtime_error&) {  // the next process draws them all again
}

}  // namespace assay
