#include "harness/conductor/config/rate_schedule.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "harness/conductor/config/options.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::string_view forms =
    "it must be constant, step:EPOCHxFACTOR[:EPOCHxFACTOR...], every:EPOCHSxFACTOR, cosine[:EPOCHS] or "
    "decay:RATE, each with an optional warmup:EPOCHS+ before it";
constexpr std::int64_t max_epochs = 1'000'000;

[[noreturn]] void fail_schedule(std::string_view text, const std::string& what) {
  throw ConfigError(fmt::format("[schedule] got '{}': {}; {}", text.substr(0, 200), what, forms));
}

template <typename T>
T number(std::string_view part, std::string_view text, T min, T max) {
  T value{};
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc{} || end != part.data() + part.size() || !(value >= min && value <= max)) {
    fail_schedule(text, fmt::format("'{}' is not a number from {} to {}", part.substr(0, 40), min, max));
  }
  return value;
}

// The parts after the first colon of "name:a:b:c"; empty without a colon.
std::vector<std::string_view> arguments(std::string_view part) {
  std::vector<std::string_view> result;
  for (std::size_t colon = part.find(':'); colon != std::string_view::npos; colon = part.find(':')) {
    part.remove_prefix(colon + 1);
    result.push_back(part.substr(0, part.find(':')));
  }
  return result;
}

}  // namespace

RateSchedule RateSchedule::parse(std::string_view text) {
  RateSchedule schedule;
  std::string_view rest = text;
  if (rest.starts_with("warmup:")) {
    const std::size_t plus = rest.find('+');
    if (plus == std::string_view::npos) fail_schedule(text, "the schedule after the warm-up is missing");
    schedule.warm_up_epochs_ = number<double>(rest.substr(7, plus - 7), text, 1e-6, max_epochs);
    rest.remove_prefix(plus + 1);
  }
  const std::string_view name = rest.substr(0, rest.find(':'));
  const std::vector<std::string_view> given = arguments(rest);
  const auto takes = [&](std::size_t min, std::size_t max) {
    if (given.size() < min || given.size() > max)
      fail_schedule(text, fmt::format("'{}' does not take {}", name, plural(given.size(), "value")));
  };
  if (name == "constant") {
    takes(0, 0);
  } else if (name == "step" || name == "every") {
    schedule.kind_ = name == "step" ? Kind::step : Kind::every;
    takes(1, schedule.kind_ == Kind::step ? 1000 : 1);
    for (const std::string_view pair : given) {
      const std::size_t times = pair.find('x');
      if (times == std::string_view::npos)
        fail_schedule(text, fmt::format("'{}' is not of the form EPOCHxFACTOR", pair.substr(0, 40)));
      const Boundary boundary{number<std::int64_t>(pair.substr(0, times), text, 1, max_epochs),
                              number<double>(pair.substr(times + 1), text, 0, 1e6)};
      if (!schedule.boundaries_.empty() && boundary.epochs <= schedule.boundaries_.back().epochs)
        fail_schedule(text, "its epochs must increase");
      schedule.boundaries_.push_back(boundary);
    }
  } else if (name == "cosine") {
    schedule.kind_ = Kind::cosine;
    takes(0, 1);
    if (!given.empty()) schedule.epochs_ = number<std::int64_t>(given[0], text, 1, max_epochs);
  } else if (name == "decay") {
    schedule.kind_ = Kind::decay;
    takes(1, 1);
    schedule.decay_ = number<double>(given[0], text, 0, 1e6);
  } else {
    fail_schedule(text, fmt::format("unknown schedule '{}'", name.substr(0, 40)));
  }
  return schedule;
}

std::string RateSchedule::text() const {
  std::string out = warm_up_epochs_ > 0 ? fmt::format("warmup:{}+", warm_up_epochs_) : "";
  switch (kind_) {
    case Kind::constant:
      return out + "constant";
    case Kind::step:
    case Kind::every:
      out += kind_ == Kind::step ? "step" : "every";
      for (const Boundary& boundary : boundaries_)
        out += fmt::format(":{}x{}", boundary.epochs, boundary.factor);
      return out;
    case Kind::cosine:
      return out + (epochs_ > 0 ? fmt::format("cosine:{}", epochs_) : "cosine");
    case Kind::decay:
      return out + fmt::format("decay:{}", decay_);
  }
  return out;
}

RateSchedule RateSchedule::over(std::int64_t epochs) const {
  RateSchedule schedule = *this;
  if (lacks_epochs()) schedule.epochs_ = epochs;
  return schedule;
}

double RateSchedule::factor(std::int64_t steps_done, std::int64_t steps_per_epoch) const {
  const std::int64_t epochs_done = steps_done / steps_per_epoch;
  switch (kind_) {
    case Kind::constant:
      break;
    case Kind::step: {
      double factor = 1;
      for (const Boundary& boundary : boundaries_) {
        if (epochs_done >= boundary.epochs) factor = boundary.factor;
      }
      return factor;
    }
    case Kind::every:
      return std::pow(boundaries_[0].factor, static_cast<double>(epochs_done / boundaries_[0].epochs));
    case Kind::cosine: {
      const double share = static_cast<double>(steps_done) /
                           (static_cast<double>(epochs_) * static_cast<double>(steps_per_epoch));
      return (1 + std::cos(std::numbers::pi * std::min(share, 1.0))) / 2;
    }
    case Kind::decay:
      return 1 / (1 + decay_ * static_cast<double>(steps_done));
  }
  return 1;
}

double RateSchedule::rate(double base, std::int64_t steps_done, std::int64_t steps_per_epoch) const {
  double rate = base * factor(steps_done, steps_per_epoch);
  if (warm_up_epochs_ > 0) {
    const double steps = std::max(1.0, std::round(warm_up_epochs_ * static_cast<double>(steps_per_epoch)));
    rate *= std::min(static_cast<double>(steps_done + 1) / steps, 1.0);
  }
  return rate;
}

}  // namespace assay
