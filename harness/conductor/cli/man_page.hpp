// Pages for man(1), in roff, made from the options of the parser.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace assay::cli {

// assay(1): the commands, and the footer of the help, which explains the exit codes.
std::string man_page(const CLI::App& app);
// The page of one command, such as assay-run(1).
std::string man_page(const CLI::App& app, const CLI::App& command);

}  // namespace assay::cli
