// The worker of onednn with a mistake of its ranks or a fault, for tests/python/test_ranks.py: the counterpart of
// wrong_ranks_worker.py and faulty_worker.py there. The environment names it:
//
//     MISTAKE      a class of tests/python/rank_mistakes.py; another name: no mistake
//     FAULT        crash, exception or loop, in step 17 of the worker
//     FAULT_RANK   the rank that has the fault
//     PROCESSES    a folder in which each worker leaves a file that is named by its process
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/collectives/mpi.hpp"
#include "backends/onednn/backend.hpp"
#include "tests/mutants/wrong.hpp"
#include "tests/unit/onednn/ranks.hpp"

namespace assay::onednn::ranks {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// The name of a mistake of the communicator; empty if it has none.
std::string mistake_of_communicator() {
  const std::map<std::string, std::string> names = {{"SumsGradients", "sum"},
                                                    {"KeepsItsOwnGradients", "lone rank"},
                                                    {"SkipsABucket", "skipped bucket"},
                                                    {"IsOneStepLate", "late"}};
  const auto found = names.find(variable("MISTAKE"));
  return found == names.end() ? "" : found->second;
}

class Ranked final : public mutants::Wrong {
 public:
  Ranked(int rank, std::shared_ptr<Communicator> communicator)
      : rank_(rank), communicator_(std::move(communicator)) {}

  std::int64_t agree(std::int64_t value) override { return right->agree(value); }

  void set_state(std::span<const HostTensor> tensors) override {
    if (mistake_ != "StartsElsewhere" || rank_ != 1) return right->set_state(tensors);
    std::vector<HostTensor> scaled(tensors.begin(), tensors.end());
    for (HostTensor& tensor : scaled)
      for (float& element : tensor.as<float>()) element *= 1.01F;
    right->set_state(scaled);
  }

  void stage(std::int64_t slot, const HostBatch& batch) override {
    if (mistake_ != "ReadsTheSameSlice" || !communicator_) return right->stage(slot, batch);
    stage_changed(slot, batch, [this](mutants::Bytes& inputs, mutants::Labels& labels) {
      replace_by_those_of_rank_0(mutants::floats(inputs));
      std::vector<float> numbers(labels.begin(), labels.end());
      replace_by_those_of_rank_0(numbers);
      std::ranges::transform(numbers, labels.begin(),
                             [](float number) { return static_cast<std::int32_t>(number); });
    });
  }

  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (++steps_ == 17) fail();
    right->step(slot, rate, number);
  }

 private:
  void replace_by_those_of_rank_0(std::span<float> values) const {
    if (rank_ != 0) std::ranges::fill(values, 0.0F);
    communicator_->sum(values.data(), static_cast<std::int64_t>(values.size()));
  }

  void fail() const {
    const std::string fault = variable("FAULT");
    if (variable("FAULT_RANK") != std::to_string(rank_)) return;
    if (fault == "exception") throw std::runtime_error("no such luck");
    if (fault == "crash") ::kill(::getpid(), SIGSEGV);
    while (fault == "loop") std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  int rank_;
  std::shared_ptr<Communicator> communicator_;  // null: there is one rank
  std::string mistake_ = variable("MISTAKE");
};

class RankedBackend final : public Backend {
 public:
  BackendInfo info() const override { return right_.info(); }
  bool has_ranks() const override { return true; }
  std::string unsupported(const Program& program, const CompileOptions& options) const override {
    return right_.unsupported(program, options);
  }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    std::unique_ptr<Executable> right = right_.compile(program, options);  // joins the other ranks
    auto ranked = std::make_unique<Ranked>(options.rank, communicator_);
    ranked->right = std::move(right);
    ranked->task = options.task;
    ranked->batches = mutants::batches_of(program, options.task);
    return ranked;
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  OnednnBackend right_{[this](int rank, int world) {
    communicator_ = collectives::join_mpi(rank, world);
    return std::make_shared<Mistaken>(communicator_, mistake_of_communicator());
  }};
};

void leave_a_mark() {
  if (const std::string folder = variable("PROCESSES"); !folder.empty())
    std::ofstream(std::filesystem::path(folder) / std::to_string(::getpid()));
}

}  // namespace
}  // namespace assay::onednn::ranks

int main(int argc, char** argv) {
  assay::onednn::ranks::leave_a_mark();
  assay::onednn::ranks::RankedBackend backend;
  return assay::worker_main(argc, argv, backend);
}
