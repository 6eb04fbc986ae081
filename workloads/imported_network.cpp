#include "workloads/imported_network.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

constexpr std::size_t max_folder_name = 64;
constexpr std::int64_t default_batch = 32;

// The ops of a forward pass. Others compute gradients, update parameters, or belong to task decode.
constexpr auto forward_ops = std::to_array<std::string_view>(
    {"add",        "attention",    "average_pool", "batch_norm", "clamp",
     "concat",     "convolution",  "divide",       "dot",        "dropout",
     "elu",        "embedding",    "flatten",      "gelu",       "hard_sigmoid",
     "hard_swish", "layer_norm",   "leaky_relu",   "linear",     "local_response_norm",
     "lstm",       "matmul",       "max_pool",     "mean_pool",  "multiply",
     "normalise",  "padding_mask", "prelu",        "reduce",     "relu",
     "reshape",    "rms_norm",     "rotary",       "selu",       "sigmoid",
     "silu",       "slice",        "softmax",      "softplus",   "softsign",
     "subtract",   "tanh",         "transpose"});

bool is_plain(unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; }

// The name with only plain characters.
std::string plain_form(const std::string& name) {
  std::string plain = name;
  std::ranges::replace_if(plain, [](unsigned char c) { return !is_plain(c); }, '_');
  plain.erase(0, std::min(plain.find_first_not_of("._-"), plain.size()));
  return plain.empty() ? "value" : plain;
}

// Makes the names of graphs from those of a file.
class PlainNames {
 public:
  explicit PlainNames(const NetworkFile& file) {
    for (const NetworkNode& node : file.nodes) {
      if (!contains(forward_ops, node.op)) continue;  // is refused later
      const std::vector<Result> results = find_op(node.op).results();
      for (std::size_t i = 1; i < results.size(); ++i)
        derived_.insert(plain_form(node.name) + "." + results[i].name);
    }
  }

  std::string of(const std::string& name) {
    std::string plain = plain_form(name);
    if (is_derived(plain)) plain += "_";
    int& count = counts_[folded(plain)];
    std::string unique = plain;
    while (!taken_.insert(folded(unique)).second) unique = fmt::format("{}_{}", plain, ++count + 1);
    return unique;
  }

 private:
  // Some frameworks fold cases, or turn dots into underscores: two names stay different in that form.
  static std::string folded(std::string text) {
    for (char& c : text)
      c = c == '.' || c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  }

  // Whether passes may derive the name from another one: "conv1.gradient", "conv1.weight.m", "pool1.argmax".
  bool is_derived(const std::string& name) const {
    static constexpr std::array words{"mask", "drawn",  "m",     "v",     "momentum", "square", "again",
                                      "x",    "scaled", "sum_a", "sum_b", "update",   "start"};
    const std::size_t dot = name.rfind('.');
    if (dot == name.npos) return false;
    const std::string last = name.substr(dot + 1);
    return last.find("gradient") != last.npos || contains(words, last) || derived_.contains(name);
  }

  std::set<std::string> derived_;  // results of nodes other than the first
  std::map<std::string, int> counts_;
  // What Workload::build and the training step add.
  std::set<std::string> taken_{"inputs", "labels", "loss", "schedule", "seed"};
};

[[noreturn]] void fail(const NetworkFile& file, const std::string& what) {
  throw GraphError(fmt::format("{}: {}", file.where, what));
}
[[noreturn]] void fail(const NetworkFile& file, const NetworkNode& node, const std::string& what) {
  fail(file, fmt::format("node '{}': {}", one_line(node.name, 80), what));
}

// The nodes of a file that is known to be consistent.
class Replay {
 public:
  Replay(const NetworkFile& file, const std::map<std::string, std::string>& plain, GraphBuilder& builder)
      : file_(file), plain_(plain), builder_(builder) {}

  ValueId logits(ValueId inputs, std::int64_t classes) {
    check_samples(builder_.graph().value(inputs).type.shape);
    values_[file_.input.name] = inputs;
    for (const NetworkTensor& tensor : file_.tensors) add(tensor);
    for (const NetworkNode& node : file_.nodes) {
      try {
        values_[node.name] = add(node);
      } catch (const GraphError& error) {
        const std::string text = error.what();
        if (text.starts_with(file_.where)) throw;
        fail(file_, node, text);
      }
    }
    const ValueId logits = operand(file_.output, "output");
    check_logits(logits, classes);
    return logits;
  }

 private:
  void check_samples(const Shape& inputs) const {
    const Shape sample(inputs.begin() + 1, inputs.end());
    if (sample != file_.input.shape.shape)
      throw GraphError(
          fmt::format("[{}] takes samples {}, and the data set has {}; use a data set of these samples",
                      builder_.graph().name(), to_string(file_.input.shape.shape), to_string(sample)));
  }

  void add(const NetworkTensor& tensor) {
    values_[tensor.name] = tensor.role == "parameter"
                               ? builder_.parameter(plain_.at(tensor.name), tensor.shape, tensor.initializer)
                               : builder_.state(plain_.at(tensor.name), tensor.shape, tensor.initializer);
  }

  ValueId operand(const std::string& name, const std::string& at) const {
    const auto found = values_.find(name);
    if (found == values_.end())
      throw GraphError(
          fmt::format("{}: '{}' is not the input, a tensor or an earlier node", at, one_line(name, 80)));
    return found->second;
  }

  std::vector<ValueId> operands(const NetworkNode& node) const {
    std::vector<ValueId> ids;
    for (const auto& name : node.inputs)
      ids.push_back(name ? operand(*name, fmt::format("inputs/{}", ids.size())) : none);
    return ids;
  }

  static double number(const NetworkNode& node, const char* name) {
    Attributes attributes;
    for (const auto& [key, attribute] : node.attributes) {
      if (key != name)
        throw GraphError(fmt::format("attributes: [{}] has no '{}'", node.op, one_line(key, 40)));
      attributes.set(key, attribute.value);
    }
    return attributes.number(name);
  }

  ValueId add(const NetworkNode& node) {
    if (!contains(forward_ops, node.op))
      throw GraphError(
          fmt::format("op: '{}' is not an op of a forward pass{}", one_line(node.op, 40),
                      suggestion(node.op.substr(0, 40),
                                 std::vector<std::string>(forward_ops.begin(), forward_ops.end()))));
    const std::vector<ValueId> inputs = operands(node);
    const std::string& name = plain_.at(node.name);
    if (node.op == "dropout") {
      if (inputs.size() != 1 || inputs[0] == none) throw GraphError("inputs: a dropout has one, x");
      const double rate = number(node, "rate");
      if (!(rate >= 0 && rate < 1))
        throw GraphError(fmt::format("attributes/rate: {} is not in [0, 1)", rate));
      return builder_.dropout(inputs[0], rate, name);
    }
    Attributes attributes;
    for (const auto& [key, attribute] : node.attributes) {
      if (key == "training" || key == "sparse_gradient")
        throw GraphError(
            fmt::format("attributes/{}: it follows from the task, so a file does not have it", key));
      attributes.set(key, attribute.value);
    }
    if (node.op == "batch_norm") return batch_norm(inputs, std::move(attributes), name);
    return builder_.apply(node.op, inputs, std::move(attributes), name).front();
  }

  ValueId batch_norm(const std::vector<ValueId>& inputs, Attributes attributes, const std::string& name) {
    attributes.set("training", builder_.training());
    if (builder_.norm_momentum() > 0) attributes.set("momentum", builder_.norm_momentum());
    const std::vector<ValueId> results = builder_.apply("batch_norm", inputs, std::move(attributes), name);
    if (builder_.training()) {
      builder_.graph().add_update(inputs.at(3), results.at(3));
      builder_.graph().add_update(inputs.at(4), results.at(4));
    }
    return results.front();
  }

  void check_logits(ValueId id, std::int64_t classes) const {
    const TensorType& type = builder_.graph().value(id).type;
    const std::size_t rank = file_.per_position ? 3 : 2;
    const std::int64_t batch = builder_.graph().value(values_.at(file_.input.name)).type.shape.front();
    if (type.dtype != DType::f32 || type.shape.size() != rank || type.shape.back() < 2 ||
        type.shape.front() != batch)
      fail(file_, fmt::format("output '{}' is {}, and logits are f32 ({}) with two classes or more",
                              one_line(file_.output, 80), to_string(type), rank == 3 ? "N, T, C" : "N, C"));
    if (classes > 0 && type.shape.back() != classes)
      throw GraphError(
          fmt::format("[{}] has {} classes, and the data set has {}; use a data set of as many classes",
                      builder_.graph().name(), type.shape.back(), classes));
  }

  const NetworkFile& file_;
  const std::map<std::string, std::string>& plain_;
  GraphBuilder& builder_;
  std::map<std::string, ValueId> values_;
};

// Running statistics are those of one batch norm, and nothing else reads them.
void check_statistics(const NetworkFile& file) {
  std::map<std::string, std::string> roles;
  for (const NetworkTensor& tensor : file.tensors) roles[tensor.name] = tensor.role;
  std::set<std::string> read;
  for (const NetworkNode& node : file.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i]) continue;
      const std::string& name = *node.inputs[i];
      const auto reject = [&](const char* why) {
        fail(file, node, fmt::format("inputs/{}: '{}' {}", i, one_line(name, 80), why));
      };
      const bool statistics = node.op == "batch_norm" && i >= 3;
      const auto role = roles.find(name);
      const bool is_state = role != roles.end() && role->second == "state";
      if (statistics && !is_state) reject("must have the role state: it is a running statistic");
      if (!statistics && is_state)
        reject(
            "has the role state, which only the running statistics of a batch norm have; use the role constant");
      if (statistics && !read.insert(name).second) reject("is the statistic of another batch norm, too");
    }
}

// Nothing is there that changes no logits.
void check_readers(const NetworkFile& file) {
  std::set<std::string> read;
  for (const NetworkNode& node : file.nodes)
    for (const auto& name : node.inputs)
      if (name) read.insert(*name);
  const auto check = [&](const std::string& name, const char* kind) {
    if (!read.contains(name) && name != file.output)
      fail(file, fmt::format("{} '{}' is read by no node; leave it out", kind, one_line(name, 80)));
  };
  check(file.input.name, "input");
  for (const NetworkTensor& tensor : file.tensors) check(tensor.name, "tensor");
  for (const NetworkNode& node : file.nodes) check(node.name, "node");
  if (read.contains(file.output))
    fail(file,
         fmt::format("output '{}' is read by a node, which changes no logits", one_line(file.output, 80)));
}

std::string name_of(const std::filesystem::path& folder) {
  const std::filesystem::path last = folder.lexically_normal();
  return (last.has_filename() ? last : last.parent_path()).filename().string();
}

struct Imported {
  NetworkFile file;
  std::map<std::string, std::string> plain;  // names of the file -> names of graphs
};

Imported named(NetworkFile file) {
  Imported imported{std::move(file), {}};
  PlainNames names(imported.file);
  for (const NetworkTensor& tensor : imported.file.tensors)
    imported.plain[tensor.name] = names.of(tensor.name);
  for (const NetworkNode& node : imported.file.nodes) imported.plain[node.name] = names.of(node.name);
  return imported;
}

// The type of the logits for a batch, with the errors of every node.
TensorType logits_of(const Imported& imported, std::int64_t batch) {
  const NetworkFile& file = imported.file;
  Graph graph("network");
  GraphBuilder builder(graph, false);
  Shape shape = file.input.shape.shape;
  shape.insert(shape.begin(), batch);
  const ValueId inputs = file.input.below ? builder.tokens("inputs", shape) : builder.input("inputs", shape);
  const ValueId logits = Replay(file, imported.plain, builder).logits(inputs, 0);
  return graph.value(logits).type;
}

// Of the least batch, and of another one: an op that has the batch in its attributes is refused here.
TensorType logits_of_any_batch(const Imported& imported) {
  const TensorType logits = logits_of(imported, 2);
  try {
    logits_of(imported, 3);
  } catch (const GraphError& error) {
    fail(imported.file,
         fmt::format("it can be built for a batch of 2, and not of 3, so an attribute has the batch ({})",
                     error.what()));
  }
  return logits;
}

// Whether labels can be the next tokens: one at each position, each one of the classes.
bool predicts_tokens(const NetworkFile& file, const Shape& logits) {
  return file.per_position && file.input.below && file.input.shape.shape == Shape{logits[1]} &&
         logits.back() <= *file.input.below;
}

NetworkFunction network_of(std::shared_ptr<const Imported> imported) {
  return [imported = std::move(imported)](GraphBuilder& builder, ValueId inputs, std::int64_t classes) {
    return Replay(imported->file, imported->plain, builder).logits(inputs, classes);
  };
}

ImportedNetwork facts_of(const Imported& imported, const std::filesystem::path& folder) {
  ImportedNetwork facts{.folder = folder, .digest = imported.file.digest, .names = {}, .constants = {}};
  for (const NetworkTensor& tensor : imported.file.tensors) {
    const std::string& plain = imported.plain.at(tensor.name);
    facts.names[plain] = tensor.name;
    if (tensor.role == "constant") facts.constants.insert(plain);
  }
  return facts;
}

std::int64_t parameters_of(const NetworkFile& file) {
  std::int64_t elements = 0;
  for (const NetworkTensor& tensor : file.tensors)
    if (tensor.role == "parameter") elements += element_count(tensor.shape);
  return elements;
}

}  // namespace

std::string text_of_folder(const std::filesystem::path& folder) {
  std::string path = folder.lexically_normal().string();
  if (path.ends_with('/')) path.pop_back();
  return path.find('/') == path.npos ? "./" + path : path;
}

void require_folder_name(const std::filesystem::path& folder) {
  const std::string name = name_of(folder);
  if (name.empty() || name.size() > max_folder_name || name.find_first_not_of('.') == name.npos ||
      !std::ranges::all_of(name, [](unsigned char c) { return is_plain(c); }))
    throw GraphError(
        fmt::format("[workload] got '{}': its name becomes part of ids, so it has 1 to {} letters, digits, "
                    "'.', '_' or '-'; rename the folder",
                    one_line(folder.string(), 200), max_folder_name));
}

bool ImportedNetwork::has_original() const {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder / network_original_name, ignored);
}

std::string ImportedNetwork::text() const { return fmt::format("{}@{}", text_of_folder(folder), digest); }

Workload imported_workload(NetworkFile file, const std::filesystem::path& folder) {
  require_folder_name(folder);
  check_statistics(file);
  const auto imported = std::make_shared<const Imported>(named(std::move(file)));
  const NetworkFile& own = imported->file;
  const Shape logits = logits_of_any_batch(*imported).shape;
  check_readers(own);
  const bool next = predicts_tokens(own, logits);
  Workload workload{.name = fmt::format("{}@{}", name_of(folder), own.digest),
                    .description = own.description.value_or("an imported network"),
                    .source = fmt::format("The file {}", own.where),
                    .dataset = "synthetic",
                    .sample_shape = own.input.shape.shape,
                    .vocabulary = own.input.below.value_or(0),
                    .next_token = next,
                    .positions = own.per_position && !next ? logits[1] : 0,
                    .classes = logits.back(),
                    .parameters = parameters_of(own),
                    .batch = default_batch,
                    .optimizer = {.kind = "adam"},
                    .learning_rate = 1e-3,
                    .network = network_of(imported),
                    .imported = std::make_shared<const ImportedNetwork>(facts_of(*imported, folder))};
  return workload;
}

Workload read_network(const std::filesystem::path& folder) {
  return imported_workload(read_network_file(folder / network_file_name), folder);
}

}  // namespace assay
