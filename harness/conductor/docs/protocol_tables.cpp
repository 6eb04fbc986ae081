#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/docs/blocks.hpp"
#include "harness/conductor/docs/field_tables.hpp"
#include "harness/core/json/schema.hpp"
#include "harness/protocol/message.hpp"
#include "harness/protocol/original.hpp"
#include "harness/protocol/request.hpp"
#include "workloads/network_file.hpp"

namespace assay {
namespace {

constexpr std::size_t heading_level = 4;

// The tables of described structs.
template <typename... T>
std::string tables_of(std::size_t level = heading_level) {
  SchemaMaker maker;
  (maker.of<T>(), ...);
  return field_tables(maker.definitions(), {std::string(describe(Of<T>{}).name)...}, level);
}

}  // namespace

std::string request_tables() { return tables_of<CellRequest>(); }

std::string event_tables() {
  using namespace protocol;
  return tables_of<Hello, Compiled, Ran, Exchanged, DeviceTimed, Progress, protocol::Error>();
}

std::string network_tables() { return tables_of<NetworkFile>(3); }
std::string original_tables() { return tables_of<OriginalModel>(); }

std::string backend_tables() { return tables_of<BackendDescription>(); }

}  // namespace assay
