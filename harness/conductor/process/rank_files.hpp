// The cell folder of a rank on its machine: that of the conductor if both see it, else a copy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/conductor/process/link.hpp"
#include "harness/core/json/fields.hpp"

namespace assay {

struct FileEntry {
  std::string path{};  // within the cell folder; of a data set: absolute
  std::int64_t size = 0;
  std::string sha256{};
};
inline Description describe(Of<FileEntry>) {
  using T = FileEntry;
  return fields("file", "A file.", field("path", &T::path, "Where."), field("size", &T::size, "Bytes."),
                field("sha256", &T::sha256, "Of its content."));
}

struct FolderContents {
  std::filesystem::path folder{};
  std::vector<FileEntry> files{};
  std::vector<FileEntry> data{};  // the arrays of its data set, which are elsewhere
};
inline Description describe(Of<FolderContents>) {
  using T = FolderContents;
  return fields("contents", "A cell folder.", field("folder", &T::folder, "Its path for the conductor."),
                field("files", &T::files, "In it.").in_columns(),
                field("data", &T::data, "That its manifest names.").in_columns());
}

// The conductor's end. For one rank, and for the thread that has its link.
class SentFolder {
 public:
  explicit SentFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Gives the rank what is new in the folder. Throws Error, also if the rank cannot take it or is gone.
  void send(Link& link);
  // Takes `count` files that are new on the rank's machine. Throws Error.
  void take(Link& link, std::size_t count);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> known_;  // digests of what the rank has
};

// The rank's end.
class ReceivedFolder {
 public:
  // `scratch`: where a copy is kept. `host`: for texts.
  ReceivedFolder(std::filesystem::path scratch, std::string host)
      : scratch_(std::move(scratch)), host_(std::move(host)) {}

  // Takes what the conductor has. Data sets of a copy are kept in the cache of this machine, by digest. Throws Error.
  void receive(Link& link, const FolderContents& contents);
  // Where the worker works; empty before the first receive().
  const std::filesystem::path& folder() const { return folder_; }
  // The files of a copy that are new since the last call or receive(); none if the folder is shared.
  std::vector<std::filesystem::path> fresh();
  // Sends a file of the folder. Throws Error.
  void send(Link& link, const std::filesystem::path& file) const;

 private:
  void take_copy(Link& link, const FolderContents& contents);
  void require_same(const FolderContents& contents) const;

  std::filesystem::path scratch_;
  std::string host_;
  std::filesystem::path folder_;
  bool is_shared_ = false;
  std::map<std::string, std::string> stamps_;  // of the files of a copy
};

}  // namespace assay
