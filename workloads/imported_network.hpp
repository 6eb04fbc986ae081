// A network that a user brings as a workload: the nodes of its network.json, replayed through GraphBuilder.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "workloads/network_file.hpp"
#include "workloads/workload.hpp"

namespace assay {

// Names in graphs have only letters, digits, `.`, `_` and `-`: frameworks and file names do not take others.
struct ImportedNetwork {
  std::filesystem::path folder;
  std::string digest;  // of network.json: eight hex digits
  std::map<std::string, std::string>
      names;  // of parameters, statistics and constants: in graphs -> in files of weights
  // In graphs: state that no node updates. Its values come from the folder, never from a generator.
  std::set<std::string> constants;

  std::filesystem::path weights() const { return folder / network_weights_name; }
  bool has_original() const;  // whether it came from an ONNX file, which is there
  // The name of the workload for options: "models/resnet50@1f3a9c2e".
  std::string text() const;
};

// The folder as options name it: with a slash, or it would be the name of a built-in workload.
std::string text_of_folder(const std::filesystem::path& folder);
// Throws GraphError if ids cannot have the name of the folder.
void require_folder_name(const std::filesystem::path& folder);

// The name is that of the folder, "@" and the digest. Throws JsonError or GraphError with the file, the node and the
// field: a node that cannot be built, or has the batch in its attributes; a tensor or a node that nothing reads; logits
// that are none; a name of the folder that ids cannot have.
Workload read_network(const std::filesystem::path& folder);
// `folder`: where its weights are, and its name.
Workload imported_workload(NetworkFile file, const std::filesystem::path& folder);

}  // namespace assay
