#include "harness/batch/c_api.h"

#include <memory>

#include "harness/batch/c_boundary.hpp"
#include "harness/batch/supply.hpp"

struct assay_supply {
  explicit assay_supply(const char* cell_folder) : supply(cell_folder) {}
  assay::BatchSupply supply;
};

namespace {

using assay::boundary::guarded;

assay::boundary::OpenObjects<assay_supply> supplies;

template <typename Action>
std::int64_t with(const char* call, assay_supply* supply, bool arguments, Action action) noexcept {
  return assay::boundary::with(supplies, "supply", call, supply, arguments,
                               [&](assay_supply& open) { return action(open.supply); });
}

}  // namespace

int32_t assay_api_version(void) { return ASSAY_BATCH_API; }

const char* assay_last_error(void) { return assay::boundary::remembered(); }

assay_supply* assay_open(const char* cell_folder) {
  assay_supply* supply = nullptr;
  guarded([&]() -> std::int64_t {
    if (cell_folder == nullptr) throw assay::CallError("[assay_open] got a null cell folder");
    auto opened = std::make_unique<assay_supply>(cell_folder);
    if (!supplies.add(opened.get()))
      throw assay::CallError("[assay_open] too many supplies are open: close one");
    supply = opened.release();
    return 0;
  });
  return supply;
}

int assay_close(assay_supply* supply) {
  if (supply == nullptr) return 0;
  if (!supplies.remove(supply)) {
    assay::boundary::remember("[assay_close] got a supply that is not open");
    return -1;
  }
  const std::int64_t status = guarded([&]() -> std::int64_t {
    supply->supply.save();
    return 0;
  });
  delete supply;
  return static_cast<int>(status);
}

int assay_get_layout(assay_supply* supply, assay_layout* layout) {
  return static_cast<int>(with("assay_get_layout", supply, layout != nullptr, [&](assay::BatchSupply& s) {
    *layout = s.layout();
    return 0;
  }));
}

const double* assay_schedule(assay_supply* supply) {
  const double* schedule = nullptr;
  with("assay_schedule", supply, true, [&](assay::BatchSupply& s) {
    schedule = s.schedule();
    return 0;
  });
  return schedule;
}

int assay_read_resident(assay_supply* supply, int64_t slot, void* inputs, int32_t* labels) {
  return static_cast<int>(
      with("assay_read_resident", supply, inputs != nullptr && labels != nullptr, [&](assay::BatchSupply& s) {
        s.read_resident(slot, inputs, labels);
        return 0;
      }));
}

int64_t assay_next_batch(assay_supply* supply, void* inputs, int32_t* labels) {
  return with("assay_next_batch", supply, inputs != nullptr && labels != nullptr,
              [&](assay::BatchSupply& s) { return s.next_batch(inputs, labels); });
}

int assay_next_block(assay_supply* supply, assay_block* block) {
  return static_cast<int>(with("assay_next_block", supply, block != nullptr, [&](assay::BatchSupply& s) {
    *block = s.next_block();
    return 0;
  }));
}

int assay_end_block(assay_supply* supply, double loss) {
  return static_cast<int>(with("assay_end_block", supply, true,
                               [&](assay::BatchSupply& s) { return s.end_block(loss) ? 1 : 0; }));
}

int assay_running_accuracy(assay_supply* supply, double accuracy) {
  return static_cast<int>(with("assay_running_accuracy", supply, true, [&](assay::BatchSupply& s) {
    s.running_accuracy(accuracy);
    return 0;
  }));
}

int assay_enqueued(assay_supply* supply) {
  return static_cast<int>(with("assay_enqueued", supply, true, [&](assay::BatchSupply& s) {
    s.enqueued();
    return 0;
  }));
}

int assay_lap(assay_supply* supply) {
  return static_cast<int>(
      with("assay_lap", supply, true, [&](assay::BatchSupply& s) { return s.lap() ? 1 : 0; }));
}

int assay_results_read(assay_supply* supply) {
  return static_cast<int>(with("assay_results_read", supply, true, [&](assay::BatchSupply& s) {
    s.results_read();
    return 0;
  }));
}

int assay_lap_prefill(assay_supply* supply) {
  return static_cast<int>(with("assay_lap_prefill", supply, true, [&](assay::BatchSupply& s) {
    s.lap_prefill();
    return 0;
  }));
}

int assay_set_agree(assay_supply* supply, assay_agree agree, void* context) {
  return static_cast<int>(with("assay_set_agree", supply, agree != nullptr, [&](assay::BatchSupply& s) {
    s.set_agree([agree, context](std::int64_t value) { return agree(context, value); });
    return 0;
  }));
}

int assay_add_logits(assay_supply* supply, const float* logits) {
  return static_cast<int>(with("assay_add_logits", supply, logits != nullptr, [&](assay::BatchSupply& s) {
    s.add_logits(logits);
    return 0;
  }));
}

int assay_progress(assay_supply* supply, int64_t* done, int64_t* planned) {
  return static_cast<int>(
      with("assay_progress", supply, done != nullptr && planned != nullptr, [&](assay::BatchSupply& s) {
        *done = s.done();
        *planned = s.planned();
        return 0;
      }));
}
