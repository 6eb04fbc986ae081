// Tables of the reference pages that no other part of the program prints. Each function returns Markdown that ends with
// a newline.
#pragma once

#include <string>

namespace assay {

// The arena of one step of each workload, next to what MXNet's documents claim.
std::string memory_plan_table();
// The arena and the FLOPs of a training step of each workload with and without recomputation.
std::string recomputation_table();
// The tensors alive at the peak, for each saving below the claim, and for resnet56.
std::string memory_bound_tables();

// Every setting that is not an axis: values, default, and whether it may differ between the cells of a config.
std::string setting_table();

// The fields of request.json, of the events and of backend.json.
std::string request_tables();
std::string event_tables();
std::string backend_tables();
// The fields of network.json, and of original.json.
std::string network_tables();
std::string original_tables();

}  // namespace assay
