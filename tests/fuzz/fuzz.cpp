#include "tests/fuzz/fuzz.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "harness/core/error.hpp"

namespace assay::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<Target>& registered() {
  static std::vector<Target> all;
  return all;
}

class ScratchFolder {
 public:
  ScratchFolder() {
    const fs::path memory = "/dev/shm";
    const bool has_memory = ::access(memory.c_str(), W_OK) == 0;
    std::string path = ((has_memory ? memory : fs::temp_directory_path()) / "assay-fuzz-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make the folder " + path);
    path_ = path;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

std::span<const Target> targets() { return registered(); }

Registration::Registration(std::string_view name, void (*read)(Input input)) {
  registered().push_back({name, read});
}

void run(const Target& target, Input input) {
  try {
    target.read(input);
  } catch (const Error&) {
  }
}

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

const fs::path& scratch() {
  static const ScratchFolder folder;
  return folder.path();
}

const fs::path& file_with(Input input) {
  static const fs::path path = scratch() / "input";
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
  return path;
}

}  // namespace assay::fuzz
