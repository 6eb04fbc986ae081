// What a container or a user's slice may use of the machine.
#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace assay {

// {"version": 1 | 2 | null, "cpu_quota": cores | null, "memory_limit": bytes | null} of the control group of
// this process: the tightest of its own limits and those of the groups around it. null: no limit, or none is
// told. Version 1 where its cpu or memory controller is mounted, also beside version 2. Reads files below
// `root`.
nlohmann::json control_group_limits(const std::filesystem::path& root);

}  // namespace assay
