// Whether an imported network computes what its file computes: ONNX Runtime runs the file, and the oracle the network.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace assay::cli {

inline constexpr std::string_view verified_name = "verified.json";

struct Verification {
  enum class Outcome { passed, failed, left_out };
  Outcome outcome = Outcome::left_out;
  std::string text{};         // for people
  nlohmann::json document{};  // verified.json
};

// Checks the folder's network in mode `original` of onnxruntime, task infer. wanted: false leaves it out. fixed_batch: the
// file may have a batch of one in it.
Verification verify_import(const std::filesystem::path& folder, bool wanted, bool fixed_batch);

}  // namespace assay::cli
