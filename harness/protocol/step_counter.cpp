#include "harness/protocol/step_counter.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

constexpr std::size_t bytes = 2 * sizeof(std::int64_t);

}  // namespace

StepCounter::StepCounter(const std::filesystem::path& file, std::int64_t planned) {
  const Descriptor open(::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!open || ::ftruncate(open.get(), bytes) != 0) return;
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, open.get(), 0);
  if (mapped == MAP_FAILED) return;
  numbers_ = static_cast<std::int64_t*>(mapped);
  numbers_[1] = planned;
  set(0);
}

StepCounter::~StepCounter() {
  if (numbers_ != nullptr) ::munmap(numbers_, bytes);
}

void StepCounter::set(std::int64_t done) {
  if (numbers_ != nullptr) std::atomic_ref(numbers_[0]).store(done, std::memory_order_relaxed);
}

std::optional<protocol::Progress> read_step_counter(const std::filesystem::path& file) try {
  const std::vector<std::byte> content = read_foreign_file(file, bytes);
  if (content.size() != bytes) return std::nullopt;
  std::int64_t numbers[2];
  std::memcpy(numbers, content.data(), bytes);
  const auto [done, planned] = numbers;
  if (done < 0 || planned <= 0 || done > planned) return std::nullopt;
  return protocol::Progress{done, planned};
} catch (const IoError&) {
  return std::nullopt;
}

}  // namespace assay
