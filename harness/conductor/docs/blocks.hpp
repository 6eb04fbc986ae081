// What the blocks of the reference pages are made of that is written nowhere else. Each returns Markdown that ends with a
// newline.
#pragma once

#include <string>

namespace assay {

// The arena of one step of each workload, next to what MXNet's documents claim.
std::string memory_plan_table();
// What is alive at the peak where a saving is below the claim, and for resnet56.
std::string memory_bound_tables();

// Every setting that is not an axis: values, default, and whether it may differ between the cells of a config.
std::string setting_table();

// The fields of request.json, of the events and of backend.json.
std::string request_tables();
std::string event_tables();
std::string backend_tables();

}  // namespace assay
