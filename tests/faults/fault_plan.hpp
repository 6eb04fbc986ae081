// A conversation with the worker that goes wrong in a given way.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/conductor/process/conversation.hpp"

namespace assay::test {

// Makes the cell folder of fault_worker in this mode; the plan has no commands yet.
inline ConversationPlan fault_plan(const std::filesystem::path& folder, const std::string& mode) {
  std::filesystem::create_directories(folder / "results");
  std::ofstream(folder / "request.json")
      << R"({"mode": ")" << mode << R"(", "seed": 1, "clock": {"kind": "steps", "blocks": 3}})";
  ConversationPlan plan;
  plan.backend = "fault";
  plan.worker.command = {FAULT_WORKER};
  plan.worker.cell_folder = folder;
  return plan;
}

}  // namespace assay::test
