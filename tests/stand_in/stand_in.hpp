// A stand-in for CUDA's runtime, cuBLASLt and cuDNN on the host: the functions that backend cuda calls, under their
// own names, so that the code of backends/cuda/gpu runs without a GPU. It does what a GPU may do and a plain loop does
// not: work is late, streams run in every order that the events allow, fresh and freed memory is NaN, addresses are
// aligned to no more than is promised, and a library overwrites its whole workspace. What the vendor documents as an
// error is returned as that error; where a GPU would go on with wrong numbers, a fault is noted. Speed is not
// imitated: a clock counts the work in units that prefer some engines. Used from one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace assay::stand_in {

// When enqueued work runs. All are legal for streams that do not block each other.
enum class Order : std::uint8_t {
  at_once,       // when the host enqueues more or waits: all of it, in the host's order
  others_last,   // when the host waits: of other streams only what the awaited one needs
  others_first,  // when the host waits: other streams first, as far as they get
  shuffled,      // a part of it at any call; when the host waits, one stream or another
};

struct Conditions {
  Order order = Order::shuffled;
  std::uint64_t seed = 1;
  std::int64_t device_bytes = std::int64_t{1} << 32;
  // The allocation that finds no memory, counted from 0 since begin(); -1: none. Streams, events, executable graphs
  // and the libraries' handles are counted, too.
  std::int64_t fail_at = -1;
  // No plan of cuDNN from this one on, counted from 0, finds memory; -1: all do.
  std::int64_t plans_without_memory_from = -1;
  // Mistakes that a caller once made, emulated here, so that the caller needs no switch for them.
  bool runs_the_plan_built_last =
      false;                        // cudnnBackendExecute(), as cudnn-frontend's execute() without an index
  bool waits_for_no_event = false;  // cudaEventSynchronize()
  // The fastest engine of cuDNN and the fastest algorithm of cuBLASLt compute something else, and do not say so.
  bool has_wrong_engines = false;
  bool memory_pools = true;  // some profiles of a vGPU have none
  // What each other rank of NCCL gives, as a share of what this one gives.
  float share_of_other_ranks = 1;
};

// Forgets faults and counts. Throws std::logic_error if something is still held.
void begin(const Conditions& conditions);
// As the environment says: ASSAY_STAND_IN_ORDER is at_once, others_last, others_first or a seed (default: 1).
Conditions conditions_of_environment();

std::int64_t allocations();
// What is allocated and not freed, by kind: "events: 2, streams: 1"; empty if nothing is.
std::string held();
// The faults since the last call, among them bytes next to allocations and writes to freed memory, which are searched
// for now.
std::vector<std::string> take_faults();
// Runs the other streams as far as they get while `stream` does not run, and returns how much work of theirs is left.
std::int64_t left_of_others(cudaStream_t stream);

}  // namespace assay::stand_in
