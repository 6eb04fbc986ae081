#include "harness/conductor/data/sample_files.hpp"

#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::pair<std::string_view, std::size_t> kinds[] = {
    {"|b1", 1}, {"|i1", 1}, {"|u1", 1}, {"<i4", 4}, {"<i8", 8}};

std::int64_t number(const std::byte* at, std::string_view descr) {
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<std::int64_t>(value);
  };
  if (descr == "<i8") return as(std::int64_t{});
  if (descr == "<i4") return as(std::int32_t{});
  return descr == "|i1" ? as(std::int8_t{}) : as(std::uint8_t{});
}

}  // namespace

std::string label_name(std::size_t i, std::int64_t positions) {
  if (positions == 0) return fmt::format("label {}", i);
  const auto of_sample = static_cast<std::size_t>(positions);
  return fmt::format("label {} of sample {}", i % of_sample, i / of_sample);
}

NpyLabels read_npy_labels(std::span<const std::byte> npy, const std::filesystem::path& path) {
  const NpyHeader header = parse_npy_header(npy, path);
  std::size_t size = 0;
  for (const auto& [descr, bytes] : kinds)
    if (header.descr == descr) size = bytes;
  const auto reject = [&](std::string_view remedy) {
    throw IoError("npy", path,
                  fmt::format("contains {} {}, but labels must be bool or whole numbers of 8, 32 or 64 bits "
                              "('|b1', '|i1', '|u1', '<i4', '<i8') of the shape (N), or (N, P) for a network "
                              "with labels at P positions; save {}",
                              npy_type_text(header.descr), to_string(header.shape), remedy));
  };
  const bool has_positions = header.shape.size() == 2 && header.shape[1] > 0;
  if (has_positions && header.shape[1] > 1 && size == 0)
    reject("labels.argmax(axis=1) if each row has a one at its class");
  if (!has_positions && header.shape.size() != 1) reject("labels.reshape(-1)");
  if (size == 0) reject("labels.astype(np.int32)");
  if (has_positions && header.fortran_order) reject("np.ascontiguousarray(labels)");
  const auto data = npy.subspan(header.offset);
  std::uint64_t count = static_cast<std::uint64_t>(header.shape[0]);
  if (has_positions && __builtin_mul_overflow(count, static_cast<std::uint64_t>(header.shape[1]), &count))
    count = std::numeric_limits<std::uint64_t>::max();
  if (data.size() % size != 0 || data.size() / size != count)
    throw IoError("npy", path,
                  fmt::format("is {}: it should have {} of {}, and has {}",
                              data.size() / size < count ? "truncated" : "too long", plural(count, "label"),
                              plural(size, "byte"), plural(data.size(), "byte")));
  NpyLabels read{.labels = {}, .positions = has_positions ? header.shape[1] : 0};
  read.labels.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t label = number(data.data() + i * size, header.descr);
    if (label < std::numeric_limits<std::int32_t>::min() || label > std::numeric_limits<std::int32_t>::max())
      throw IoError("npy", path,
                    fmt::format("{} is {}: number the classes from 0 "
                                "(np.unique(labels, return_inverse=True)[1])",
                                label_name(i, read.positions), label));
    read.labels.push_back(static_cast<std::int32_t>(label));
  }
  return read;
}

}  // namespace assay
