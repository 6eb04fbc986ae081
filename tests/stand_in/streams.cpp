// When the work of streams runs.
#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "tests/stand_in/machine.hpp"

namespace assay::stand_in {
namespace {

std::uint64_t place(const CUstream_st& stream) { return stream.gone + stream.next; }

// What the next work of the stream waits for; null if nothing.
const Moment* obstacle(const CUstream_st& stream) {
  const auto [first, last] = stream.waits.equal_range(place(stream));
  const auto found = std::find_if(first, last, [](const auto& wait) { return !wait.second->reached; });
  return found == last ? nullptr : found->second.get();
}

bool has_work(const CUstream_st& stream) { return stream.next < stream.queue.size(); }
bool can_run(const CUstream_st& stream) { return has_work(stream) && obstacle(stream) == nullptr; }

void run_next(CUstream_st& stream) {
  stream.waits.erase(place(stream));
  const Work work = std::move(stream.queue[stream.next]);
  if (++stream.next == stream.queue.size()) {
    stream.gone += stream.queue.size();
    stream.queue.clear();
    stream.next = 0;
  }
  machine().microseconds += 1;
  work();
}

// The stream whose work lets this one go on, which may be itself.
CUstream_st& needed_by(CUstream_st& stream) {
  CUstream_st* needed = &stream;
  while (const Moment* moment = obstacle(*needed)) needed = moment->stream;
  if (!has_work(*needed)) throw std::logic_error("[stand-in] a stream waits for ever");
  return *needed;
}

CUstream_st& by_chance(CUstream_st& awaited) {
  std::vector<CUstream_st*> able;
  std::ranges::copy_if(machine().streams, std::back_inserter(able), [](auto* s) { return can_run(*s); });
  if (able.empty()) return needed_by(awaited);
  return *able[machine().chance() % able.size()];
}

CUstream_st& choose(CUstream_st& awaited) {
  switch (machine().conditions.order) {
    case Order::at_once:
    case Order::others_last:
      break;
    case Order::others_first:
      for (CUstream_st* stream : machine().streams) {
        if (stream != &awaited && can_run(*stream)) return *stream;
      }
      break;
    case Order::shuffled:
      return by_chance(awaited);
  }
  return needed_by(awaited);
}

template <typename Done>
void run_until(CUstream_st& awaited, const Done& done) {
  while (!done()) run_next(choose(awaited));
}

// What has run although nobody waited for it.
void run_ahead() {
  Machine& m = machine();
  if (m.conditions.order == Order::at_once) {
    for (bool ran = true; ran;) {
      ran = false;
      for (CUstream_st* stream : m.streams) {
        for (; can_run(*stream); ran = true) run_next(*stream);
      }
    }
  }
  if (m.conditions.order != Order::shuffled || m.chance() % 4 != 0) return;
  for (std::uint64_t count = m.chance() % 8; count > 0; --count) {
    if (std::ranges::none_of(m.streams, [](const CUstream_st* stream) { return can_run(*stream); })) return;
    run_next(by_chance(*m.streams.front()));
  }
}

}  // namespace

void open(CUstream_st* stream, bool counted) {
  stream->late = &stream->queue;
  machine().streams.push_back(stream);
  if (counted) hold("streams", 1);
}

void close(CUstream_st* stream, bool counted) {
  if (stream->captured != nullptr) fault("a stream was destroyed while it was captured");
  wait_for(stream);
  std::erase(machine().streams, stream);
  if (counted) hold("streams", -1);
}

void wait_in(CUstream_st* stream, std::shared_ptr<Moment> moment) {
  stream->waits.emplace(stream->gone + stream->queue.size(), std::move(moment));
}

void capture(CUstream_st* stream, CUgraph_st* graph) {
  stream->captured = graph;
  stream->capture_is_invalid = false;
  stream->ends.clear();
  stream->late = &stream->fresh;
}

std::vector<cudaGraphNode_t>& ends_of(CUstream_st& stream) {
  for (Work& work : stream.fresh) {
    stream.captured->nodes->push_back(
        std::make_unique<CUgraphNode_st>(std::move(work), std::exchange(stream.ends, {}), &stream));
    stream.ends = {stream.captured->nodes->back().get()};
  }
  stream.fresh.clear();
  return stream.ends;
}

bool end_capture(CUstream_st* stream) {
  std::set<cudaGraphNode_t> open;
  for (CUstream_st* other : machine().streams) {
    if (other->captured != stream->captured || other == stream) continue;
    const auto& ends = ends_of(*other);
    open.insert(ends.begin(), ends.end());
    other->captured = nullptr;
    other->late = &other->queue;
  }
  // What the stream waits for, directly or not.
  std::set<cudaGraphNode_t> awaited;
  std::vector<cudaGraphNode_t> next = ends_of(*stream);
  while (!next.empty()) {
    const cudaGraphNode_t node = next.back();
    next.pop_back();
    if (awaited.insert(node).second) next.insert(next.end(), node->needs.begin(), node->needs.end());
  }
  stream->captured = nullptr;
  stream->late = &stream->queue;
  return std::ranges::includes(awaited, open);
}

// A node goes behind one that it needs, if that is the last of its track; else it begins a new one.
std::vector<Track> tracks_of(const Nodes& nodes) {
  std::vector<Track> tracks(1);
  std::map<const CUgraphNode_st*, Track::Place> places;  // behind the node
  for (const auto& node : nodes) {
    std::size_t t = places.empty() ? 0 : tracks.size();
    for (const cudaGraphNode_t needed : node->needs) {
      const Track::Place& place = places.at(needed);
      if (needed->stream == node->stream && place.nodes == tracks[place.track].nodes.size()) t = place.track;
    }
    if (t == tracks.size()) tracks.emplace_back();
    Track& track = tracks[t];
    for (const cudaGraphNode_t needed : node->needs) {
      if (const Track::Place& place = places.at(needed); place.track != t)
        track.waits.emplace(track.nodes.size(), place);
    }
    track.nodes.push_back(node.get());
    places[node.get()] = {t, track.nodes.size()};
  }
  for (std::size_t t = 1; t < tracks.size(); ++t)
    tracks.front().waits.emplace(tracks.front().nodes.size(), Track::Place{t, tracks[t].nodes.size()});
  return tracks;
}

// Each node by itself: other streams run between them.
void launch(CUgraphExec_st& graph, CUstream_st* stream) {
  const std::vector<Track>& tracks = graph.tracks;
  const auto stream_of = [&](std::size_t track) {
    return track == 0 ? stream : graph.streams[track - 1].get();
  };
  const auto reach = [](CUstream_st* on, const std::shared_ptr<Moment>& moment) {
    enqueue(on, [moment] { moment->reached = true; });
  };
  std::map<Track::Place, std::shared_ptr<Moment>> moments;
  for (const Track& track : tracks) {
    for (const auto& [place, wanted] : track.waits)
      moments.emplace(wanted, std::make_shared<Moment>(Moment{stream_of(wanted.track)}));
  }
  const auto begun = std::make_shared<Moment>(Moment{stream});
  if (tracks.size() > 1) reach(stream, begun);
  for (std::size_t t = 0; t < tracks.size(); ++t) {
    CUstream_st* const on = stream_of(t);
    if (t > 0) wait_in(on, begun);
    for (std::size_t i = 0; i <= tracks[t].nodes.size(); ++i) {
      if (const auto moment = moments.find({t, i}); moment != moments.end()) reach(on, moment->second);
      const auto [first, last] = tracks[t].waits.equal_range(i);
      for (auto wait = first; wait != last; ++wait) wait_in(on, moments.at(wait->second));
      if (i < tracks[t].nodes.size())
        enqueue(on, [kept = graph.nodes, node = tracks[t].nodes[i]] { node->work(); });
    }
  }
  if (tracks.size() > 1) enqueue(stream, [] {});  // to wait for the ends of the others
}

void enqueue(CUstream_st* stream, Work work) {
  if (stream->captured == nullptr) run_ahead();
  stream->late->push_back(std::move(work));
  if (stream->captured == nullptr) run_ahead();
}

bool breaks_capture(const char* call) {
  bool broken = false;
  for (CUstream_st* stream : machine().streams) {
    if (stream->captured == nullptr) continue;
    stream->capture_is_invalid = broken = true;
  }
  if (broken) fault(std::string(call) + " was called while a stream was captured");
  return broken;
}

void wait_for(const Moment& moment) {
  run_until(*moment.stream, [&] { return moment.reached; });
}

void wait_for(CUstream_st* stream) {
  run_until(*stream, [stream] { return !has_work(*stream); });
}

void wait_for_all() {
  for (CUstream_st* stream : machine().streams) wait_for(stream);
}

std::int64_t left_of_others(cudaStream_t stream) {
  std::int64_t left = 0;
  for (bool ran = true; ran;) {
    ran = false;
    left = 0;
    for (CUstream_st* other : machine().streams) {
      if (other == stream) continue;
      for (; can_run(*other); ran = true) run_next(*other);
      left += static_cast<std::int64_t>(other->queue.size() - other->next);
    }
  }
  return left;
}

UserObjects::UserObjects(const UserObjects& other) {
  for (const auto& [object, count] : other.counts_) {
    object->references += count;
    counts_[object] = count;
  }
}

UserObjects::~UserObjects() {
  for (const auto& [object, count] : counts_) release(object, count);
}

void UserObjects::add(cudaUserObject_t object, unsigned count) { counts_[object] += count; }

void release(cudaUserObject_t object, unsigned count) {
  object->references -= std::min(object->references, count);
  if (object->references > 0) return;
  object->destroy(object->data);
  delete object;
  hold("user objects", -1);
}

}  // namespace assay::stand_in
