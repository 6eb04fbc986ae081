// JSON that a terminal may show.
#pragma once

#include <string>

namespace assay {

// The JSON text with DEL and U+0080 to U+009F written as \u escapes, as JSON has them for the controls below U+0020:
// a terminal takes some of them for commands. The text is UTF-8; in JSON they are nowhere but in strings.
std::string with_escaped_controls(std::string json);

}  // namespace assay
