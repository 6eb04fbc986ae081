// Initial values from files instead of drawn ones: the file of --weights, and those in the folders of imported networks.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/core/tensor.hpp"
#include "harness/graph/graph.hpp"
#include "harness/report/run_record.hpp"
#include "workloads/imported_network.hpp"
#include "workloads/workload_registry.hpp"

namespace assay {

// A network whose initial values are in files.
struct PublishedNetwork {
  std::string name;
  PublishedTensors tensors;
  Graph graph;
  std::shared_ptr<const ImportedNetwork> imported = {};  // null: a built-in network, which needs --weights
};
// The imported networks of the cells, and with `given`, a file of --weights, all of them, each once. Throws ConfigError
// for a cell that --weights does not apply to.
std::vector<PublishedNetwork> published_networks(const std::vector<Cell>& cells,
                                                 const WorkloadRegistry& workloads, bool given);

// Safetensors files, or the index (model.safetensors.index.json) of several, read and checked once. Values of bf16 and f16
// become f32. --weights has every parameter of a built-in network that is published, and every parameter and running
// statistic of an imported one. The folder of an imported network has its constants, always, and without --weights the
// other tensors; those that it lacks are drawn.
class PublishedWeights {
 public:
  // Of one network.
  struct Values {
    std::map<std::string, HostTensor, std::less<>> tensors{};  // by the name in the graph
    std::set<std::string> constants{};
    std::set<std::string> drawn{};
  };

  // `file`: that of --weights; empty without it. Throws IoError with the file and the tensor if one is missing, has another
  // type or shape, or has a value that is not finite.
  PublishedWeights(const std::filesystem::path& file, std::span<const PublishedNetwork> networks);

  // Replaces the values of the tensors that the files have. Tensors of the files that a network does not have are not
  // used.
  void put_into(std::vector<HostTensor>& tensors, std::string_view network) const;
  // The same, but only the constants of an imported network.
  void put_constants_into(std::vector<HostTensor>& tensors, std::string_view network) const;
  // Whether those of the network are of --weights.
  bool are_given(std::string_view network) const;
  // The tensors of an imported network, by their names in the graph, that no file has.
  std::set<std::string> drawn(std::string_view network) const;
  // The file's path, length and digest. Of an index: its path, the bytes of all files that were read, and the
  // SHA-256 of the lines that sha256sum prints of the index and of these files. The same of several files, with all
  // paths.
  const FileDigest& file() const { return file_; }

 private:
  bool given_ = false;  // there is a file of --weights
  FileDigest file_;
  std::map<std::string, Values, std::less<>> networks_;
};

// Those of a run; nothing if all its networks draw their initial values.
std::optional<PublishedWeights> initial_weights(const RunSettings& settings, const std::vector<Cell>& cells,
                                                const WorkloadRegistry& workloads);

}  // namespace assay
