// A data set as the report and `assay list datasets --json` tell it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/data/preparation.hpp"

namespace assay {

// {"folder", "bytes", "file_count", "checksum", "checksum_of", "files": [{"name", "bytes", "sha256"}, ...]};
// the checksum is null where it was not computed, and `files` empty where they are many.
nlohmann::json provenance_json(const Provenance& provenance);
// The same with "name", "sample_shape", "classes" and "splits": {"train": samples, ...} before it.
nlohmann::json dataset_json(const std::string& name, const PreparedDataset& data);

}  // namespace assay
