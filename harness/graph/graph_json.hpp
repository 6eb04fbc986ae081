// graph.json: the program on disk. write(read(text)) == text; the format is described in docs/protocol.md.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/graph/program.hpp"

namespace assay {

nlohmann::json to_json(const Graph& graph);
nlohmann::json to_json(const Program& program);
nlohmann::json to_json(const OptimizerSpec& optimizer);
// Throw GraphError with the JSON path of what is wrong: unknown op, shape that does not follow, a cycle, a
// duplicate name.
Graph graph_from_json(const nlohmann::json& json);
Program program_from_json(const nlohmann::json& json);

}  // namespace assay
