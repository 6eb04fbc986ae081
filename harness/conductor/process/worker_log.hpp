// stdout and stderr of a worker: drained so that the worker never blocks, bounded so that it does not fill
// the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace assay {

// Owns the descriptor. The file gets the first `head_bytes`; the last `tail_bytes` of the rest are appended
// at the end.
class WorkerLog {
 public:
  static constexpr std::size_t head_bytes = std::size_t{1} << 20;
  static constexpr std::size_t tail_bytes = std::size_t{1} << 16;

  // Throws std::system_error if the file cannot be created.
  WorkerLog(int descriptor, const std::filesystem::path& file);
  ~WorkerLog();
  WorkerLog(const WorkerLog&) = delete;
  WorkerLog& operator=(const WorkerLog&) = delete;

  int descriptor() const { return descriptor_; }  // to poll; -1 after its end
  // Reads a bounded amount of the available data, without waiting.
  void drain();
  // Appends the tail to the file. Call it once, after the worker has ended.
  void finish();

  // The last lines, at most `bytes` of them, as UTF-8.
  std::string tail(std::size_t bytes = 4000) const;
  std::uint64_t total() const { return total_; }

 private:
  void close_input();

  int descriptor_;
  int file_ = -1;
  std::uint64_t total_ = 0;
  std::uint64_t written_ = 0;
  std::string tail_;  // the last bytes, head included
};

}  // namespace assay
