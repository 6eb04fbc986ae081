// The batch library's supply as an owned object that throws exceptions.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>

#include "harness/batch/c_api.h"
#include "harness/protocol/message.hpp"

namespace assay {

// Used from one thread. Every method throws Error with the library's own message.
class Supply {
 public:
  explicit Supply(const std::filesystem::path& cell_folder);
  Supply(const Supply&) = delete;
  Supply& operator=(const Supply&) = delete;

  const assay_layout& layout() const { return layout_; }
  double learning_rate(std::int64_t row) const { return schedule_[2 * row]; }
  std::int64_t step(std::int64_t row) const { return static_cast<std::int64_t>(schedule_[2 * row + 1]); }

  // For several ranks, before the first block: assay_set_agree. What `agree` throws, the call for which it was called
  // throws.
  void set_agree(std::function<std::int64_t(std::int64_t)> agree);
  void read_resident(std::int64_t slot, void* inputs, std::int32_t* labels);
  std::int64_t next_batch(void* inputs, std::int32_t* labels);
  assay_block next_block();
  bool end_block(double loss);  // whether the results of a single op are asked for now
  void enqueued();
  bool lap();  // whether the step's results are asked for now
  void results_read();
  void lap_prefill();
  void add_logits(const float* logits);
  protocol::Progress progress();  // in steps
  // Writes results/clock.json. If it is not called, the destructor closes the supply and ignores errors.
  void close();

 private:
  struct Close {
    void operator()(assay_supply* supply) const { assay_close(supply); }
  };
  static std::int64_t call_agree(void* context, std::int64_t value);
  int block_must(int result);

  std::function<std::int64_t(std::int64_t)> agree_;
  std::exception_ptr error_;  // of agree_
  std::unique_ptr<assay_supply, Close> supply_;
  assay_layout layout_{};
  const double* schedule_ = nullptr;
};

}  // namespace assay
