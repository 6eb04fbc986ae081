// Makes JSON safe to print on a terminal.
#pragma once

#include <string>

namespace assay {

// Returns the JSON text with DEL and U+0080 to U+009F as \u escapes, as JSON requires for the controls below
// U+0020: terminals execute some of them. The text is UTF-8; in JSON these characters occur only in strings.
std::string with_escaped_controls(std::string json);

}  // namespace assay
