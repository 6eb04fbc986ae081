#include "harness/batch/c_api.h"

#include <memory>

#include "harness/batch/c_boundary.hpp"
#include "harness/batch/session.hpp"

struct assay_session {
  explicit assay_session(const char* cell_folder) : session(cell_folder) {}
  assay::BatchSession session;
};

namespace {

using assay::boundary::guarded;

assay::boundary::OpenObjects<assay_session> sessions;

template <typename Action>
std::int64_t with(const char* call, assay_session* session, bool arguments, Action action) noexcept {
  return assay::boundary::with(sessions, "session", call, session, arguments,
                               [&](assay_session& open) { return action(open.session); });
}

}  // namespace

int32_t assay_api_version(void) { return ASSAY_BATCH_API; }

const char* assay_last_error(void) { return assay::boundary::remembered(); }

assay_session* assay_open(const char* cell_folder) {
  assay_session* session = nullptr;
  guarded([&]() -> std::int64_t {
    if (cell_folder == nullptr) throw assay::CallError("[assay_open] got a null cell folder");
    auto opened = std::make_unique<assay_session>(cell_folder);
    if (!sessions.add(opened.get()))
      throw assay::CallError("[assay_open] too many sessions are open: close one");
    session = opened.release();
    return 0;
  });
  return session;
}

int assay_close(assay_session* session) {
  if (session == nullptr) return 0;
  if (!sessions.remove(session)) {
    assay::boundary::remember("[assay_close] got a session that is not open");
    return -1;
  }
  const std::int64_t status = guarded([&]() -> std::int64_t {
    session->session.save();
    return 0;
  });
  delete session;
  return static_cast<int>(status);
}

int assay_get_layout(assay_session* session, assay_layout* layout) {
  return static_cast<int>(with("assay_get_layout", session, layout != nullptr, [&](assay::BatchSession& s) {
    *layout = s.layout();
    return 0;
  }));
}

const double* assay_schedule(assay_session* session) {
  const double* schedule = nullptr;
  with("assay_schedule", session, true, [&](assay::BatchSession& s) {
    schedule = s.schedule();
    return 0;
  });
  return schedule;
}

int assay_read_resident(assay_session* session, int64_t slot, void* inputs, int32_t* labels) {
  return static_cast<int>(with("assay_read_resident", session, inputs != nullptr && labels != nullptr,
                               [&](assay::BatchSession& s) {
                                 s.read_resident(slot, inputs, labels);
                                 return 0;
                               }));
}

int64_t assay_next_batch(assay_session* session, void* inputs, int32_t* labels) {
  return with("assay_next_batch", session, inputs != nullptr && labels != nullptr,
              [&](assay::BatchSession& s) { return s.next_batch(inputs, labels); });
}

int assay_next_block(assay_session* session, assay_block* block) {
  return static_cast<int>(with("assay_next_block", session, block != nullptr, [&](assay::BatchSession& s) {
    *block = s.next_block();
    return 0;
  }));
}

int assay_end_block(assay_session* session, double loss) {
  return static_cast<int>(with("assay_end_block", session, true,
                               [&](assay::BatchSession& s) { return s.end_block(loss) ? 1 : 0; }));
}

int assay_running_accuracy(assay_session* session, double accuracy) {
  return static_cast<int>(with("assay_running_accuracy", session, true, [&](assay::BatchSession& s) {
    s.running_accuracy(accuracy);
    return 0;
  }));
}

int assay_enqueued(assay_session* session) {
  return static_cast<int>(with("assay_enqueued", session, true, [&](assay::BatchSession& s) {
    s.enqueued();
    return 0;
  }));
}

int assay_lap(assay_session* session) {
  return static_cast<int>(
      with("assay_lap", session, true, [&](assay::BatchSession& s) { return s.lap() ? 1 : 0; }));
}

int assay_results_read(assay_session* session) {
  return static_cast<int>(with("assay_results_read", session, true, [&](assay::BatchSession& s) {
    s.results_read();
    return 0;
  }));
}

int assay_lap_prefill(assay_session* session) {
  return static_cast<int>(with("assay_lap_prefill", session, true, [&](assay::BatchSession& s) {
    s.lap_prefill();
    return 0;
  }));
}

int assay_set_agree(assay_session* session, assay_agree agree, void* context) {
  return static_cast<int>(with("assay_set_agree", session, agree != nullptr, [&](assay::BatchSession& s) {
    s.set_agree([agree, context](std::int64_t value) { return agree(context, value); });
    return 0;
  }));
}

int assay_add_logits(assay_session* session, const float* logits) {
  return static_cast<int>(with("assay_add_logits", session, logits != nullptr, [&](assay::BatchSession& s) {
    s.add_logits(logits);
    return 0;
  }));
}

int assay_progress(assay_session* session, int64_t* done, int64_t* planned) {
  return static_cast<int>(
      with("assay_progress", session, done != nullptr && planned != nullptr, [&](assay::BatchSession& s) {
        *done = s.done();
        *planned = s.planned();
        return 0;
      }));
}
