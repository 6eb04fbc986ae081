#include "harness/worker/loaded_libraries.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace assay {
namespace {

namespace fs = std::filesystem;

std::size_t padded(std::size_t size) { return (size + 3) / 4 * 4; }

// The note of type NT_GNU_BUILD_ID in hex, or nothing.
std::string build_id(const std::byte* notes, std::size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t name = sizeof note, text = name + padded(note.n_namesz),
                      end = text + padded(note.n_descsz);
    if (end > size) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string hex;
      for (std::size_t i = 0; i < note.n_descsz; ++i)
        hex += fmt::format("{:02x}", static_cast<unsigned>(notes[text + i]));
      return hex;
    }
    notes += end;
    size -= end;
  }
  return {};
}

std::string version_of(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object.dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const std::byte*>(object.dlpi_addr + header.p_vaddr);
    if (const std::string id = build_id(notes, header.p_memsz); !id.empty()) return "build-id " + id;
  }
  return {};
}

std::string resolved(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real.string();
}

int add(dl_phdr_info* object, std::size_t, void* to) {
  auto& found = *static_cast<std::vector<Library>*>(to);
  const std::string given = object->dlpi_name ? object->dlpi_name : "";
  const bool program = found.empty() && given.empty();
  if (!program && given.find('/') == std::string::npos) return 0;  // the kernel's own page
  const std::string path = resolved(program ? "/proc/self/exe" : given);
  std::string name = fs::path(program ? path : given).filename().string();
  name.erase(std::min(name.find(".so"), name.size()));
  found.push_back({name, version_of(*object), path});
  return 0;
}

}  // namespace

std::vector<Library> loaded_libraries() {
  std::vector<Library> found;
  ::dl_iterate_phdr(&add, &found);
  return found;
}

std::int64_t loaded_bytes() {
  std::int64_t sum = 0;
  for (const Library& library : loaded_libraries()) {
    std::error_code gone;
    const std::uintmax_t bytes = fs::file_size(library.path, gone);
    if (!gone) sum += static_cast<std::int64_t>(bytes);
  }
  return sum;
}

std::vector<Library> with_loaded_libraries(std::vector<Library> named) {
  std::vector<Library> all = std::move(named);
  for (Library& library : loaded_libraries()) {
    const auto same = [&](const Library& other) {
      return !other.path.empty() && resolved(other.path) == library.path;
    };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(library));
  }
  return all;
}

}  // namespace assay
