#include "harness/conductor/run/dataset_json.hpp"

#include <nlohmann/json.hpp>

namespace assay {

using Json = nlohmann::json;

Json provenance_json(const Provenance& provenance) {
  Json files = Json::array();
  for (const FileDigest& file : provenance.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return {{"folder", provenance.folder.string()},
          {"bytes", provenance.bytes},
          {"file_count", provenance.file_count},
          {"checksum", provenance.checksum.empty() ? Json(nullptr) : Json(provenance.checksum)},
          {"checksum_of", provenance.checksum_of},
          {"files", files}};
}

Json dataset_json(const std::string& name, const PreparedDataset& data) {
  Json json = provenance_json(data.provenance);
  json["name"] = name;
  json["sample_shape"] = data.manifest.sample_shape;
  json["classes"] = data.manifest.classes;
  for (const auto& [split, of] : data.manifest.splits) json["splits"][split] = of.count;
  return json;
}

}  // namespace assay
