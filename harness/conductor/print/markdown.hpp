// Tables as GitHub-flavoured Markdown.
#pragma once

#include <string>
#include <vector>

#include "harness/conductor/print/table.hpp"

namespace assay {

// What Markdown or HTML would read as markup is escaped.
std::string markdown(const Table& table);
std::string markdown(const std::vector<Table>& tables);

}  // namespace assay
