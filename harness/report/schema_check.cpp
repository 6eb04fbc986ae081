#include "harness/report/schema_check.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/report/strict_document.hpp"

namespace assay {

using Json = nlohmann::json;
namespace dom = simdjson::dom;

namespace {

enum Type : unsigned {
  null = 1,
  boolean = 2,
  integer = 4,
  number = 8,
  text = 16,
  array = 32,
  object = 64,
  any = 127,
};

unsigned type_named(const std::string& name) {
  static const std::map<std::string, unsigned> names{
      {"null", null},   {"boolean", boolean}, {"integer", integer}, {"number", integer | number},
      {"string", text}, {"array", array},     {"object", object}};
  return names.at(name);
}

// What is written with a point or an exponent is no integer, as for the readers.
unsigned type_of(const dom::element& element) {
  switch (element.type()) {
    case dom::element_type::NULL_VALUE:
      return null;
    case dom::element_type::BOOL:
      return boolean;
    case dom::element_type::INT64:
    case dom::element_type::UINT64:
      return integer;
    case dom::element_type::DOUBLE:
      return number;
    case dom::element_type::STRING:
      return text;
    case dom::element_type::ARRAY:
      return array;
    case dom::element_type::OBJECT:
      return object;
  }
  return 0;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

struct SchemaCheck::Node {
  struct Property {
    std::string name;
    const Node* node = nullptr;  // nullptr: anything
    bool required = false;
  };
  unsigned types = any;
  std::vector<Property> properties;  // in the order of their names, as they are written
  std::size_t required = 0;          // how many of them are
  bool closed = false;               // no other properties
  const Node* others = nullptr;      // of additional properties
  const Node* items = nullptr;
  bool unique = false;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::size_t least_length = 0;
  std::optional<std::vector<Json>> choices;
  std::vector<std::string> words;  // the choices, where all of them are text
  const Node* condition = nullptr;
  const Node* consequence = nullptr;

  bool holds(const dom::element& element) const;
  bool holds_object(const dom::object& members) const;
  bool holds_array(const dom::array& list) const;
  bool chosen(const dom::element& element) const;
};

bool SchemaCheck::Node::chosen(const dom::element& element) const {
  std::string_view word;
  if (!words.empty() && element.get(word) == simdjson::SUCCESS)
    return std::find(words.begin(), words.end(), word) != words.end();
  if (!words.empty()) return false;
  const Json value = to_json(element);
  return std::find(choices->begin(), choices->end(), value) != choices->end();
}

bool SchemaCheck::Node::holds_array(const dom::array& list) const {
  std::set<std::string> seen;
  for (const dom::element item : list) {
    if (items && !items->holds(item)) return false;
    if (unique && !seen.insert(to_json(item).dump()).second) return false;
  }
  return true;
}

// Members mostly come in the order of their names, so the next one is guessed before it is searched.
bool SchemaCheck::Node::holds_object(const dom::object& members) const {
  std::size_t guess = 0, there = 0;
  for (const dom::key_value_pair member : members) {
    if (guess >= properties.size() || properties[guess].name != member.key) {
      const auto found =
          std::lower_bound(properties.begin(), properties.end(), member.key,
                           [](const Property& one, std::string_view key) { return one.name < key; });
      guess = static_cast<std::size_t>(found - properties.begin());
    }
    if (guess < properties.size() && properties[guess].name == member.key) {
      const Property& property = properties[guess++];
      there += property.required;
      if (property.node && !property.node->holds(member.value)) return false;
    } else if (closed || (others && !others->holds(member.value))) {
      return false;
    }
  }
  return there == required;
}

bool SchemaCheck::Node::holds(const dom::element& element) const {
  const unsigned type = type_of(element);
  if ((type & types) == 0) return false;
  if (choices && !chosen(element)) return false;
  switch (type) {
    case object:
      if (!holds_object(dom::object(element))) return false;
      break;
    case array:
      if (!holds_array(dom::array(element))) return false;
      break;
    case text:
      if (least_length > 0 && characters(element.get_string().value_unsafe()) < least_length) return false;
      break;
    case null:
    case boolean:
      break;
    default: {
      const double value = element.get_double().value_unsafe();
      if (value < minimum || value > maximum) return false;
    }
  }
  return !condition || !consequence || !condition->holds(element) || consequence->holds(element);
}

class SchemaCheck::Compiler {
 public:
  explicit Compiler(const Json& schema) : schema_(schema) {}

  const Node* compile(const Json& json) {
    if (const auto reference = json.find("$ref"); reference != json.end()) return referred(*reference);
    Node& node = nodes_.emplace_back();
    fill(node, json);
    return &node;
  }

 private:
  const Node* referred(const std::string& reference) {
    if (const auto known = references_.find(reference); known != references_.end()) return known->second;
    Node& node = nodes_.emplace_back();
    references_[reference] = &node;  // before it is filled: it may refer to itself
    fill(node, schema_.at(Json::json_pointer(reference.substr(1))));
    return &node;
  }

  void fill(Node& node, const Json& json) {
    for (const auto& [key, value] : json.items()) keyword(node, key, value);
    for (Node::Property& property : node.properties) node.required += property.required;
  }

  void keyword(Node& node, const std::string& key, const Json& value) {
    static const std::set<std::string> notes{"$schema", "$id", "title", "description", "definitions"};
    if (notes.contains(key)) return;
    if (key == "type") {
      node.types = 0;
      for (const Json& name : value.is_array() ? value : Json::array({value}))
        node.types |= type_named(name.get<std::string>());
    } else if (key == "properties") {
      for (const auto& [name, property] : value.items()) at(node, name).node = compile(property);
    } else if (key == "required") {
      for (const Json& name : value) at(node, name.get<std::string>()).required = true;
    } else if (key == "additionalProperties") {
      if (value.is_boolean())
        node.closed = !value.get<bool>();
      else
        node.others = compile(value);
    } else if (key == "items") {
      node.items = compile(value);
    } else if (key == "uniqueItems") {
      node.unique = value.get<bool>();
    } else if (key == "minimum") {
      node.minimum = value.get<double>();
    } else if (key == "maximum") {
      node.maximum = value.get<double>();
    } else if (key == "minLength") {
      node.least_length = value.get<std::size_t>();
    } else if (key == "enum" || key == "const") {
      node.choices = key == "enum" ? value.get<std::vector<Json>>() : std::vector<Json>{value};
      for (const Json& choice : *node.choices)
        if (choice.is_string()) node.words.push_back(choice.get<std::string>());
      if (node.words.size() != node.choices->size()) node.words.clear();
    } else if (key == "if") {
      node.condition = compile(value);
    } else if (key == "then") {
      node.consequence = compile(value);
    } else {
      throw std::logic_error("[schema] the keyword " + key + " is not known");
    }
  }

  static Node::Property& at(Node& node, const std::string& name) {
    auto place = std::lower_bound(
        node.properties.begin(), node.properties.end(), name,
        [](const Node::Property& one, const std::string& wanted) { return one.name < wanted; });
    if (place == node.properties.end() || place->name != name)
      place = node.properties.insert(place, {name, nullptr, false});
    return *place;
  }

  const Json& schema_;
  std::deque<Node> nodes_;  // that keeps its places
  std::map<std::string, const Node*> references_;
};

SchemaCheck::SchemaCheck(const Json& schema)
    : compiler_(std::make_unique<Compiler>(schema)), root_(compiler_->compile(schema)) {}
SchemaCheck::~SchemaCheck() = default;

bool SchemaCheck::holds(const dom::element& document) const { return root_->holds(document); }

}  // namespace assay
