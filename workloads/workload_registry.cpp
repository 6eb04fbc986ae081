#include "workloads/workload_registry.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "workloads/imported_network.hpp"

namespace assay {

WorkloadRegistry::WorkloadRegistry() : networks_(all_workloads().begin(), all_workloads().end()) {}

const Workload& WorkloadRegistry::add(Workload network) {
  if (network.name.empty() || is_op_workload(network.name))
    throw GraphError(fmt::format("'{}' is not a name of a network: it is empty, or begins with op/",
                                 network.name.substr(0, 80)));
  if (find_network(network.name))
    throw GraphError(fmt::format("there is a workload '{}' already", network.name.substr(0, 80)));
  return networks_.emplace_back(std::move(network));
}

bool WorkloadRegistry::is_folder(std::string_view name) {
  return name.find('/') != name.npos && !is_op_workload(name);
}

const Workload& WorkloadRegistry::add_folder(const std::string& text) {
  if (const auto known = of_folders_.find(text); known != of_folders_.end()) return *known->second;
  const std::size_t at = text.find('@', text.rfind('/'));
  const std::filesystem::path folder = text.substr(0, at);
  if (!std::filesystem::is_directory(folder))
    throw GraphError(fmt::format(
        "[workload] got '{}': there is no such folder, and a name with a slash is one with an imported network (assay "
        "import)",
        one_line(text, 200)));
  Workload read = read_network(folder);
  const ImportedNetwork& imported = *read.imported;
  if (at != text.npos && text.substr(at + 1) != imported.digest)
    throw GraphError(fmt::format(
        "[workload] got '{}': its network.json has the digest {} now; restore it, or leave out \"@{}\"",
        one_line(text, 200), imported.digest, one_line(text.substr(at + 1), 40)));
  const Workload* network = find_network(read.name);
  if (network != nullptr && !std::filesystem::equivalent(network->imported->folder, folder))
    throw GraphError(
        fmt::format("[workload] got '{}': {} has a network of the same name; rename one of the folders",
                    one_line(text, 200), network->imported->folder.string()));
  if (network == nullptr) network = &add(std::move(read));
  return *(of_folders_[text] = network);
}

const Workload* WorkloadRegistry::find_network(std::string_view name) const {
  if (const auto folder = of_folders_.find(name); folder != of_folders_.end()) return folder->second;
  const auto found = std::ranges::find(networks_, name, &Workload::name);
  return found == networks_.end() ? nullptr : &*found;
}

const Workload& WorkloadRegistry::network(std::string_view name) const {
  if (const Workload* found = find_network(name)) return *found;
  std::vector<std::string> known;
  for (const Workload& workload : networks_) known.push_back(workload.name);
  throw GraphError(fmt::format("'{}' is not a workload{}", name.substr(0, 80), suggestion(name, known)));
}

}  // namespace assay
