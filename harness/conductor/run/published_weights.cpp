#include "harness/conductor/run/published_weights.hpp"

#include <algorithm>
#include <set>

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

// The network of the cell. Throws ConfigError if it has no published weights.
const Workload& workload_of(const Cell& cell) {
  const auto rejects = [&](std::string_view workload) {
    std::vector<std::string> known;
    for (const Workload& other : all_workloads())
      if (other.published.any()) known.push_back(other.name);
    throw ConfigError(fmt::format("[weights] {} has no published weights: --weights applies to {}", workload,
                                  fmt::join(known, ", ")));
  };
  if (cell.axes.is_op()) rejects(cell.axes.workload);
  const Workload& workload = find_workload(cell.axes.workload);
  if (!workload.published.any()) rejects(workload.name);
  return workload;
}

}  // namespace

std::vector<PublishedNetwork> published_networks(const std::vector<Cell>& cells) {
  std::vector<PublishedNetwork> networks;
  for (const Cell& cell : cells) {
    const Workload& workload = workload_of(cell);
    const bool seen = std::ranges::any_of(
        networks, [&](const PublishedNetwork& network) { return network.name == workload.name; });
    if (!seen) networks.push_back({workload.name, workload.published, cell.program().training});
  }
  return networks;
}

PublishedWeights::PublishedWeights(const std::filesystem::path& file,
                                   std::span<const PublishedNetwork> networks) {
  const auto for_each_parameter = [&](const auto& visit) {
    for (const PublishedNetwork& network : networks)
      for (const ValueId id : network.graph.with_role(Role::parameter)) {
        const Value& value = network.graph.value(id);
        if (is_published(network.tensors, value.name))
          visit(network, value, names_of(network.tensors, value.name));
      }
  };
  std::set<std::string, std::less<>> wanted;
  for_each_parameter([&](const PublishedNetwork&, const Value&, const std::vector<std::string>& names) {
    wanted.insert(names.begin(), names.end());
  });
  for (HostTensor& tensor : read_named_safetensors(file, wanted)) {
    const std::string name = tensor.name;
    tensors_[name] = std::move(tensor);
  }
  for_each_parameter(
      [&](const PublishedNetwork& network, const Value& value, const std::vector<std::string>& names) {
        const HostTensor* found = find_in(tensors_, names);
        if (found == nullptr)
          throw IoError("weights", file,
                        fmt::format("has no tensor '{}' {}, which {} needs", value.name,
                                    to_string(value.type), network.name));
        if (found->type != value.type)
          throw IoError("weights", file,
                        fmt::format("tensor '{}' is {}, but {} needs {}", found->name, to_string(found->type),
                                    network.name, to_string(value.type)));
      });
  file_ = {file.string(), static_cast<std::int64_t>(std::filesystem::file_size(file)), sha256_of_file(file)};
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
