#include "harness/conductor/fork/published_weights.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/error.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

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

const HostTensor* find_in(const std::map<std::string, HostTensor>& tensors,
                          const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (const auto found = tensors.find(name); found != tensors.end()) return &found->second;
  return nullptr;
}

// The file of --weights, or the files that an index names, each opened when a tensor of it is needed.
class WeightsFiles {
 public:
  explicit WeightsFiles(const std::filesystem::path& path) : path_(path) {
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

// Reads the parameter of the network under the first of its names that the files have.
void read_into(std::map<std::string, HostTensor>& tensors, WeightsFiles& files,
               const std::filesystem::path& file, const PublishedNetwork& network, const Value& parameter) {
  for (const std::string& name : names_of(network.tensors, parameter.name)) {
    const WeightsFile* const found = files.find(name);
    if (found == nullptr) continue;
    tensors[name] = found->read(name, parameter.type.shape);
    return;
  }
  throw IoError("weights", file,
                fmt::format("has no tensor '{}' {}, which {} needs", parameter.name,
                            to_string(parameter.type), network.name));
}

[[noreturn]] void reject(const std::string& workload, const WorkloadRegistry& workloads) {
  std::vector<std::string> known;
  for (const Workload& other : workloads.networks())
    if (other.published.any()) known.push_back(other.name);
  throw ConfigError(fmt::format("[weights] {} has no published weights: --weights applies to {}", workload,
                                fmt::join(known, ", ")));
}

}  // namespace

std::vector<PublishedNetwork> published_networks(const std::vector<Cell>& cells,
                                                 const WorkloadRegistry& workloads) {
  std::vector<PublishedNetwork> networks;
  for (const Cell& cell : cells) {
    if (cell.axes.is_op() || !cell.network().workload->published.any()) reject(cell.axes.workload, workloads);
    const Workload& workload = *cell.network().workload;
    const bool seen = std::ranges::any_of(
        networks, [&](const PublishedNetwork& network) { return network.name == workload.name; });
    if (!seen) networks.push_back({workload.name, workload.published, cell.program->inference});
  }
  return networks;
}

PublishedWeights::PublishedWeights(const std::filesystem::path& file,
                                   std::span<const PublishedNetwork> networks) {
  WeightsFiles files(file);
  for (const PublishedNetwork& network : networks)
    for (const ValueId id : network.graph.with_role(Role::parameter)) {
      const Value& value = network.graph.value(id);
      if (is_published(network.tensors, value.name)) read_into(tensors_, files, file, network, value);
    }
  file_ = files.digest();
}

void PublishedWeights::put_into(std::vector<HostTensor>& parameters,
                                const PublishedTensors& published) const {
  for (HostTensor& parameter : parameters) {
    if (!is_published(published, parameter.name)) continue;
    const HostTensor* found = find_in(tensors_, names_of(published, parameter.name));
    if (found != nullptr) parameter.bytes = found->bytes;
  }
}

}  // namespace assay
