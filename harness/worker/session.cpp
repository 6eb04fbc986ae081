#include "harness/worker/session.hpp"

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

Session::Session(const std::filesystem::path& cell_folder) {
  if (assay_api_version() != ASSAY_BATCH_API) {
    throw Error(
        fmt::format("[batch] the loaded library has version {}, but this worker was built for {}: "
                    "build both again",
                    assay_api_version(), ASSAY_BATCH_API));
  }
  session_.reset(assay_open(cell_folder.c_str()));
  if (!session_) fail();
  must(assay_get_layout(session_.get(), &layout_));
  schedule_ = assay_schedule(session_.get());
  if (schedule_ == nullptr && layout_.schedule_rows > 0) fail();
}

void Session::read_resident(std::int64_t slot, void* inputs, std::int32_t* labels) {
  must(assay_read_resident(session_.get(), slot, inputs, labels));
}

std::int64_t Session::next_batch(void* inputs, std::int32_t* labels) {
  return must(assay_next_batch(session_.get(), inputs, labels));
}

std::int64_t Session::call_agree(void* context, std::int64_t value) {
  Session& session = *static_cast<Session*>(context);
  try {
    return session.agree_(value);
  } catch (...) {  // must not pass the library, which is called from C
    session.error_ = std::current_exception();
    return -1;
  }
}

void Session::set_agree(std::function<std::int64_t(std::int64_t)> agree) {
  agree_ = std::move(agree);
  must(assay_set_agree(session_.get(), &Session::call_agree, this));
}

assay_block Session::next_block() {
  assay_block block{};
  block_must(assay_next_block(session_.get(), &block));
  return block;
}

bool Session::end_block(double loss) { return block_must(assay_end_block(session_.get(), loss)) > 0; }

int Session::block_must(int result) {
  if (error_) std::rethrow_exception(error_);
  return must(result);
}

void Session::enqueued() { must(assay_enqueued(session_.get())); }

bool Session::lap() { return must(assay_lap(session_.get())) > 0; }

void Session::results_read() { must(assay_results_read(session_.get())); }

void Session::lap_prefill() { must(assay_lap_prefill(session_.get())); }

void Session::add_logits(const float* logits) { must(assay_add_logits(session_.get(), logits)); }

protocol::Progress Session::progress() {
  protocol::Progress progress;
  must(assay_progress(session_.get(), &progress.done, &progress.planned));
  return progress;
}

void Session::close() {
  if (session_) must(assay_close(session_.release()));
}

}  // namespace assay
