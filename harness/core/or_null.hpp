// JSON of what may not be known.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

namespace assay {

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace assay
