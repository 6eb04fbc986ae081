#include "harness/batch/request.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t most_steps = 10'000'000;

class RequestReader {
 public:
  RequestReader(const Json& json, const std::filesystem::path& path, std::string where)
      : json_(json), path_(path), where_(std::move(where)) {
    if (!json_.is_object()) fail("", "is no object");
  }

  [[noreturn]] void fail(std::string_view field, std::string_view what) const {
    throw IoError("request", path_, fmt::format("'{}{}' {}", where_, field, what));
  }
  bool has(const char* field) const { return json_.contains(field); }
  RequestReader object(const char* field) const {
    static const Json empty = Json::object();
    return {has(field) ? json_.at(field) : empty, path_, fmt::format("{}{}.", where_, field)};
  }
  std::int64_t whole(const char* field, std::int64_t fallback, std::int64_t least, std::int64_t most) const {
    if (!has(field)) return fallback;
    const Json& value = json_.at(field);
    const bool in_range = value.is_number_unsigned()
                              ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                              : value.is_number_integer();
    if (!in_range || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
      fail(field, fmt::format("is {} and no whole number from {} to {}", value.dump(), least, most));
    return value.get<std::int64_t>();
  }
  double seconds(const char* field, double fallback, double most) const {
    if (!has(field)) return fallback;
    const Json& value = json_.at(field);
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= most))
      fail(field, fmt::format("is {} and no number of seconds from 0 to {}", value.dump(), most));
    return value.get<double>();
  }
  std::string one_of(const char* field, std::string fallback,
                     std::initializer_list<std::string_view> words) const {
    if (!has(field)) return fallback;
    const Json& value = json_.at(field);
    for (const std::string_view word : words)
      if (value == word) return std::string(word);
    fail(field, fmt::format("is {}, wanted one of {}", value.dump(), fmt::join(words, ", ")));
  }
  std::vector<std::string> texts(const char* field) const {
    std::vector<std::string> list;
    if (!has(field)) return list;
    const Json& value = json_.at(field);
    if (!value.is_array() || value.size() > 16) fail(field, "is no list of splits");
    for (const Json& item : value) {
      if (!item.is_string()) fail(field, "is no list of splits");
      list.push_back(item.get<std::string>());
    }
    return list;
  }

 private:
  const Json& json_;
  const std::filesystem::path& path_;
  std::string where_;
};

ClockRequest read_clock(const RequestReader& reader) {
  ClockRequest clock;
  const bool epochs = reader.one_of("kind", "steps", {"steps", "epochs"}) == "epochs";
  clock.kind = epochs ? ClockRequest::Kind::epochs : ClockRequest::Kind::steps;
  if (epochs) {
    clock.epochs = static_cast<int>(reader.whole("epochs", 1, 1, 100'000));
    clock.evaluate = reader.texts("evaluate");
    return clock;
  }
  const RequestReader warm_up = reader.object("warm_up");
  clock.min_steps = warm_up.whole("min_steps", clock.min_steps, 1, most_steps);
  clock.min_seconds = warm_up.seconds("min_seconds", clock.min_seconds, 86'400);
  clock.block_seconds = reader.seconds("block_seconds", clock.block_seconds, 86'400);
  clock.blocks = reader.whole("blocks", clock.blocks, 1, 100'000);
  if (reader.has("steps")) clock.steps = reader.whole("steps", 1, 1, most_steps);
  return clock;
}

}  // namespace

BatchRequest read_batch_request(const std::filesystem::path& cell_folder) {
  const std::filesystem::path path = cell_folder / "request.json";
  const Json json = Json::parse(read_text(path, 1 << 20), nullptr, false);
  if (json.is_discarded()) throw IoError("request", path, "is no JSON");
  const RequestReader reader(json, path, "");
  BatchRequest request;
  if (!reader.has("batch")) reader.fail("batch", "is missing");
  request.batch = reader.whole("batch", 0, 1, 1 << 24);
  request.training = reader.one_of("task", "train", {"train", "infer"}) == "train";
  request.op = reader.has("op");
  const RequestReader loader = reader.object("loader");
  request.loader.kind = loader.one_of("kind", "resident", {"resident", "harness", "native"});
  request.loader.workers = static_cast<int>(loader.whole("workers", 1, 0, 256));
  request.loader.prefetch = static_cast<int>(loader.whole("prefetch", 4, 1, 1024));
  request.loader.resident_batches = loader.whole("resident_batches", 8, 1, 100'000);
  request.clock = read_clock(reader.object("clock"));
  return request;
}

}  // namespace assay
