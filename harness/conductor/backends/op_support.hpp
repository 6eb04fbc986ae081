// Which backend has which op, as each backend.json says: what `assay list ops` and the README show.
#pragma once

#include <string>
#include <vector>

#include "harness/conductor/backends/backends.hpp"
#include "harness/graph/op.hpp"

namespace assay {

// Whether graph.json may hold the op. The others, gradients, casts and optimizers, are added by the training
// step of a backend that does not differentiate by itself: a framework has its own.
bool in_networks(const Op& op);

// "yes"; "own" for a framework and an op that it never sees; "no"; "?" for a backend that does not say its
// ops.
std::string support(const BackendDescription& backend, const Op& op);

// A Markdown table of the ops in networks, a column for each backend that says its ops.
std::string support_page(const std::vector<BackendDescription>& backends);

}  // namespace assay
