#include "harness/batch/c_api.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>

#include "harness/batch/session.hpp"

// The C boundary: it stops every exception and every invalid pointer from the caller.

struct assay_session {
  explicit assay_session(const char* cell_folder) : session(cell_folder) {}
  assay::BatchSession session;
};

namespace {

thread_local std::array<char, 2048> last_error = {};

void remember(const char* text) noexcept {
  const std::size_t size = std::min(std::strlen(text), last_error.size() - 1);
  std::memcpy(last_error.data(), text, size);
  last_error[size] = '\0';
}

// The open sessions, so that calls with a closed session are detected. Has no locks, because every step reads
// it.
constexpr std::size_t max_sessions = 64;
std::array<std::atomic<assay_session*>, max_sessions> sessions = {};

bool is_open(const assay_session* session) noexcept {
  for (const auto& entry : sessions)
    if (entry.load(std::memory_order_relaxed) == session) return true;
  return false;
}

bool enlist(assay_session* session) noexcept {
  for (auto& entry : sessions) {
    assay_session* free = nullptr;
    if (entry.compare_exchange_strong(free, session)) return true;
  }
  return false;
}

bool strike_out(assay_session* session) noexcept {
  for (auto& entry : sessions) {
    assay_session* expected = session;
    if (entry.compare_exchange_strong(expected, nullptr)) return true;
  }
  return false;
}

// Runs `action`; returns -1 and keeps a message if it throws.
template <typename Action>
std::int64_t guarded(Action action) noexcept {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    remember("[batch] out of memory: choose a smaller batch, fewer resident batches or less prefetch");
  } catch (const std::runtime_error& error) {
    remember(error.what());
  } catch (const std::exception& error) {
    remember(assay::internal_error(error).c_str());
  } catch (...) {
    remember("[batch] unknown error");
  }
  return -1;
}

template <typename Action>
std::int64_t with(const char* call, assay_session* session, bool arguments, Action action) noexcept {
  if (session != nullptr && arguments && is_open(session))
    return guarded([&]() -> std::int64_t { return action(session->session); });
  return guarded([&]() -> std::int64_t {
    const char* what = session == nullptr ? "got a null session"
                       : !arguments       ? "got a null pointer"
                                          : "got a session that is not open";
    throw assay::CallError(std::string("[") + call + "] " + what);
  });
}

}  // namespace

int32_t assay_api_version(void) { return ASSAY_BATCH_API; }

const char* assay_last_error(void) { return last_error.data(); }

assay_session* assay_open(const char* cell_folder) {
  assay_session* session = nullptr;
  guarded([&]() -> std::int64_t {
    if (cell_folder == nullptr) throw assay::CallError("[assay_open] got a null cell folder");
    auto opened = std::make_unique<assay_session>(cell_folder);
    if (!enlist(opened.get())) throw assay::CallError("[assay_open] too many sessions are open: close one");
    session = opened.release();
    return 0;
  });
  return session;
}

int assay_close(assay_session* session) {
  if (session == nullptr) return 0;
  if (!strike_out(session)) {
    remember("[assay_close] got a session that is not open");
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
