#include "harness/protocol/message.hpp"

#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace assay::protocol {
namespace {

using Json = nlohmann::json;

constexpr std::array verbs = {std::pair{Verb::compile, "compile"}, std::pair{Verb::check, "check"},
                              std::pair{Verb::run, "run"},         std::pair{Verb::verify, "verify"},
                              std::pair{Verb::oracle, "oracle"},   std::pair{Verb::quit, "quit"}};

constexpr std::array error_kinds = {
    std::pair{ErrorKind::unsupported, "unsupported"}, std::pair{ErrorKind::unavailable, "unavailable"},
    std::pair{ErrorKind::out_of_memory, "out_of_memory"}, std::pair{ErrorKind::failed, "failed"}};

// Indexed as the alternatives of Event.
constexpr std::array<const char*, std::variant_size_v<Event>> event_names = {
    "hello", "compiled", "checked", "ran", "verified", "judged", "bye", "progress", "error"};

template <typename Names, typename Key>
const char* name_in(const Names& names, Key key) {
  for (const auto& [candidate, name] : names) {
    if (candidate == key) return name;
  }
  return "?";
}

// What was seen, short and printable.
std::string quoted(std::string_view line) {
  constexpr std::size_t shown = 160;
  std::string text =
      Json(std::string(line.substr(0, shown))).dump(-1, ' ', true, Json::error_handler_t::replace);
  return line.size() > shown ? fmt::format("{} ({} bytes)", text, line.size()) : text;
}

Json parse_object(std::string_view line) {
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) {
    throw ProtocolError(
        fmt::format("[protocol] got {}: not a line of JSON; only messages may go to the channel, "
                    "everything else goes to stdout or stderr",
                    quoted(line)));
  }
  if (!json.is_object()) throw ProtocolError(fmt::format("[protocol] got {}: not an object", quoted(line)));
  return json;
}

// Reads the fields of one message; an error names the field and shows the line.
class Fields {
 public:
  Fields(const Json& json, std::string_view line) : json_(json), line_(line) {}

  std::string text(const char* key, bool required = true) const {
    const Json* field = find(key, required);
    if (!field) return {};
    if (!field->is_string()) wrong(key, "text");
    return field->get<std::string>();
  }
  double number(const char* key, bool required = true) const {
    const Json* field = find(key, required);
    if (!field) return 0;
    if (!field->is_number()) wrong(key, "a number");
    return field->get<double>();
  }
  std::int64_t integer(const char* key, bool required = true) const {
    const double value = number(key, required);
    if (!(std::abs(value) < 9e15)) wrong(key, "an integer");
    return static_cast<std::int64_t>(value);
  }
  bool boolean(const char* key) const {
    const Json* field = find(key, false);
    if (!field) return false;
    if (!field->is_boolean()) wrong(key, "true or false");
    return field->get<bool>();
  }
  Memory memory() const {
    Memory result;
    each("memory", [&](const std::string& name, const Json& value) {
      if (!value.is_number()) wrong("memory", "numbers of bytes");
      result[name] = Fields(Json{{"memory", value}}, line_).integer("memory");
    });
    return result;
  }
  // A worker may say 2 or true where a text is kept.
  Settings settings() const {
    Settings result;
    each("settings", [&](const std::string& name, const Json& value) {
      result[name] = value.is_string() ? value.get<std::string>() : value.dump();
    });
    return result;
  }
  template <typename Make>
  auto list(const char* key, Make make) const {
    std::vector<decltype(make(*this))> result;
    const Json* field = find(key, false);
    if (!field) return result;
    if (!field->is_array()) wrong(key, "a list");
    for (const Json& item : *field) {
      if (!item.is_object()) wrong(key, "a list of objects");
      result.push_back(make(Fields(item, line_)));
    }
    return result;
  }

 private:
  const Json* find(const char* key, bool required) const {
    const auto found = json_.find(key);
    if (found != json_.end() && !found->is_null()) return &*found;
    if (required)
      throw ProtocolError(fmt::format("[protocol] got {}: \"{}\" is missing", quoted(line_), key));
    return nullptr;
  }
  template <typename Visit>
  void each(const char* key, Visit visit) const {
    const Json* field = find(key, false);
    if (!field) return;
    if (!field->is_object()) wrong(key, "an object");
    for (const auto& [name, value] : field->items()) visit(name, value);
  }
  [[noreturn]] void wrong(const char* key, const char* expected) const {
    throw ProtocolError(fmt::format("[protocol] got {}: \"{}\" should be {}", quoted(line_), key, expected));
  }

  const Json& json_;
  std::string_view line_;
};

Hello read_hello(const Fields& fields) {
  Hello hello;
  hello.protocol = static_cast<int>(std::min<std::int64_t>(fields.integer("protocol"), 1'000'000));
  hello.backend = fields.text("backend");
  hello.version_of_backend = fields.text("version", false);
  hello.libraries = fields.list("libraries", [](const Fields& item) {
    return Library{item.text("name"), item.text("version", false), item.text("path", false)};
  });
  hello.settings = fields.settings();
  return hello;
}

Ran read_ran(const Fields& fields) {
  auto operators = fields.list("operators", [](const Fields& item) {
    return OperatorTime{item.text("node"), item.text("op", false), item.number("seconds"),
                        item.integer("calls"), item.text("implementation", false)};
  });
  return {fields.memory(), fields.settings(), std::move(operators), fields.text("state_digest", false)};
}

Error read_error(const Fields& fields, std::string_view line) {
  const std::string kind = fields.text("kind");
  for (const auto& [candidate, name] : error_kinds) {
    if (kind == name) return {candidate, fields.text("reason", false)};
  }
  throw ProtocolError(fmt::format("[protocol] got {}: unknown kind of error", quoted(line)));
}

double finite(const char* key, double value) {
  if (!std::isfinite(value))
    throw ProtocolError(fmt::format("[protocol] {} is not finite: JSON cannot say it", key));
  return value;
}

struct Writer {
  Json json;

  void operator()(const Hello& hello) {
    json["protocol"] = hello.protocol;
    json["backend"] = hello.backend;
    json["version"] = hello.version_of_backend;
    json["libraries"] = Json::array();
    for (const auto& library : hello.libraries) {
      json["libraries"].push_back(
          {{"name", library.name}, {"version", library.version}, {"path", library.path}});
    }
    json["settings"] = hello.settings;
  }
  void operator()(const Compiled& compiled) {
    json["seconds"] = finite("seconds", compiled.seconds);
    json["settings"] = compiled.settings;
    json["memory"] = compiled.memory;
  }
  void operator()(const Ran& ran) {
    json["memory"] = ran.memory;
    json["settings"] = ran.settings;
    if (!ran.state_digest.empty()) json["state_digest"] = ran.state_digest;
    json["operators"] = Json::array();
    for (const auto& time : ran.operators) {
      json["operators"].push_back({{"node", time.node},
                                   {"op", time.op},
                                   {"seconds", finite("seconds", time.seconds)},
                                   {"calls", time.calls}});
      if (!time.implementation.empty()) json["operators"].back()["implementation"] = time.implementation;
    }
  }
  void operator()(const Progress& progress) {
    json["done"] = progress.done;
    json["planned"] = progress.planned;
  }
  void operator()(const Error& error) {
    json["kind"] = name_in(error_kinds, error.kind);
    json["reason"] = error.reason;
  }
  void operator()(const Checked&) {}
  void operator()(const Verified&) {}
  void operator()(const Judged&) {}
  void operator()(const Bye&) {}
};

std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string_view to_string(Verb verb) { return name_in(verbs, verb); }

std::string_view name_of(const Event& event) { return event_names[event.index()]; }

std::string write(const Command& command) {
  Json json{{"command", to_string(command.verb)}};
  if (command.verb == Verb::compile) json["check"] = command.check;
  return one_line(json);
}

std::string write(const Event& event) {
  Writer writer{Json{{"event", name_of(event)}}};
  std::visit(writer, event);
  return one_line(writer.json);
}

Command parse_command(std::string_view line) {
  const Json json = parse_object(line);
  const Fields fields(json, line);
  const std::string verb = fields.text("command");
  for (const auto& [candidate, name] : verbs) {
    if (verb == name) return {candidate, fields.boolean("check")};
  }
  throw ProtocolError(fmt::format("[protocol] got {}: unknown command", quoted(line)));
}

Event parse_event(std::string_view line) {
  const Json json = parse_object(line);
  const Fields fields(json, line);
  const std::string event = fields.text("event");
  if (event == "hello") return read_hello(fields);
  if (event == "compiled") return Compiled{fields.number("seconds"), fields.settings(), fields.memory()};
  if (event == "checked") return Checked{};
  if (event == "ran") return read_ran(fields);
  if (event == "verified") return Verified{};
  if (event == "judged") return Judged{};
  if (event == "bye") return Bye{};
  if (event == "progress") return Progress{fields.integer("done"), fields.integer("planned")};
  if (event == "error") return read_error(fields, line);
  throw ProtocolError(fmt::format("[protocol] got {}: unknown event", quoted(line)));
}

}  // namespace assay::protocol
