// The device of the stand-in: streams, memory and the notes about both, which its functions share.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/host/host_launch.hpp"
#include "tests/stand_in/stand_in.hpp"

namespace assay::stand_in {

using Work = std::function<void()>;

// A place in a stream that an event has recorded.
struct Moment {
  CUstream_st* stream = nullptr;
  bool reached = false;
  double microseconds = 0;  // when
};

}  // namespace assay::stand_in

// Work that was captured.
struct CUgraphNode_st {
  assay::stand_in::Work work;
  std::vector<cudaGraphNode_t> needs;   // waits for these
  const CUstream_st* stream = nullptr;  // from which it was captured
};

namespace assay::stand_in {

using Nodes = std::vector<std::unique_ptr<CUgraphNode_st>>;  // each after those that it needs

// A part of a graph that runs one after the other, as on a stream of its own; the first one on that of the launch.
struct Track {
  std::vector<const CUgraphNode_st*> nodes;
  // What the node at a place waits for: the nodes of another track before that place there.
  struct Place {
    std::size_t track = 0, nodes = 0;
    auto operator<=>(const Place&) const = default;
  };
  std::multimap<std::size_t, Place> waits;
};

}  // namespace assay::stand_in

// The handle of a stream is also the address of the HostStream in which our kernels are enqueued.
struct CUstream_st : assay::cuda::HostStream {
  std::vector<assay::stand_in::Work> queue;
  std::size_t next = 0;    // in the queue
  std::uint64_t gone = 0;  // work that was in the queue before
  // What the work at a place waits for; places count from the first work of the stream.
  std::multimap<std::uint64_t, std::shared_ptr<assay::stand_in::Moment>> waits;
  CUgraph_st* captured = nullptr;            // while it is captured
  std::vector<assay::stand_in::Work> fresh;  // captured, and not a node yet
  std::vector<cudaGraphNode_t> ends;         // what the next node waits for, once the fresh work is nodes
  bool capture_is_invalid = false;
};

struct CUevent_st {
  bool timed = true;
  std::shared_ptr<assay::stand_in::Moment> moment;  // null: never recorded, or in a capture
  CUgraph_st* captured = nullptr;                   // the graph in which it was recorded last
  std::vector<cudaGraphNode_t> ends = {};           // of its stream then
};

struct CUuserObject_st {
  void* data = nullptr;
  cudaHostFn_t destroy = nullptr;
  unsigned references = 0;
};

namespace assay::stand_in {

// References of a graph to user objects.
class UserObjects {
 public:
  UserObjects() = default;
  ~UserObjects();
  UserObjects(const UserObjects& other);
  UserObjects& operator=(const UserObjects&) = delete;
  void add(cudaUserObject_t object, unsigned count);

 private:
  std::map<cudaUserObject_t, unsigned> counts_;
};
void release(cudaUserObject_t object, unsigned count);

}  // namespace assay::stand_in

struct CUgraph_st {
  std::shared_ptr<assay::stand_in::Nodes> nodes = std::make_shared<assay::stand_in::Nodes>();
  assay::stand_in::UserObjects objects;
};
struct CUgraphExec_st {
  std::shared_ptr<const assay::stand_in::Nodes> nodes;
  std::vector<assay::stand_in::Track> tracks;  // of the nodes
  assay::stand_in::UserObjects objects;
  std::vector<std::unique_ptr<CUstream_st>> streams;  // of all tracks but the first
};

namespace assay::stand_in {

struct Machine {
  Conditions conditions = conditions_of_environment();
  std::mt19937_64 chance{conditions.seed};
  std::vector<CUstream_st*> streams;
  std::map<std::string, std::int64_t> held;
  std::map<std::string, std::int64_t> faults;  // how often each was noted
  std::int64_t allocations = 0, plans = 0;
  double microseconds = 0;  // the clock
};
// Never destroyed: libraries may free at the very end.
Machine& machine();

// Notes what a GPU would have let pass.
void fault(const std::string& what);
// Counts an allocation; false if it is the one that finds no memory.
bool find_memory();
void hold(const char* kind, std::int64_t change);

// streams.cpp

// counted: in what is held.
void open(CUstream_st* stream, bool counted = true);
void close(CUstream_st* stream, bool counted = true);  // after its work
// What the stream is given next waits for the moment.
void wait_in(CUstream_st* stream, std::shared_ptr<Moment> moment);
// Appends work to a stream, or to the graph that is captured from it.
void enqueue(CUstream_st* stream, Work work);
// The stream's capture begins, or joins that of another one.
void capture(CUstream_st* stream, CUgraph_st* graph);
// What the next work of a captured stream would wait for.
std::vector<cudaGraphNode_t>& ends_of(CUstream_st& stream);
// Ends the capture that was begun on this stream, and that of the streams that joined. Whether it waits for the ends of all
// others, as it must.
bool end_capture(CUstream_st* stream);
// Any order that the nodes' needs allow is one of the tracks.
std::vector<Track> tracks_of(const Nodes& nodes);
void launch(CUgraphExec_st& graph, CUstream_st* stream);
// Whether something is captured, which forbids `call`: then the capture is lost and a fault is noted.
bool breaks_capture(const char* call);
void wait_for(const Moment& moment);
void wait_for(CUstream_st* stream);
void wait_for_all();

// memory.cpp

enum class Place : std::uint8_t { device, pinned };
// 256 bytes aligned and not more, full of NaN. Null if there is no memory.
void* allocate(std::size_t bytes, Place place);
// The host gives it back; false if it does not have it. The memory stays readable until poison().
bool give_back(void* pointer, Place place);
// When the stream reaches the release.
void poison(void* pointer);
// When the stream reaches the allocation: what another stream wrote before is lost.
void make_fresh(void* pointer);
// Whether [pointer, pointer + bytes) is in memory that is there; else a fault about `user` is noted.
bool check_range(const void* pointer, std::int64_t bytes, const char* user, Place place = Place::device);
bool is_pinned(const void* pointer);
// Overwrites the workspace of a library, and notes one that is too small for its allocation.
void spoil_workspace(void* workspace, std::int64_t bytes, const char* user);
bool is_aligned(const void* pointer, std::uint64_t bytes);
std::int64_t free_bytes();
// Of all memory: bytes next to it, and writes after its release.
void inspect_memory();

}  // namespace assay::stand_in
