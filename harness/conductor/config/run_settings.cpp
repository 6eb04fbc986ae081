#include "harness/conductor/config/run_settings.hpp"

#include <algorithm>

#include "harness/conductor/config/worker_variables.hpp"

namespace assay {

RunSettings settings_of(const RunConfig& config) {
  RunSettings settings;
  settings.forks = static_cast<int>(integer_of(config.values, "forks"));
  // One or two forks are a test that it works, so they get no spare rounds.
  settings.spare_rounds = config.values.contains("spare-rounds")
                              ? static_cast<int>(integer_of(config.values, "spare-rounds"))
                          : settings.forks < 3 ? 0
                                               : settings.forks;
  settings.until = text_of(config.values, "until") == "clear" ? Until::clear : Until::forks;
  settings.fork_style =
      text_of(config.values, "fork-style") == "resident" ? ForkStyle::resident : ForkStyle::fresh;
  settings.exams = static_cast<int>(integer_of(config.values, "exams"));
  settings.examine_all = text_of(config.values, "examine") == "all";
  settings.max_seconds = duration_of(config.values, "max-time");
  settings.seed = static_cast<std::uint64_t>(integer_of(config.values, "seed"));
  settings.seed_per_round = flag_of(config.values, "seed-per-round");
  settings.time_limit = number_of(config.values, "time-limit");
  settings.quick = flag_of(config.values, "quick");
  settings.profile = flag_of(config.values, "profile");
  settings.roofline = text_of(config.values, "roofline");
  for (const std::string& folder : list_of(config.values, "data")) settings.data.emplace_back(folder);
  settings.weights = text_of(config.values, "weights");
  settings.environment = parse_environment(list_of(config.values, "environment"));
  if (settings.quick) {
    settings.until = Until::forks;
    settings.spare_rounds = 0;
    // Without a config the user gave every value.
    const bool asked = config.name.empty() && config.values.contains("forks");
    if (!asked) settings.forks = std::min(settings.forks, 1);  // 0 stays: nothing is executed
  }
  return settings;
}

}  // namespace assay
