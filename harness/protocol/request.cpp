#include "harness/protocol/request.hpp"

#include <fmt/format.h>

#include "harness/core/json/decode.hpp"
#include "harness/protocol/message.hpp"

namespace assay {

CellRequest read_request(const std::filesystem::path& file) {
  constexpr JsonLimits limits{.bytes = 1 << 20};
  const nlohmann::json json = read_strict_json(file, limits);
  const auto request = decoded<CellRequest>(json, file.string(), {.not_finite = false});
  if (request.protocol != protocol::version)
    throw JsonError(fmt::format("{}/protocol: is version {}, but this build uses version {}", file.string(),
                                request.protocol, protocol::version));
  if (request.rank >= request.world)
    throw JsonError(
        fmt::format("{}/rank: is {}, but there are {} ranks", file.string(), request.rank, request.world));
  return request;
}

}  // namespace assay
