#include "harness/conductor/print/questions.hpp"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/report/metric_table.hpp"

namespace assay {
namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw ConfigError(
      fmt::format("[ask] '{}': {}; write METRIC,CELL or METRIC[/METRIC],CELL,CELL with the places of "
                  "cells in the document without --ask, from 0",
                  printable(text, 100), why));
}

std::string known_metric(const std::string& name, const std::string& text) {
  if (find_metric(name)) return name;
  std::vector<std::string> names;
  for (const MetricRow& row : metric_table()) names.emplace_back(row.name);
  refuse(text, fmt::format("unknown metric '{}'{}", printable(name, 40), nearest(name, names)));
}

std::size_t place(const std::string& word, const std::string& text, const Analysis& all) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || word.empty())
    refuse(text, fmt::format("'{}' is not the place of a cell", printable(word, 40)));
  if (value >= all.cells.size())
    refuse(text,
           fmt::format("unknown cell {}: the reports have {}", value, plural(all.cells.size(), "cell")));
  return value;
}

Question read_question(const std::string& text, const Analysis& all) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() < 2 || parts.size() > 3) refuse(text, "it does not name a metric and one or two cells");
  const std::vector<std::string> metrics = split(parts[0], '/');
  if (metrics.size() > 2) refuse(text, "it names more than two metrics");
  if (metrics.size() == 2 && parts.size() == 2) refuse(text, "a ratio of two metrics needs two cells");
  Question question;
  question.metric = known_metric(metrics[0], text);
  if (metrics.size() == 2) question.other_metric = known_metric(metrics[1], text);
  question.cell = place(parts[1], text, all);
  if (parts.size() == 3) question.other = place(parts[2], text, all);
  return question;
}

}  // namespace

std::vector<Question> read_questions(const std::vector<std::string>& texts, const Analysis& all) {
  std::vector<Question> questions;
  questions.reserve(texts.size());
  for (const std::string& text : texts) questions.push_back(read_question(text, all));
  return questions;
}

}  // namespace assay
