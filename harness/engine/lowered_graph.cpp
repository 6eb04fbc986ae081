#include "harness/engine/lowered_graph.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "harness/engine/memory.hpp"
#include "harness/worker/backend.hpp"

namespace assay {
namespace {

// Copies an updated value to its storage if it could not be made in place, or what cannot be a view.
class CopyKernel final : public Kernel {
 public:
  CopyKernel(Memory& memory, std::int64_t bytes, std::int64_t first_byte = 0)
      : memory_(memory), bytes_(bytes), first_byte_(first_byte) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const std::byte*>(inputs[0]) + first_byte_;
    to_ = outputs[0];
  }
  std::string_view implementation() const override { return "copy"; }
  void run() override { memory_.copy(to_, from_, bytes_); }

 private:
  Memory& memory_;
  std::int64_t bytes_, first_byte_;
  const void* from_ = nullptr;
  void* to_ = nullptr;
};

// The formats of one graph during their choice.
class Formats {
 public:
  Formats(const Graph& graph, KernelLibrary& library, const LoweringOptions& options)
      : graph_(graph),
        library_(library),
        plain_(options.plain),
        settled_(graph.values().size()),
        target_(graph.values().size(), none),
        like_(graph.values().size(), none) {
    for (std::size_t v = 0; v < settled_.size(); ++v) {
      const Value& value = graph.values()[v];
      if (plain_ && !value.opaque) settled_[v] = library.plain(value.type);
      const auto pin = options.pinned.find(value.name);
      if (is_persistent(value.role) && pin != options.pinned.end()) settled_[v] = pin->second;
    }
    for (const Update& update : graph.updates()) target_[index(update.source)] = update.target;
    find_gradients();
  }

  std::vector<Lowered> lower_all() {
    std::vector<Lowered> lowered(graph_.nodes().size());
    for (const bool leading : {true, false}) {
      for (std::size_t n = 0; n < lowered.size(); ++n) {
        if (library_.leads(graph_, graph_.nodes()[n]) == leading)
          lowered[n] = lower_node(static_cast<NodeId>(n));
      }
    }
    return lowered;
  }

  // The format of the value: the one that its producer writes; for a fed or persistent value, the one that
  // its first reader requested.
  Format of(ValueId v) const {
    return settled_[index(v)].decided() ? settled_[index(v)] : library_.plain(graph_.value(v).type);
  }
  ValueId target(ValueId v) const { return target_[index(v)]; }

 private:
  // Finds the operand that an optimizer calls "gradient" in the group whose result becomes the parameter.
  void find_gradients() {
    for (const Node& node : graph_.nodes()) {
      if (node.op->repeats() == 0) continue;
      const std::vector<Operand> operands = node.op->operands();
      const std::size_t shared = operands.size() - index(node.op->repeats()),
                        results = node.op->results().size();
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        const ValueId parameter = node.outputs[o] == none ? none : target_[index(node.outputs[o])];
        if (parameter == none || graph_.value(parameter).role != Role::parameter) continue;
        const std::size_t first = shared + o / results * index(node.op->repeats());
        for (std::size_t i = first; i < first + index(node.op->repeats()); ++i) {
          if (operand_at(*node.op, operands, i).name == "gradient") mark(node.inputs[i], parameter);
        }
      }
    }
  }

  void mark(ValueId v, ValueId parameter) {
    while (v != none && graph_.value(v).producer != none &&
           graph_.value(v).type.shape == graph_.value(parameter).type.shape) {
      like_[index(v)] = parameter;
      const Node& producer = graph_.node(graph_.value(v).producer);
      v = same_gradient(producer, v);
    }
  }

  // The operand from which a node makes the gradient `v`, element by element; `none` if it computes the gradient.
  static ValueId same_gradient(const Node& producer, ValueId v) {
    if (producer.op->name() == "cast" || producer.op->name() == "clip") return producer.inputs[0];
    if (producer.op->name() != "all_reduce_wait") return none;
    const auto place = std::ranges::find(producer.outputs, v) - producer.outputs.begin();
    return producer.inputs[index(1 + place)];
  }

  Format wish(ValueId v) const {
    if (settled_[index(v)].decided()) return settled_[index(v)];
    for (const ValueId other : {target_[index(v)], like_[index(v)]}) {
      if (other != none && graph_.value(other).type == graph_.value(v).type &&
          settled_[index(other)].decided()) {
        return settled_[index(other)];
      }
    }
    return {};
  }

  Lowered lower_node(NodeId id) {
    const Node& node = graph_.node(id);
    if (const std::string reason = library_.unsupported(graph_, node); !reason.empty())
      throw Unsupported(reason);
    Offer offer;
    offer.plain = plain_;
    for (const ValueId v : node.inputs) offer.inputs.push_back(v == none ? Format{} : settled_[index(v)]);
    for (const ValueId v : node.outputs) offer.outputs.push_back(v == none ? Format{} : wish(v));
    Lowered lowered = library_.lower(graph_, id, offer);
    lowered.inputs.resize(node.inputs.size());
    lowered.outputs.resize(node.outputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == none || graph_.value(node.inputs[i]).opaque) continue;
      if (!lowered.inputs[i].decided()) lowered.inputs[i] = of(node.inputs[i]);
      if (!settled_[index(node.inputs[i])].decided()) settled_[index(node.inputs[i])] = lowered.inputs[i];
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == none) continue;
      if (!lowered.outputs[o].decided())
        lowered.outputs[o] = library_.plain(graph_.value(node.outputs[o]).type);
      settled_[index(node.outputs[o])] = lowered.outputs[o];
    }
    return lowered;
  }

  const Graph& graph_;
  KernelLibrary& library_;
  bool plain_;
  std::vector<Format> settled_;
  std::vector<ValueId> target_;  // for an updated value: the persistent value that it replaces
  std::vector<ValueId> like_;    // for a gradient: its parameter
};

// Lists the kernels in order with their buffers.
class Assembly {
 public:
  Assembly(LoweredGraph& result, KernelLibrary& library, const Formats& formats, bool plain)
      : result_(result),
        graph_(result.graph),
        library_(library),
        formats_(formats),
        plain_(plain),
        home_(graph_.values().size()),
        last_reader_(graph_.values().size(), none),
        is_kept_(graph_.values().size()),
        is_fed_(graph_.values().size()) {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      for (const ValueId v : node.inputs) {
        if (v == none) continue;
        last_reader_[index(v)] = static_cast<NodeId>(n);
        if (!is_feed(graph_.value(v).role) && !is_fed_[index(v)]) continue;
        for (const ValueId made : node.outputs)
          if (made != none) is_fed_[index(made)] = true;
      }
    }
    for (const Graph::Output& output : graph_.outputs()) is_kept_[index(output.value)] = true;
    for (const Update& update : graph_.updates()) is_kept_[index(update.source)] = true;
    for (std::size_t v = 0; v < home_.size(); ++v) {
      const Role role = graph_.values()[v].role;
      const auto id = static_cast<ValueId>(v);
      if (is_feed(role)) home_[v] = add(id, formats_.of(id), Buffer::Kind::feed);
      if (is_persistent(role)) home_[v] = add(id, formats_.of(id), Buffer::Kind::persistent);
    }
  }

  void emit(NodeId id, Lowered lowered) {
    const Node& node = graph_.node(id);
    LoweredStep step{node.name,
                     std::string(node.op->name()),
                     std::move(lowered.kernel),
                     {},
                     {},
                     lowered.scratch_bytes,
                     std::move(lowered.in_place),
                     std::move(lowered.overwritten),
                     lowered.alone};
    remove_unequal(step.in_place, graph_, node);
    for ([[maybe_unused]] const std::size_t i : step.overwritten) {
      assert(graph_.value(node.inputs[i]).opaque && last_reader_[index(node.inputs[i])] == id);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      step.inputs.push_back(node.inputs[i] == none ? none : operand(node, node.inputs[i], lowered.inputs[i]));
    }
    if (lowered.view) {
      const ValueId v = node.outputs.front();
      const int buffer = view_of(step.inputs.front(), v, lowered);
      if (buffer != none) {
        home_[index(v)] = {v, graph_.value(v).type, lowered.outputs.front(), buffer};
        return;
      }
      step.kernel =
          std::make_unique<CopyKernel>(library_.memory(), lowered.outputs.front().bytes, lowered.first_byte);
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      if (v == none) {
        step.outputs.push_back(none);
        continue;
      }
      const ValueId target = formats_.target(v);
      const int part = part_under(id, step, static_cast<int>(o), lowered.outputs[o]);
      if (target != none && fits_home(id, step, static_cast<int>(o), target, lowered.outputs[o])) {
        home_[index(v)] = home_[index(target)];
      } else if (part != none) {
        home_[index(v)] = {v, graph_.value(v).type, lowered.outputs[o], part};
      } else {
        home_[index(v)] = add(v, lowered.outputs[o], Buffer::Kind::transient);
      }
      step.outputs.push_back(home_[index(v)].buffer);
    }
    // Where a result has another place than a part, the plan may not give it the place of the whole.
    std::erase_if(step.in_place, [&](const InPlace& pair) { return is_part(operand_of(step, pair)); });
    result_.steps.push_back(std::move(step));
  }

  void finish() {
    for (const Update& update : graph_.updates()) {
      const Placed &from = home_[index(update.source)], &to = home_[index(update.target)];
      if (from.buffer != to.buffer) result_.steps.push_back(move(from, to, graph_.value(update.target).name));
    }
    for (const Graph::Output& output : graph_.outputs()) {
      const Placed& place = home_[index(output.value)];
      result_.buffers[index(result_.holder(place.buffer))].output = true;
      result_.outputs[output.name] = place;
    }
  }

 private:
  Placed add(ValueId v, Format format, Buffer::Kind kind) {
    Placed place{v, graph_.value(v).type, std::move(format), static_cast<int>(result_.buffers.size())};
    result_.buffers.push_back({.kind = kind, .bytes = place.format.bytes, .first = place});
    return place;
  }

  static int operand_of(const LoweredStep& step, const InPlace& pair) {
    return index(pair.input) < step.inputs.size() ? step.inputs[index(pair.input)] : none;
  }
  bool is_part(int buffer) const {
    return buffer != none && result_.buffers[index(buffer)].kind == Buffer::Kind::part;
  }
  bool share_bytes(int a, int b) const {
    if (a == none || b == none || result_.holder(a) != result_.holder(b)) return false;
    const Buffer &one = result_.buffers[index(a)], &other = result_.buffers[index(b)];
    return one.offset < other.offset + other.bytes && other.offset < one.offset + one.bytes;
  }

  // The part that this result may overwrite, because nothing else reads its bytes from then on; `none` without one.
  int part_under(NodeId id, const LoweredStep& step, int output, const Format& format) const {
    for (const InPlace& pair : step.in_place) {
      const int part = operand_of(step, pair);
      if (pair.output != output || !is_part(part)) continue;
      const Buffer& bytes = result_.buffers[index(part)];
      const auto overlaps = [&](int other) { return share_bytes(part, other); };
      // What is computed once for several steps must stay.
      const bool again = is_fed_[index(result_.buffers[index(bytes.whole)].first.value)];
      bool read_later = false;
      for (std::size_t v = 0; v < home_.size(); ++v)
        read_later = read_later || ((is_kept_[v] || last_reader_[v] > id) && overlaps(home_[v].buffer));
      if (again && !read_later && bytes.bytes == format.bytes &&
          std::ranges::count_if(step.inputs, overlaps) == 1)
        return part;
    }
    return none;
  }

  // The buffer of `v`, which is a view of `operand`; `none` if it must be a copy.
  int view_of(int operand, ValueId v, const Lowered& lowered) {
    const Buffer& of = result_.buffers[index(operand)];
    // A view of a value that an update replaces would change while others still read it.
    if (of.kind == Buffer::Kind::persistent) return none;
    const Format& format = lowered.outputs.front();
    if (lowered.first_byte == 0 && format.bytes == lowered.inputs.front().bytes) return operand;
    const bool stays = of.kind == Buffer::Kind::transient || of.kind == Buffer::Kind::part;
    if (plain_ || !stays || lowered.first_byte % library_.memory().alignment() != 0) return none;
    const int whole = result_.holder(operand);
    const std::int64_t offset = of.offset + lowered.first_byte;
    const Placed part = add(v, format, Buffer::Kind::part);
    result_.buffers[index(part.buffer)].whole = whole;
    result_.buffers[index(part.buffer)].offset = offset;
    return part.buffer;
  }

  // The buffer that holds `v` in `format`: the value's own, or a copy that is made now and kept for later
  // readers. Feeds are also staged in that format, so that steps need not copy them.
  int operand(const Node& reader, ValueId v, const Format& format) {
    const Placed home = home_[index(v)];
    if (home.format == format || graph_.value(v).opaque) return home.buffer;
    const auto [found, fresh] = copies_.try_emplace({v, format.key}, none);
    if (!fresh) return found->second;
    const Buffer::Kind kind = is_feed(graph_.value(v).role) ? Buffer::Kind::feed : Buffer::Kind::transient;
    const Placed copy = add(v, format, kind);
    found->second = copy.buffer;
    if (kind == Buffer::Kind::transient) result_.steps.push_back(move(home, copy, reader.name));
    return copy.buffer;
  }

  LoweredStep move(const Placed& from, const Placed& to, std::string node) {
    std::unique_ptr<Kernel> kernel;
    if (from.format == to.format) {
      kernel = std::make_unique<CopyKernel>(library_.memory(), from.format.bytes);
    } else {
      kernel = library_.reorder(from.type, from.format, to.format);
    }
    return {std::move(node), "reorder", std::move(kernel), {from.buffer}, {to.buffer}, 0, {}, {}};
  }

  // Whether the new value may overwrite the old one: no later kernel reads the old value, and this kernel
  // either does not read it or reads each element before it writes it.
  bool fits_home(NodeId id, const LoweredStep& step, int output, ValueId target, const Format& format) const {
    const Placed& home = home_[index(target)];
    if (home.format != format || last_reader_[index(target)] > id) return false;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] != home.buffer) continue;
      bool allowed = false;
      for (const InPlace& pair : step.in_place) {
        allowed = allowed || (pair.output == output && pair.input == static_cast<int>(i));
      }
      if (!allowed) return false;
    }
    return true;
  }

  LoweredGraph& result_;
  const Graph& graph_;
  KernelLibrary& library_;
  const Formats& formats_;
  bool plain_;
  std::vector<Placed> home_;  // the buffer of each value
  std::vector<NodeId> last_reader_;
  std::vector<bool> is_kept_;  // read after the step
  std::vector<bool> is_fed_;   // computed from a feed, so that each step makes it again
  std::map<std::pair<ValueId, std::string>, int> copies_;
};

}  // namespace

int LoweredGraph::holder(int buffer) const {
  const bool part = buffer != none && buffers[index(buffer)].kind == Buffer::Kind::part;
  return part ? buffers[index(buffer)].whole : buffer;
}

LoweredGraph lower(const Graph& graph, KernelLibrary& library, const LoweringOptions& options) {
  LoweredGraph result;
  result.graph = options.plain ? graph : library.fuse(graph);
  Formats formats(result.graph, library, options);
  std::vector<Lowered> lowered = formats.lower_all();
  Assembly assembly(result, library, formats, options.plain);
  for (std::size_t n = 0; n < lowered.size(); ++n)
    assembly.emit(static_cast<NodeId>(n), std::move(lowered[n]));
  assembly.finish();
  return result;
}

}  // namespace assay
