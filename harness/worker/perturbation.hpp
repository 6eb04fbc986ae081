// The feeds of an exam with their values moved by roundings: what other correct backends compute differs by as much.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/core/io/philox.hpp"
#include "harness/worker/exam.hpp"

namespace assay {

// The most unit roundoffs that a value is moved by: a neighbouring number is then as likely as the value itself.
inline constexpr double perturbed_roundings = 2;

// The exam's feeds with every value moved by up to `roundings` unit roundoffs, and with the samples (of each slice) in
// another order. With -roundings and the same run, every value is moved as far in the other direction.
class Perturbation {
 public:
  Perturbation(const ExamFeeds& feeds, const Program& program, Task task, const OracleOptions& oracle,
               int run, double roundings = perturbed_roundings);

  // Gives each nudge of the feeds (Kinks::nudges()) a value of up to some times its `reach`.
  void nudge(const std::vector<HostTensor>& reach);

  const ExamFeeds& feeds() const { return feeds_; }
  // Rows of an answer, of one or more batches, in the order of the unperturbed rows.
  std::vector<double> ordered(const std::vector<double>& rows, std::int64_t batches = 1) const;

 private:
  void permute(const HostTensor& from, HostTensor& to, std::int64_t batch) const;
  void move_rates(double roundoff);
  void move_gates(std::span<float> bias, double roundoff);
  void move(std::span<float> values, double roundoff);

  Philox random_;
  double roundings_;
  ExamFeeds feeds_;
  std::vector<std::size_t> order_;
};

}  // namespace assay
