// The values that the replacement of NVML returns.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/temporary_folder.hpp"

namespace assay {

constexpr std::int64_t mebibyte = 1 << 20;

// A GPU on which the worker and process 1 are, at 80 % and 250 W.
inline nlohmann::json scripted_gpu(const std::string& uuid = "GPU-0a") {
  const nlohmann::json worker{{"pid", "worker"}, {"memory", 500 * mebibyte}};
  const nlohmann::json other{{"pid", 1}, {"memory", 100 * mebibyte}};
  return {{"name", "A Card 9000"},
          {"uuid", uuid},
          {"bus", "00000000:65:00.0"},
          {"mig", 0},
          {"persistence", 0},
          {"compute_mode", 3},
          {"sm_limit", 1980},
          {"memory_limit", 2619},
          {"application_clock", 1755},
          {"power_limit", 700'000},
          {"total", 80'000 * mebibyte},
          {"used", 700 * mebibyte},
          {"utilisation", 80},
          {"sm_clock", 1980},
          {"memory_clock", 2619},
          {"power", 251'000},
          {"energy", {{"per_second", 250'000}}},
          {"temperature", 41},
          {"throttle", 1},
          {"processes", {{"list", {worker, other}}}},
          {"graphics", {{"list", nlohmann::json::array()}}}};
}

inline nlohmann::json scripted(nlohmann::json gpus) {
  return {{"driver", "550.54.15"}, {"version", "12.550.54.15"}, {"cuda", 12040}, {"gpus", std::move(gpus)}};
}

// Lets the replacement of this name read the script as long as it lives. It has its own path, so that each
// is another library for code that keeps libraries by their paths.
class FakeNvml {
 public:
  explicit FakeNvml(const nlohmann::json& script, const std::string& name = "fake_nvml") {
    std::ofstream(folder_ / "script.json") << script;
    std::filesystem::create_symlink(std::filesystem::path(FAKE_NVML_FOLDER) / (name + ".so"),
                                    folder_ / "libnvidia-ml.so.1");
    ::setenv("FAKE_NVML", (folder_ / "script.json").c_str(), 1);
    ::setenv("ASSAY_NVML", library().c_str(), 1);
  }
  ~FakeNvml() {
    ::unsetenv("FAKE_NVML");
    ::unsetenv("ASSAY_NVML");
  }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;
  std::string library() const { return folder_ / "libnvidia-ml.so.1"; }

 private:
  TemporaryFolder folder_;
};

}  // namespace assay
