// Executes a memory plan with names for bits: every node must find the bits of its operands where the plan
// says.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/graph/memory_plan/memory_plan.hpp"
#include "harness/graph/op.hpp"

namespace assay {

// Whose bits each aligned unit of an arena holds, as runs of equal units.
class Units {
 public:
  explicit Units(std::int64_t count) : count_(count), runs_{{0, none}} {}

  void write(std::int64_t first, std::int64_t end, ValueId bits) {
    if (first == end) return;
    begin_run(first);
    begin_run(end);
    runs_.erase(runs_.lower_bound(first), runs_.lower_bound(end));
    runs_[first] = bits;
  }
  bool hold(std::int64_t first, std::int64_t end, ValueId bits) const {
    if (first == end) return true;
    if (end > count_) return false;
    for (auto run = std::prev(runs_.upper_bound(first)); run != runs_.end() && run->first < end; ++run) {
      if (run->second != bits) return false;
    }
    return true;
  }

 private:
  // Throws std::out_of_range past the end.
  void begin_run(std::int64_t unit) {
    if (unit > count_) throw std::out_of_range("past the end of the arena");
    runs_.emplace(unit, std::prev(runs_.upper_bound(unit))->second);
  }

  std::int64_t count_;
  std::map<std::int64_t, ValueId> runs_;  // by their first unit
};

class Simulation {
 public:
  Simulation(const Graph& graph, const ByteSize& bytes, const MemoryPlan& plan, const PlanOptions& options)
      : graph_(graph),
        bytes_(bytes),
        plan_(plan),
        options_(options),
        arena_(plan.arena_bytes / arena_alignment),
        outside_(graph.values().size(), none),
        bits_(graph.values().size()) {
    for (std::size_t v = 0; v < bits_.size(); ++v) bits_[v] = outside_[v] = static_cast<ValueId>(v);
  }

  // Empty when the plan is right; else what went wrong first.
  std::string run() {
    for (std::size_t v = 0; v < graph_.values().size(); ++v) check_place(static_cast<ValueId>(v));
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) run_node(static_cast<NodeId>(n));
    for (const Graph::Output& output : graph_.outputs()) read(output.value, "the output " + output.name);
    std::map<ValueId, ValueId> copied;
    for (const Update& copy : plan_.copies) read(copy.source, "a copy");
    for (const Update& copy : plan_.copies) copied[copy.target] = bits_[index(copy.source)];
    for (const auto& [target, bits] : copied) outside_[index(target)] = bits;
    for (const Update& update : graph_.updates()) {
      if (outside_[index(update.target)] != bits_[index(update.source)]) fail("an update did not arrive");
    }
    return error_;
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  struct Range {
    std::int64_t first = 0, end = 0;
    bool overlaps(const Range& other) const { return first < other.end && other.first < end; }
  };
  Range range(std::int64_t offset, std::int64_t bytes) const {
    return {offset / arena_alignment, (offset + bytes + arena_alignment - 1) / arena_alignment};
  }
  Range range(ValueId id) const { return range(plan_.offset[index(id)], bytes_(id)); }
  bool in_arena(ValueId id) const { return plan_.offset[index(id)] >= 0; }

  void check_place(ValueId id) {
    const std::int64_t offset = plan_.offset[index(id)];
    const Value& value = graph_.value(id);
    if (offset >= 0 && offset % arena_alignment != 0) fail(value.name + " is not aligned");
    if (offset >= 0 && offset + bytes_(id) > plan_.arena_bytes)
      fail(value.name + " ends outside of the arena");
    if (value.producer == none && (offset >= 0 || plan_.storage[index(id)] != id))
      fail(value.name + " was moved");
    if (offset < 0 && graph_.value(plan_.storage[index(id)]).producer != none)
      fail(value.name + " has no place");
  }

  void read(ValueId id, const std::string& reader) {
    const ValueId wanted = bits_[index(id)];
    bool right = true;
    if (in_arena(id)) {
      right = arena_.hold(range(id).first, range(id).end, wanted);
    } else {
      right = outside_[index(plan_.storage[index(id)])] == wanted;
    }
    if (!right) fail(fmt::format("{} does not find the bits of {}", reader, graph_.value(id).name));
  }

  void write(ValueId id) {
    if (in_arena(id)) {
      arena_.write(range(id).first, range(id).end, bits_[index(id)]);
    } else {
      outside_[index(plan_.storage[index(id)])] = bits_[index(id)];
    }
  }

  bool same_bytes(ValueId a, ValueId b) const {
    if (in_arena(a) != in_arena(b)) return false;
    return in_arena(a) ? range(a).overlaps(range(b)) : plan_.storage[index(a)] == plan_.storage[index(b)];
  }

  void run_node(NodeId id) {
    const Node& node = graph_.node(id);
    for (const ValueId input : node.inputs) {
      if (input != none) read(input, node.name);
    }
    if (node.op->view() && same_bytes(node.inputs[0], node.outputs[0])) {
      // Nothing is moved; they must lie at the same place, and both stay readable.
      bits_[index(node.outputs[0])] = bits_[index(node.inputs[0])];
      if (plan_.offset[index(node.inputs[0])] != plan_.offset[index(node.outputs[0])])
        fail(node.name + ": a moved view");
      return;
    }
    const std::vector<InPlace> pairs = in_place(node);
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId output = node.outputs[o];
      if (output == none) continue;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == none || !same_bytes(output, node.inputs[i])) continue;
        const bool allowed = std::ranges::any_of(pairs, [&](const InPlace& pair) {
          return static_cast<std::size_t>(pair.output) == o && static_cast<std::size_t>(pair.input) == i &&
                 (!options_.allows || options_.allows(node, pair));
        });
        if (!allowed)
          fail(fmt::format("{} may not write {} over an operand", node.name, graph_.value(output).name));
      }
      for (std::size_t p = 0; p < o; ++p) {
        if (node.outputs[p] != none && same_bytes(output, node.outputs[p]))
          fail(node.name + ": two results in one place");
      }
    }
    if (options_.scratch && options_.scratch(id) > 0) use_scratch(id);
    for (const ValueId output : node.outputs) {
      if (output != none) write(output);
    }
  }

  void use_scratch(NodeId id) {
    const std::int64_t offset = plan_.scratch_offset[static_cast<std::size_t>(id)];
    const Range scratch = range(offset, options_.scratch(id));
    if (offset < 0 || offset % arena_alignment != 0) return fail("scratch has no place");
    for (const auto* ids : {&graph_.node(id).inputs, &graph_.node(id).outputs}) {
      for (const ValueId v : *ids) {
        if (v != none && in_arena(v) && range(v).overlaps(scratch)) fail("scratch lies over an operand");
      }
    }
    arena_.write(scratch.first, scratch.end, none);
  }

  const Graph& graph_;
  const ByteSize& bytes_;
  const MemoryPlan& plan_;
  const PlanOptions& options_;
  Units arena_;
  std::vector<ValueId> outside_;  // whose bits what is fed or persistent holds
  std::vector<ValueId> bits_;     // the value whose bits a value has: itself, but for a view
  std::string error_;
};

}  // namespace assay
