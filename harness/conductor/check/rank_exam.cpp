#include "harness/conductor/check/rank_exam.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/json/encode.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* masks_file = "masks.safetensors";

// Of an array of the samples of all `batches`, one batch after the other, those of one rank.
HostTensor samples_of_rank(const HostTensor& all, std::int64_t batches, std::int64_t distinct, int rank,
                           int world) {
  const std::int64_t own = distinct / world, samples = batches * distinct;
  if (all.type.shape.empty() || all.type.shape.front() != samples)
    throw CellError(fmt::format("[exam] an array has the shape {}, but the exam has {} samples",
                                to_string(all.type.shape), samples));
  TensorType type = all.type;
  type.shape.front() = batches * own;
  HostTensor part = HostTensor::zeros(all.name, type);
  const std::size_t sample = all.bytes.size() / static_cast<std::size_t>(samples);
  auto to = part.bytes.begin();
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const auto begin =
        all.bytes.begin() +
        static_cast<std::ptrdiff_t>(static_cast<std::size_t>(batch * distinct + rank * own) * sample);
    to = std::copy_n(begin, static_cast<std::size_t>(own) * sample, to);
  }
  return part;
}

bool is_joined(const ExpectedTensor& expected) {
  return (expected.rows || expected.mean || expected.draws) && !expected.of_first_rank;
}

// How often a tensor has all rows of a batch, one set of rows after the other: a mask was drawn twice.
std::int64_t sets_of_rows(const ExpectedTensor& expected) {
  return expected.draws ? expected.shape.front() : 1;
}

float mean_of(const std::vector<TensorFile>& ranks, const std::string& scalar) {
  double sum = 0;
  for (const TensorFile& file : ranks) sum += file.required(scalar).front();
  return static_cast<float>(sum / static_cast<double>(ranks.size()));
}

// `joined` gets of each set the rows of rank 0, then those of rank 1, and so on.
void join_rows(const std::vector<TensorFile>& ranks, HostTensor& joined, std::int64_t sets) {
  const std::size_t part = joined.bytes.size() / (static_cast<std::size_t>(sets) * ranks.size());
  auto to = joined.bytes.begin();
  for (std::size_t set = 0; set < static_cast<std::size_t>(sets); ++set)
    for (const TensorFile& file : ranks)
      to = std::ranges::copy(std::span(file.find(joined.name)->bytes).subspan(set * part, part), to).out;
}

}  // namespace

ExamBatches part_of(const ExamBatches& whole, int rank, int world) {
  ExamBatches part{.batch = whole.batch / world, .distinct = whole.distinct / world, .slots = whole.slots};
  const std::int64_t first = rank * part.distinct;
  const auto rows = static_cast<std::size_t>(part.batch);
  for (const std::int64_t row :
       std::span(whole.row_of).subspan(static_cast<std::size_t>(rank) * rows, rows)) {
    if (row < first || row >= first + part.distinct)
      throw CellError(fmt::format(
          "[exam] a row of rank {} is sample {} of the batch, which is another rank's", rank, row));
    part.row_of.push_back(row - first);
  }
  return part;
}

void write_exam_of_rank(const fs::path& exam, const fs::path& folder, int rank, int world) {
  copy_files(exam, folder, false);
  const ExamBatches whole = read_exam_batches(exam / "batches.json");
  for (const char* name : {"inputs.npy", "labels.npy"})
    write_npy(folder / name,
              samples_of_rank(read_npy(exam / name), whole.count(), whole.distinct, rank, world));
  if (fs::exists(exam / masks_file)) {
    std::vector<HostTensor> masks = read_safetensors(exam / masks_file);
    for (HostTensor& mask : masks) mask = samples_of_rank(mask, 1, whole.distinct, rank, world);
    write_safetensors(folder / masks_file, masks);
  }
  write_atomically(folder / "batches.json", encode(part_of(whole, rank, world)).dump() + "\n", false);
}

TensorType type_of_rank(const ExpectedTensor& expected, std::size_t world) {
  TensorType type{expected.draws ? DType::u8 : DType::f32, expected.shape};
  if (expected.rows || expected.draws)
    type.shape.at(expected.draws ? 1 : 0) /= static_cast<std::int64_t>(world);
  return type;
}

void join_answers(std::vector<TensorFile>& ranks, const std::vector<ExpectedTensor>& tensors) {
  for (const ExpectedTensor& expected : tensors) {
    const TensorType of_rank = type_of_rank(expected, ranks.size());
    const bool usable = std::ranges::all_of(
        ranks, [&](const TensorFile& file) { return file.refusal(expected.name, of_rank).empty(); });
    if (!is_joined(expected) || !usable) continue;
    HostTensor joined = HostTensor::zeros(expected.name, {of_rank.dtype, expected.shape});
    if (expected.mean)
      joined.as<float>().front() = mean_of(ranks, expected.name);
    else
      join_rows(ranks, joined, sets_of_rows(expected));
    for (TensorFile& file : ranks) file.put(joined);
  }
}

}  // namespace assay
