// The reference of the operators as Markdown, written from their contracts: docs/reference/operators.md and
// `assay list ops`.
#pragma once

#include <string>

#include "harness/graph/op.hpp"

namespace assay {

// "convolution(x, weight, [bias]) -> y"; optional ones in brackets, "..." after a group that repeats.
std::string signature(const Op& op);
// A heading, the signature, the contract, the attributes and the results that may be written in place.
std::string reference(const Op& op);
// The whole page.
std::string operator_reference();

}  // namespace assay
