// The result of a fork or a cell, and its reason as a code that programs may rely on.
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

// The reasons for a status that is not `ok`, one line each: code, status, meaning. A code keeps its meaning
// from release to release and belongs to one status; its text in a report may change.
#define ASSAY_REASONS(X)                                                                                    \
  X(axis_value_not_offered, unsupported,                                                                    \
    "the backend does not list this device, task, precision, layout or loader")                             \
  X(refused_by_rule, unsupported,                                                                           \
    "a rule under `refuses` in its backend.json; the text has the alternative")                             \
  X(sparse_gradients_needed, unsupported, "lazy_adam with dense gradients")                                 \
  X(no_compile_cache, unsupported, "--compile-cache warm, but nothing is kept on disk")                     \
  X(no_memory_limit, unsupported, "a memory limit was requested, but nothing enforces it")                  \
  X(epochs_of_inference, unsupported, "inference is measured in steps")                                     \
  X(epochs_of_resident_batches, unsupported, "epochs need a loader")                                        \
  X(operands_stay_in_cache, unsupported, "a cold cell whose operands are too small to leave the cache")     \
  X(not_enough_memory, unsupported, "its parameters or a tensor of it need more memory than is available")  \
  X(no_gradient, unsupported, "the op has no gradient")                                                     \
  X(ranks_not_supported, unsupported,                                                                       \
    "several ranks of a cell that they cannot train together; the text has the reason")                     \
  X(no_tokens, unsupported, "task decode, but the network generates no tokens")                             \
  X(worker_unsupported, unsupported, "the worker reported that it cannot do it: see the text")              \
  X(backend_unavailable, unavailable,                                                                       \
    "a file or package that the backend requires is missing; the text has the command")                     \
  X(dataset_missing, unavailable, "the data set was not found in any of the folders")                       \
  X(folder_not_executable, unavailable,                                                                     \
    "a framework cannot compile into the temporary folder, or load from it")                                \
  X(launcher_missing, unavailable, "the program of --launcher was not found; the text has the remedy")      \
  X(worker_not_started, unavailable, "the worker's program cannot be executed")                             \
  X(worker_unavailable, unavailable, "the worker reported that its device or library is missing")           \
  X(found_by_another_cell, unavailable, "another cell of the same backend and device found it unavailable") \
  X(differs_from_oracle, wrong_result, "a tensor exceeds its bound; the text names it")                     \
  X(ranks_differ, wrong_result, "ranks ended their timed steps with different parameters")                  \
  X(worker_out_of_memory, out_of_memory, "reported by the worker, or found in its last output")             \
  X(killed_out_of_memory, out_of_memory, "the kernel's out-of-memory killer ended the worker")              \
  X(killed_by_signal, crashed, "the worker crashed")                                                        \
  X(killed_from_outside, crashed, "SIGKILL or SIGTERM that this program did not send")                      \
  X(time_limit, timed_out, "no answer within --time-limit, or no end within 10 s of the last answer")       \
  X(commands_not_read, timed_out, "the worker left its pipe full")                                          \
  X(worker_failed, failed, "the worker reported an error")                                                  \
  X(worker_exited, failed, "the worker ended with an exit code before its answer")                          \
  X(place_limit, failed,                                                                                    \
    "a limit of processes, CPU time or the program's memory was reached; the text has the remedy")          \
  X(protocol_version, failed, "worker and program use different versions of the protocol")                  \
  X(protocol_broken, failed, "the protocol does not allow this answer at this point")                       \
  X(clock_refused, failed, "the clock file contradicts itself or the program's own clock")                  \
  X(processors_left, failed, "a thread of the worker could run on a processor that is not the worker's")    \
  X(processors_unused, failed, "threads of the worker that compute could not use all of its processors")    \
  X(nothing_compiled, failed, "a mode that compiles, but its worker compiled nothing")                      \
  X(launcher_failed, failed, "the launcher of the ranks failed or ended too early: see the text")           \
  X(host_lost, failed, "the connection to the machine of a rank broke; the text names it")                  \
  X(other_rank_failed, failed, "this rank was ended because another one failed")                            \
  X(loss_not_finite, failed, "the loss became infinite or NaN")                                             \
  X(parameters_not_finite, failed,                                                                          \
    "the timed steps left a parameter, moment or statistic that is infinite or NaN; the exam was passed")   \
  X(faster_than_machine, failed, "faster than the measured peak of this machine")                           \
  X(exam_changed, failed, "a file of the exam was changed while the worker ran")                            \
  X(library_changed, failed, "a library version differs from that of the cell's earlier forks")             \
  X(backend_changed, failed, "a file of the backend differs from that of earlier forks; the text names it") \
  X(data_changed, failed, "a file of the data set was changed during the run; the text names it")           \
  X(not_checked, failed, "a requested comparison with the oracle was not possible: see the text")           \
  X(files, failed, "a file could not be written or read; the text names it")                                \
  X(internal_error, failed, "a bug of this program")                                                        \
  X(interrupted_by_signal, interrupted, "SIGINT, SIGTERM or SIGHUP")                                        \
  X(quick_time_spent, interrupted, "the time limit of --quick for a backend was reached")                   \
  X(max_time_spent, interrupted, "--max-time ended before the cell's first fork did")                       \
  X(not_reached, interrupted, "the run ended before its turn")                                              \
  X(forks_missing, interrupted, "fewer forks than requested; --resume runs the others")                     \
  X(other_shard, interrupted, "the cell belongs to another shard of the run; assay merge joins them")       \
  X(shard_missing, interrupted, "the report of its shard was not merged; --resume runs the cell")

enum class ReasonCode {
  absent,
#define ASSAY_REASON(code, status, meaning) code,
  ASSAY_REASONS(ASSAY_REASON)
#undef ASSAY_REASON
};
template <>
inline constexpr auto words<ReasonCode> = std::array{Word{ReasonCode::absent, "none"}
#define ASSAY_REASON(code, status, meaning) \
  , Word { ReasonCode::code, #code }
                                                     ASSAY_REASONS(ASSAY_REASON)
#undef ASSAY_REASON
};

struct ReasonInfo {
  ReasonCode code;
  Status status;
  std::string_view meaning;
};
inline constexpr std::array reason_table = {
#define ASSAY_REASON(code, status, meaning) ReasonInfo{ReasonCode::code, Status::status, meaning},
    ASSAY_REASONS(ASSAY_REASON)
#undef ASSAY_REASON
};

// The table as Markdown, for docs/reference/reason-codes.md.
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
// Copies status, code and text from another one.
template <typename Row, typename Other>
void end_like(Row& row, const Other& other) {
  row.status = other.status;
  row.reason_code = other.reason_code;
  row.reason = other.reason;
}

}  // namespace assay
