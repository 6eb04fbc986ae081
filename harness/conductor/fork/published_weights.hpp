// Published weights (--weights): initial parameters from a file instead of drawn ones.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/core/tensor.hpp"
#include "harness/graph/graph.hpp"
#include "harness/report/run_record.hpp"
#include "workloads/workload_registry.hpp"

namespace assay {

// A network for which there are published weights.
struct PublishedNetwork {
  std::string name;
  PublishedTensors tensors;
  Graph graph;
};
// Those of the cells, each once. Throws ConfigError for a cell of another workload.
std::vector<PublishedNetwork> published_networks(const std::vector<Cell>& cells,
                                                 const WorkloadRegistry& workloads);

// A safetensors file, or the index (model.safetensors.index.json) of several, read and checked once. Values of
// bf16 and f16 become f32.
class PublishedWeights {
 public:
  // Throws IoError with the file and the tensor if a parameter of a network is missing, has another type or
  // shape, or has a value that is not finite.
  PublishedWeights(const std::filesystem::path& file, std::span<const PublishedNetwork> networks);

  // Replaces the values of the parameters that the file has. Tensors of the file without a parameter are not
  // used.
  void put_into(std::vector<HostTensor>& parameters, const PublishedTensors& published) const;
  // The file's path, length and digest. Of an index: its path, the bytes of all files that were read, and the
  // SHA-256 of the lines that sha256sum prints of the index and of these files.
  const FileDigest& file() const { return file_; }

 private:
  FileDigest file_;
  std::map<std::string, HostTensor> tensors_;  // by the name in the file
};

}  // namespace assay
