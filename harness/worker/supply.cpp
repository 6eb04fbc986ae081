#include "harness/worker/supply.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "harness/core/error.hpp"

namespace assay {
namespace {

[[noreturn]] void fail() { throw Error(assay_last_error()); }

template <typename Integer>
Integer must(Integer result) {
  if (result < 0) fail();
  return result;
}

}  // namespace

Supply::Supply(const std::filesystem::path& cell_folder) {
  if (assay_api_version() != ASSAY_BATCH_API) {
    throw Error(
        fmt::format("[batch] the loaded library has version {}, but this worker was built for {}: "
                    "build both again",
                    assay_api_version(), ASSAY_BATCH_API));
  }
  supply_.reset(assay_open(cell_folder.c_str()));
  if (!supply_) fail();
  must(assay_get_layout(supply_.get(), &layout_));
  schedule_ = assay_schedule(supply_.get());
  if (schedule_ == nullptr && layout_.schedule_rows > 0) fail();
}

void Supply::read_resident(std::int64_t slot, void* inputs, std::int32_t* labels) {
  must(assay_read_resident(supply_.get(), slot, inputs, labels));
}

std::int64_t Supply::next_batch(void* inputs, std::int32_t* labels) {
  return must(assay_next_batch(supply_.get(), inputs, labels));
}

std::int64_t Supply::call_agree(void* context, std::int64_t value) {
  Supply& supply = *static_cast<Supply*>(context);
  try {
    return supply.agree_(value);
  } catch (...) {  // must not pass the library, which is called from C
    supply.error_ = std::current_exception();
    return -1;
  }
}

void Supply::set_agree(std::function<std::int64_t(std::int64_t)> agree) {
  agree_ = std::move(agree);
  must(assay_set_agree(supply_.get(), &Supply::call_agree, this));
}

assay_block Supply::next_block() {
  assay_block block{};
  block_must(assay_next_block(supply_.get(), &block));
  return block;
}

bool Supply::end_block(double loss) { return block_must(assay_end_block(supply_.get(), loss)) > 0; }

int Supply::block_must(int result) {
  if (error_) std::rethrow_exception(error_);
  return must(result);
}

void Supply::enqueued() { must(assay_enqueued(supply_.get())); }

bool Supply::lap() { return must(assay_lap(supply_.get())) > 0; }

void Supply::results_read() { must(assay_results_read(supply_.get())); }

void Supply::lap_prefill() { must(assay_lap_prefill(supply_.get())); }

void Supply::add_logits(const float* logits) { must(assay_add_logits(supply_.get(), logits)); }

protocol::Progress Supply::progress() {
  protocol::Progress progress;
  must(assay_progress(supply_.get(), &progress.done, &progress.planned));
  return progress;
}

void Supply::close() {
  if (supply_) must(assay_close(supply_.release()));
}

}  // namespace assay
