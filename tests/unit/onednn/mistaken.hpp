// Ranks that exchange other gradients than they should.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/collectives/communicator.hpp"

namespace assay::onednn::ranks {

using collectives::Communicator;

// A communicator with a mistake of tests/mutants/rank_mistakes.py; another name: none.
class Mistaken final : public Communicator {
 public:
  Mistaken(std::shared_ptr<Communicator> right, std::string mistake)
      : right_(std::move(right)), mistake_(std::move(mistake)) {}

  int rank() const override { return right_->rank(); }
  int world() const override { return right_->world(); }
  std::string library() const override { return right_->library(); }
  void sum(float* values, std::int64_t count) override {
    const std::vector<float> before(values, values + count);
    right_->sum(values, count);
    const auto scaled = static_cast<float>(world());
    if (mistake_ == "SumsGradients") std::for_each(values, values + count, [&](float& v) { v *= scaled; });
    // The first bucket of each step.
    if (mistake_ == "SkipsABucket" && elements_ == 0) elements_ = count;
    if (mistake_ == "SkipsABucket" && count == elements_) own(values, before);
    if (mistake_ == "KeepsItsOwnGradients" && rank() == 1) own(values, before);
    if (mistake_ == "IsOneStepLate") {  // the sums of the step before; zeros in the first one
      const std::pair<const float*, std::int64_t> place{values, count};
      std::vector<float>& earlier = earlier_.try_emplace(place, before.size()).first->second;
      std::swap_ranges(earlier.begin(), earlier.end(), values);
    }
  }
  std::int64_t first(std::int64_t value) override { return right_->first(value); }
  void abort(const std::string& reason) noexcept override { right_->abort(reason); }

 private:
  // Its own gradients, as if it had not exchanged them.
  void own(float* values, const std::vector<float>& before) const {
    for (std::size_t i = 0; i < before.size(); ++i) values[i] = before[i] * static_cast<float>(world());
  }

  std::shared_ptr<Communicator> right_;
  std::string mistake_;
  std::int64_t elements_ = 0;  // of the bucket that is skipped
  std::map<std::pair<const float*, std::int64_t>, std::vector<float>> earlier_;  // by place and size
};

}  // namespace assay::onednn::ranks
