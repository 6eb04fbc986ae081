// When the work of streams runs.
#include <algorithm>
#include <stdexcept>

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
  stream->track = graph->tracks->size();
  graph->tracks->push_back(std::make_unique<Track>());
  stream->late = &graph->tracks->back()->works;
}

bool end_capture(CUstream_st* stream) {
  const CUgraph_st* const graph = stream->captured;
  for (CUstream_st* other : machine().streams) {
    if (other->captured != graph) continue;
    other->captured = nullptr;
    other->late = &other->queue;
  }
  // The tracks that the first one waits for, directly or through another.
  std::vector<bool> joined(graph->tracks->size(), false);
  std::vector<std::size_t> open{0};
  while (!open.empty()) {
    const Track& track = *(*graph->tracks)[open.back()];
    joined[open.back()] = true;
    open.pop_back();
    for (const auto& [place, wanted] : track.waits) {
      if (!joined[wanted.track] && wanted.works == (*graph->tracks)[wanted.track]->works.size())
        open.push_back(wanted.track);
    }
  }
  return std::ranges::find(joined, false) == joined.end();
}

// Each node by itself: other streams run between them.
void launch(CUgraphExec_st& graph, CUstream_st* stream) {
  const CUgraph_st::Tracks& tracks = *graph.tracks;
  const auto stream_of = [&](std::size_t track) {
    return track == 0 ? stream : graph.streams[track - 1].get();
  };
  const auto reach = [](CUstream_st* on, const std::shared_ptr<Moment>& moment) {
    enqueue(on, [moment] { moment->reached = true; });
  };
  std::map<Track::Place, std::shared_ptr<Moment>> moments;
  for (const auto& track : tracks) {
    for (const auto& [place, wanted] : track->waits)
      moments.emplace(wanted, std::make_shared<Moment>(Moment{stream_of(wanted.track)}));
  }
  const auto begun = std::make_shared<Moment>(Moment{stream});
  if (tracks.size() > 1) reach(stream, begun);
  for (std::size_t t = 0; t < tracks.size(); ++t) {
    CUstream_st* const on = stream_of(t);
    if (t > 0) wait_in(on, begun);
    for (std::size_t i = 0; i <= tracks[t]->works.size(); ++i) {
      if (const auto moment = moments.find({t, i}); moment != moments.end()) reach(on, moment->second);
      const auto [first, last] = tracks[t]->waits.equal_range(i);
      for (auto wait = first; wait != last; ++wait) wait_in(on, moments.at(wait->second));
      if (i < tracks[t]->works.size()) enqueue(on, [kept = graph.tracks, t, i] { (*kept)[t]->works[i](); });
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
