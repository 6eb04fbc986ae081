// How a fork or a cell ended, and why, as a code that programs may rely on.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "harness/core/words.hpp"

namespace assay {

enum class Status {
  ok,
  unsupported,
  unavailable,
  wrong_result,
  out_of_memory,
  crashed,
  timed_out,
  failed,
  interrupted
};
template <>
inline constexpr auto words<Status> = std::array{Word{Status::ok, "ok"},
                                                 Word{Status::unsupported, "unsupported"},
                                                 Word{Status::unavailable, "unavailable"},
                                                 Word{Status::wrong_result, "wrong_result"},
                                                 Word{Status::out_of_memory, "out_of_memory"},
                                                 Word{Status::crashed, "crashed"},
                                                 Word{Status::timed_out, "timed_out"},
                                                 Word{Status::failed, "failed"},
                                                 Word{Status::interrupted, "interrupted"}};

// Why the status is not `ok`. A code keeps its meaning from release to release; the text next to it may change. A
// code belongs to one status.
enum class ReasonCode {
  absent,
  axis_value_not_offered,
  sparse_gradients_needed,
  no_compile_cache,
  no_memory_limit,
  epochs_of_inference,
  epochs_of_resident_batches,
  operands_stay_in_cache,
  no_gradient,
  worker_unsupported,
  backend_unavailable,
  dataset_missing,
  worker_not_started,
  worker_unavailable,
  found_by_another_cell,
  differs_from_oracle,
  worker_out_of_memory,
  killed_out_of_memory,
  killed_by_signal,
  killed_from_outside,
  time_limit,
  commands_not_read,
  worker_failed,
  worker_exited,
  protocol_version,
  protocol_broken,
  clock_refused,
  processors_left,
  loss_not_finite,
  faster_than_machine,
  exam_changed,
  library_changed,
  not_checked,
  files,
  internal_error,
  interrupted_by_signal,
  quick_time_spent,
  not_reached,
  forks_missing,
};
template <>
inline constexpr auto words<ReasonCode> =
    std::array{Word{ReasonCode::absent, "none"},
               Word{ReasonCode::axis_value_not_offered, "axis_value_not_offered"},
               Word{ReasonCode::sparse_gradients_needed, "sparse_gradients_needed"},
               Word{ReasonCode::no_compile_cache, "no_compile_cache"},
               Word{ReasonCode::no_memory_limit, "no_memory_limit"},
               Word{ReasonCode::epochs_of_inference, "epochs_of_inference"},
               Word{ReasonCode::epochs_of_resident_batches, "epochs_of_resident_batches"},
               Word{ReasonCode::operands_stay_in_cache, "operands_stay_in_cache"},
               Word{ReasonCode::no_gradient, "no_gradient"},
               Word{ReasonCode::worker_unsupported, "worker_unsupported"},
               Word{ReasonCode::backend_unavailable, "backend_unavailable"},
               Word{ReasonCode::dataset_missing, "dataset_missing"},
               Word{ReasonCode::worker_not_started, "worker_not_started"},
               Word{ReasonCode::worker_unavailable, "worker_unavailable"},
               Word{ReasonCode::found_by_another_cell, "found_by_another_cell"},
               Word{ReasonCode::differs_from_oracle, "differs_from_oracle"},
               Word{ReasonCode::worker_out_of_memory, "worker_out_of_memory"},
               Word{ReasonCode::killed_out_of_memory, "killed_out_of_memory"},
               Word{ReasonCode::killed_by_signal, "killed_by_signal"},
               Word{ReasonCode::killed_from_outside, "killed_from_outside"},
               Word{ReasonCode::time_limit, "time_limit"},
               Word{ReasonCode::commands_not_read, "commands_not_read"},
               Word{ReasonCode::worker_failed, "worker_failed"},
               Word{ReasonCode::worker_exited, "worker_exited"},
               Word{ReasonCode::protocol_version, "protocol_version"},
               Word{ReasonCode::protocol_broken, "protocol_broken"},
               Word{ReasonCode::clock_refused, "clock_refused"},
               Word{ReasonCode::processors_left, "processors_left"},
               Word{ReasonCode::loss_not_finite, "loss_not_finite"},
               Word{ReasonCode::faster_than_machine, "faster_than_machine"},
               Word{ReasonCode::exam_changed, "exam_changed"},
               Word{ReasonCode::library_changed, "library_changed"},
               Word{ReasonCode::not_checked, "not_checked"},
               Word{ReasonCode::files, "files"},
               Word{ReasonCode::internal_error, "internal_error"},
               Word{ReasonCode::interrupted_by_signal, "interrupted_by_signal"},
               Word{ReasonCode::quick_time_spent, "quick_time_spent"},
               Word{ReasonCode::not_reached, "not_reached"},
               Word{ReasonCode::forks_missing, "forks_missing"}};

struct ReasonInfo {
  ReasonCode code;
  Status status;
  std::string_view meaning;
};
inline constexpr std::array reason_table = {
    ReasonInfo{ReasonCode::axis_value_not_offered, Status::unsupported,
               "the backend does not list this device, task, precision, layout or loader"},
    ReasonInfo{ReasonCode::sparse_gradients_needed, Status::unsupported, "lazy_adam with dense gradients"},
    ReasonInfo{ReasonCode::no_compile_cache, Status::unsupported,
               "--compile-cache warm where nothing is kept on disk"},
    ReasonInfo{ReasonCode::no_memory_limit, Status::unsupported,
               "a share of the memory was asked for and nothing enforces it"},
    ReasonInfo{ReasonCode::epochs_of_inference, Status::unsupported, "inference is measured in steps"},
    ReasonInfo{ReasonCode::epochs_of_resident_batches, Status::unsupported, "epochs need a loader"},
    ReasonInfo{ReasonCode::operands_stay_in_cache, Status::unsupported,
               "a cold cell whose operands are too small to leave the cache"},
    ReasonInfo{ReasonCode::no_gradient, Status::unsupported, "the op has none"},
    ReasonInfo{ReasonCode::worker_unsupported, Status::unsupported,
               "the worker says that it cannot: see the text"},
    ReasonInfo{ReasonCode::backend_unavailable, Status::unavailable,
               "a file or package that the backend requires is missing; the text has the command"},
    ReasonInfo{ReasonCode::dataset_missing, Status::unavailable, "the data set is in none of the folders"},
    ReasonInfo{ReasonCode::worker_not_started, Status::unavailable, "its program cannot be executed"},
    ReasonInfo{ReasonCode::worker_unavailable, Status::unavailable,
               "the worker says that what it runs on is missing"},
    ReasonInfo{ReasonCode::found_by_another_cell, Status::unavailable,
               "another cell of the same backend and device found it unavailable"},
    ReasonInfo{ReasonCode::differs_from_oracle, Status::wrong_result,
               "a tensor is beyond its bound; the text names it"},
    ReasonInfo{ReasonCode::worker_out_of_memory, Status::out_of_memory,
               "the worker says so, or its last words do"},
    ReasonInfo{ReasonCode::killed_out_of_memory, Status::out_of_memory, "the kernel's out-of-memory killer"},
    ReasonInfo{ReasonCode::killed_by_signal, Status::crashed, "the worker crashed"},
    ReasonInfo{ReasonCode::killed_from_outside, Status::crashed,
               "SIGKILL or SIGTERM that this program did not send"},
    ReasonInfo{ReasonCode::time_limit, Status::timed_out, "no answer within --time-limit"},
    ReasonInfo{ReasonCode::commands_not_read, Status::timed_out, "the worker left its pipe full"},
    ReasonInfo{ReasonCode::worker_failed, Status::failed, "the worker reported an error"},
    ReasonInfo{ReasonCode::worker_exited, Status::failed, "it ended with an exit code before its answer"},
    ReasonInfo{ReasonCode::protocol_version, Status::failed,
               "worker and program speak unlike versions of the protocol"},
    ReasonInfo{ReasonCode::protocol_broken, Status::failed,
               "an answer that the protocol does not allow at that point"},
    ReasonInfo{ReasonCode::clock_refused, Status::failed,
               "the clock file contradicts itself or the time that the program saw"},
    ReasonInfo{ReasonCode::processors_left, Status::failed,
               "the worker let a thread run on a processor that is not one of its own"},
    ReasonInfo{ReasonCode::loss_not_finite, Status::failed, "the loss became infinite or NaN"},
    ReasonInfo{ReasonCode::faster_than_machine, Status::failed,
               "more than the measured peak of this machine"},
    ReasonInfo{ReasonCode::exam_changed, Status::failed,
               "a file of the exam was changed while the worker ran"},
    ReasonInfo{ReasonCode::library_changed, Status::failed,
               "another version of a library than the earlier forks of the cell"},
    ReasonInfo{ReasonCode::not_checked, Status::failed,
               "forks were timed and could not be compared with the oracle"},
    ReasonInfo{ReasonCode::files, Status::failed, "a file could not be written or read; the text names it"},
    ReasonInfo{ReasonCode::internal_error, Status::failed, "a bug of this program"},
    ReasonInfo{ReasonCode::interrupted_by_signal, Status::interrupted, "SIGINT, SIGTERM or SIGHUP"},
    ReasonInfo{ReasonCode::quick_time_spent, Status::interrupted,
               "the time that --quick gives a backend was spent"},
    ReasonInfo{ReasonCode::not_reached, Status::interrupted, "the run ended before its turn"},
    ReasonInfo{ReasonCode::forks_missing, Status::interrupted,
               "fewer forks than asked for; --resume runs the others"},
};

// docs/reference/reason-codes.md: the table as a page.
std::string reason_reference();

// Status::ok for `absent`.
constexpr Status status_of(ReasonCode code) {
  for (const ReasonInfo& info : reason_table)
    if (info.code == code) return info.status;
  return Status::ok;
}

// Sets status, code and text of a fork, a cell or the result of a conversation.
template <typename Row>
void end_with(Row& row, ReasonCode code, std::string reason) {
  row.status = status_of(code);
  row.reason_code = code;
  row.reason = std::move(reason);
}
// The same as another one ended.
template <typename Row, typename Other>
void end_like(Row& row, const Other& other) {
  row.status = other.status;
  row.reason_code = other.reason_code;
  row.reason = other.reason;
}

}  // namespace assay
