#include "harness/conductor/fork/published_weights.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/error.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

using Tensors = std::map<std::string, HostTensor, std::less<>>;

bool is_published(const PublishedTensors& published, const std::string& parameter) {
  return std::ranges::none_of(published.without,
                              [&](const std::string& start) { return parameter.starts_with(start); });
}

// The names under which files have a parameter, the usual one first.
std::vector<std::string> names_of(const PublishedTensors& published, const std::string& parameter) {
  std::vector<std::string> names{parameter};
  for (const auto& [now, before] : published.renamed)
    if (parameter.ends_with(now))
      names.push_back(parameter.substr(0, parameter.size() - now.size()) + before);
  if (!published.prefix.empty())
    for (std::size_t i = 0, count = names.size(); i < count; ++i)
      names.push_back(published.prefix + names[i]);
  return names;
}

// The file of --weights, or the files that an index names, each opened when a tensor of it is needed.
class WeightsFiles {
 public:
  explicit WeightsFiles(const std::filesystem::path& path) : path_(path) {
    if (find_bad_utf8(path.native()) != std::string::npos)
      throw IoError("weights", path, "has a name that is not UTF-8, so a report cannot keep it; rename it");
    if (is_weights_index(path))
      files_of_tensors_ = read_weights_index(path);
    else
      open(path);
  }

  // Null if none of the files has the tensor.
  const WeightsFile* find(const std::string& tensor) {
    if (files_of_tensors_.empty()) return open_.at(path_).has(tensor) ? &open_.at(path_) : nullptr;
    const auto found = files_of_tensors_.find(tensor);
    if (found == files_of_tensors_.end()) return nullptr;
    if (std::error_code ignored; !std::filesystem::exists(found->second, ignored))
      throw IoError(
          "weights", path_,
          fmt::format("names {} for the tensor '{}', but this file is not next to it; get all files of the "
                      "model",
                      found->second.filename().string(), tensor));
    const WeightsFile& file = open(found->second);
    if (!file.has(tensor))
      throw IoError("weights", found->second,
                    fmt::format("has no tensor '{}', although {} names it for that", tensor, path_.string()));
    return &file;
  }

  // That of the one file; of several, the index's name, all bytes, and the digest of their digests.
  FileDigest digest() const {
    const auto size = [](const std::filesystem::path& file) {
      return static_cast<std::int64_t>(std::filesystem::file_size(file));
    };
    if (files_of_tensors_.empty()) return {path_.string(), size(path_), sha256_of_file(path_)};
    FileDigest all{path_.string(), size(path_), ""};
    std::string lines = fmt::format("{}  {}\n", sha256_of_file(path_), path_.filename().string());
    for (const auto& [file, opened] : open_) {
      all.bytes += size(file);
      lines += fmt::format("{}  {}\n", sha256_of_file(file), file.filename().string());
    }
    all.sha256 = sha256(lines);
    return all;
  }

 private:
  const WeightsFile& open(const std::filesystem::path& file) {
    auto found = open_.find(file);
    if (found == open_.end()) found = open_.emplace(file, WeightsFile(file)).first;
    return found->second;
  }

  std::filesystem::path path_;
  std::map<std::string, std::filesystem::path, std::less<>> files_of_tensors_;  // empty: one file
  std::map<std::filesystem::path, WeightsFile> open_;
};

// Reads a tensor of the network under the first of its names that the files have. False if they have none.
bool read_into(Tensors& tensors, WeightsFiles& files, const std::vector<std::string>& names,
               const Value& value) {
  for (const std::string& name : names) {
    const WeightsFile* const found = files.find(name);
    if (found == nullptr) continue;
    tensors[value.name] = found->read(name, value.type.shape);
    tensors[value.name].name = value.name;
    return true;
  }
  return false;
}

[[noreturn]] void reject_missing(const std::filesystem::path& file, const std::string& name,
                                 const Value& value, const std::string& network, const char* why) {
  throw IoError(
      "weights", file,
      fmt::format("has no tensor '{}' {}, which {} needs{}", name, to_string(value.type), network, why));
}

[[noreturn]] void reject(const std::string& workload, const WorkloadRegistry& workloads) {
  std::vector<std::string> known;
  for (const Workload& other : workloads.networks())
    if (other.published.any()) known.push_back(other.name);
  throw ConfigError(
      fmt::format("[weights] {} has no published weights: --weights applies to {}, and imported networks",
                  workload, fmt::join(known, ", ")));
}

std::vector<ValueId> kept_by(const Graph& graph) {
  std::vector<ValueId> ids = graph.with_role(Role::parameter);
  const std::vector<ValueId> states = graph.with_role(Role::state);
  ids.insert(ids.end(), states.begin(), states.end());
  return ids;
}

Tensors published_tensors(WeightsFiles& files, const std::filesystem::path& file,
                          const PublishedNetwork& network) {
  Tensors tensors;
  for (const ValueId id : network.graph.with_role(Role::parameter)) {
    const Value& value = network.graph.value(id);
    if (is_published(network.tensors, value.name) &&
        !read_into(tensors, files, names_of(network.tensors, value.name), value))
      reject_missing(file, value.name, value, network.name, "");
  }
  return tensors;
}

// `given`: the file of --weights, or null.
PublishedWeights::Values imported_values(WeightsFiles& own, WeightsFiles* given,
                                         const std::filesystem::path& file, const PublishedNetwork& network) {
  PublishedWeights::Values values{.tensors = {}, .constants = network.imported->constants, .drawn = {}};
  for (const ValueId id : kept_by(network.graph)) {
    const Value& value = network.graph.value(id);
    const std::string& name = network.imported->names.at(value.name);
    const bool is_constant = values.constants.contains(value.name),
               of_given = given != nullptr && !is_constant;
    if (read_into(values.tensors, of_given ? *given : own, {name}, value)) continue;
    if (of_given) reject_missing(file, name, value, network.name, "");
    if (is_constant)
      reject_missing(network.imported->weights(), name, value, network.name,
                     ": a constant is never drawn; import the network again");
    values.drawn.insert(value.name);
  }
  return values;
}

FileDigest joined(const std::vector<FileDigest>& files) {
  if (files.size() == 1) return files.front();
  FileDigest all{};
  std::string lines;
  for (const FileDigest& file : files) {
    all.name += (all.name.empty() ? "" : ", ") + file.name;
    all.bytes += file.bytes;
    lines += fmt::format("{}  {}\n", file.sha256, std::filesystem::path(file.name).filename().string());
  }
  all.sha256 = sha256(lines);
  return all;
}

}  // namespace

std::vector<PublishedNetwork> published_networks(const std::vector<Cell>& cells,
                                                 const WorkloadRegistry& workloads, bool given) {
  std::vector<PublishedNetwork> networks;
  for (const Cell& cell : cells) {
    const Workload* const workload = cell.axes.is_op() ? nullptr : cell.network().workload;
    const bool imported = workload != nullptr && workload->imported;
    if (!imported && !given) continue;
    if (!imported && (workload == nullptr || !workload->published.any()))
      reject(cell.axes.workload, workloads);
    const bool seen = std::ranges::any_of(
        networks, [&](const PublishedNetwork& network) { return network.name == workload->name; });
    if (!seen)
      networks.push_back({workload->name, workload->published, cell.program->inference, workload->imported});
  }
  return networks;
}

PublishedWeights::PublishedWeights(const std::filesystem::path& file,
                                   std::span<const PublishedNetwork> networks) {
  std::optional<WeightsFiles> given;
  if (!file.empty()) given.emplace(file);
  given_ = given.has_value();
  std::vector<FileDigest> digests;
  for (const PublishedNetwork& network : networks) {
    if (!network.imported) {
      networks_[network.name].tensors = published_tensors(given.value(), file, network);
      continue;
    }
    WeightsFiles own(network.imported->weights());
    networks_[network.name] = imported_values(own, given ? &*given : nullptr, file, network);
    if (!given || !network.imported->constants.empty()) digests.push_back(own.digest());
  }
  if (given) digests.insert(digests.begin(), given->digest());
  file_ = joined(digests);
}

void PublishedWeights::put_into(std::vector<HostTensor>& tensors, std::string_view network) const {
  const auto values = networks_.find(network);
  if (values == networks_.end()) return;
  for (HostTensor& tensor : tensors) {
    const auto found = values->second.tensors.find(tensor.name);
    if (found != values->second.tensors.end()) tensor.bytes = found->second.bytes;
  }
}

void PublishedWeights::put_constants_into(std::vector<HostTensor>& tensors, std::string_view network) const {
  const auto values = networks_.find(network);
  if (values == networks_.end()) return;
  for (HostTensor& tensor : tensors)
    if (values->second.constants.contains(tensor.name))
      tensor.bytes = values->second.tensors.at(tensor.name).bytes;
}

bool PublishedWeights::are_given(std::string_view network) const {
  return given_ && networks_.contains(network);
}

std::set<std::string> PublishedWeights::drawn(std::string_view network) const {
  const auto values = networks_.find(network);
  return values == networks_.end() ? std::set<std::string>() : values->second.drawn;
}

std::optional<PublishedWeights> initial_weights(const RunSettings& settings, const std::vector<Cell>& cells,
                                                const WorkloadRegistry& workloads) {
  const std::vector<PublishedNetwork> networks =
      published_networks(cells, workloads, !settings.weights.empty());
  if (networks.empty()) return std::nullopt;
  return PublishedWeights(settings.weights, networks);
}

}  // namespace assay
