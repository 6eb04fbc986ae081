#include "harness/protocol/message.hpp"

#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"

namespace assay::protocol {
namespace {

using Json = nlohmann::json;

// In the order of the alternatives of Event.
constexpr std::array<const char*, std::variant_size_v<Event>> event_names = {
    "hello",        "compiled", "ran", "verified", "restarted", "exchanged",
    "device_timed", "judged",   "bye", "progress", "error"};

// The received text, short and printable.
std::string quoted(std::string_view line) {
  constexpr std::size_t shown = 160;
  std::string text =
      Json(std::string(line.substr(0, shown))).dump(-1, ' ', true, Json::error_handler_t::replace);
  return line.size() > shown ? fmt::format("{} ({} bytes)", text, line.size()) : text;
}

[[noreturn]] void reject(std::string_view line, std::string_view why) {
  throw ProtocolError(fmt::format("[protocol] got {}: {}", quoted(line), why));
}

// A worker may write null for "nothing", and 2.0 for a whole number.
void tidy(Json& json) {
  if (json.is_object()) {
    for (auto item = json.begin(); item != json.end();) item = item->is_null() ? json.erase(item) : ++item;
  }
  for (Json& item : json) {
    if (item.is_structured()) tidy(item);
    if (!item.is_number_float()) continue;
    const double value = item.get<double>();
    if (value == std::floor(value) && std::abs(value) < 9e15) item = static_cast<std::int64_t>(value);
  }
}

Json parse_object(std::string_view line) {
  constexpr std::size_t max_depth = 16;  // tidy() and writers recurse once for each level
  Json json;
  try {
    json = parse_strict_json(line, "the message", {.depth = max_depth});
  } catch (const JsonError& error) {
    const std::string_view why = error.what();
    constexpr std::string_view hint =
        "; only messages may go to the channel, everything else goes to stdout or stderr";
    reject(line, fmt::format("{}{}", why, why.find("not valid JSON") != why.npos ? hint : ""));
  }
  if (!json.is_object()) reject(line, "not an object");
  tidy(json);
  // A worker may write 2 or true for a text.
  if (const auto settings = json.find("settings"); settings != json.end() && settings->is_object()) {
    for (Json& value : *settings)
      if (!value.is_string()) value = value.dump();
  }
  return json;
}

template <typename T>
T read(const Json& json, std::string_view line) {
  try {
    return decoded<T>(json);
  } catch (const JsonError& error) {
    reject(line, error.what());
  }
}

std::string text_of(const Json& json, const char* key, std::string_view line) {
  const auto found = json.find(key);
  if (found == json.end()) reject(line, fmt::format("the field \"{}\" is missing", key));
  if (!found->is_string()) reject(line, fmt::format("{}: should be text, is {}", key, found->type_name()));
  return found->get<std::string>();
}

// Reads the event with that name; tries one alternative after the other.
template <std::size_t Index = 0>
Event event_of(std::string_view name, const Json& json, std::string_view line) {
  if constexpr (Index < std::variant_size_v<Event>) {
    if (name == event_names[Index]) return read<std::variant_alternative_t<Index, Event>>(json, line);
    return event_of<Index + 1>(name, json, line);
  } else {
    reject(line, "unknown event");
  }
}

void require_finite(const Json& json, const std::string& key) {
  if (json.is_number_float() && !std::isfinite(json.get<double>()))
    throw ProtocolError(fmt::format("[protocol] {} is not finite: JSON cannot store it", key));
  if (!json.is_structured()) return;
  for (auto item = json.begin(); item != json.end(); ++item)
    require_finite(*item, json.is_object() ? item.key() : key);
}

std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string_view name_of(const Event& event) { return event_names[event.index()]; }

std::string contradiction(const Exchanged& exchanged) {
  const std::size_t rounds = exchanged.step_seconds.size();
  if (exchanged.local_seconds.size() != rounds || exchanged.bare_seconds.size() != rounds)
    return "has times of its exchange that are not of the same rounds";
  if (exchanged.reason.empty() != (rounds > 0) || (exchanged.steps > 0) != (rounds > 0))
    return "must have times of its exchange, or a reason why it has none";
  for (const auto* times : {&exchanged.step_seconds, &exchanged.local_seconds, &exchanged.bare_seconds})
    for (const double time : *times)
      if (!(time > 0 && std::isfinite(time)))
        return fmt::format("has an impossible time of its exchange: {} s", time);
  return {};
}

std::string contradiction(const DeviceTimed& timed) {
  const bool measured = !timed.step_seconds.empty();
  if (timed.reason.empty() != measured || (timed.steps > 0) != measured)
    return "must have times of its device, or a reason why it has none";
  for (const double time : timed.step_seconds)
    if (!(time > 0 && std::isfinite(time)))
      return fmt::format("has an impossible time of its device: {} s", time);
  return {};
}

std::string write(const Command& command) {
  Json json = encode(command);
  return one_line(json);
}

std::string write(const Event& event) {
  Json json = std::visit([](const auto& one) { return encode(one); }, event);
  require_finite(json, "");
  json["event"] = name_of(event);
  return one_line(json);
}

Command parse_command(std::string_view line) { return read<Command>(parse_object(line), line); }

Event parse_event(std::string_view line) {
  const Json json = parse_object(line);
  return event_of(text_of(json, "event", line), json, line);
}

}  // namespace assay::protocol
