// Pages for man(1), in roff, made from the options as the parser has them.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace assay::cli {

// assay(1): the commands, and the footer of the help, which explains the exit codes.
std::string man_page(const CLI::App& app);
// assay-run(1), for one of its commands.
std::string man_page(const CLI::App& app, const CLI::App& command);

}  // namespace assay::cli
