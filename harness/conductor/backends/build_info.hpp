// The source and the compiler of this program.
#pragma once

#include <string_view>

namespace assay {

struct BuildInfo {
  std::string_view version;     // "0.1.0"
  std::string_view commit;      // of the source tree; empty outside a repository
  bool dirty = false;           // files differed from that commit
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view build_type;  // of CMake: "Release"
  std::string_view flags;       // compiler flags of C++: "-O3 -DNDEBUG"
};
const BuildInfo& build_info();

}  // namespace assay
