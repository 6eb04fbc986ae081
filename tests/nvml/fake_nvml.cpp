// A replacement of NVIDIA's management library that returns the values of a script: the JSON file that
// $FAKE_NVML names, {"init": code, "driver", "version", "cuda", "gpus": [{field: value}]}. A value is a
// number, {"error": code}, for the energy {"per_second": n}, or a list of such for one call after the other,
// whose last one stays; a field that is not there is not supported. The process "worker" is the caller's
// first child. Structs are written byte by byte, after the NVML API Reference Guide, so that they check what
// is read. FAKE_NVML_PROCESSES: the version of the functions that list processes (3: with the longer struct
// of driver 535.43). FAKE_NVML_OLD: without what newer drivers added.
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

constexpr int not_supported = 3, insufficient_size = 7, invalid_argument = 2;

// Read again at each nvmlInit_v2, because a library may stay loaded when it is closed.
Json& script() {
  static Json read;
  return read;
}
std::map<std::string, std::size_t>& calls() {
  static std::map<std::string, std::size_t> made;
  return made;
}

// The handle of GPU i is i + 1.
std::size_t index_of(const void* device) { return reinterpret_cast<std::size_t>(device) - 1; }

// The result of the next call.
Json next(const void* device, const std::string& field) {
  const Json& gpu = script()["gpus"][index_of(device)];
  if (!gpu.contains(field)) return {{"error", not_supported}};
  const Json& value = gpu[field];
  if (!value.is_array()) return value;
  std::size_t& call = calls()[std::to_string(index_of(device)) + field];
  return value[std::min(call++, value.size() - 1)];
}

int error_of(const Json& value) { return value.is_object() ? value.value("error", 0) : 0; }

template <typename T>
int number(const void* device, const char* field, T* out) {
  const Json value = next(device, field);
  if (const int error = error_of(value)) return error;
  *out = value.get<T>();
  return 0;
}

int text(const Json& value, char* out, unsigned length) {
  if (const int error = error_of(value)) return error;
  const auto said = value.get<std::string>();
  if (said.size() + 1 > length) return insufficient_size;
  std::memcpy(out, said.c_str(), said.size() + 1);
  return 0;
}

template <typename T>
void put(void* out, std::size_t offset, T value) {
  std::memcpy(static_cast<char*>(out) + offset, &value, sizeof value);
}

unsigned first_child() {
  const std::string tasks = "/proc/" + std::to_string(::getpid()) + "/task";
  unsigned child = 0;
  if (DIR* open = ::opendir(tasks.c_str())) {
    while (const dirent* thread = ::readdir(open)) {
      std::ifstream list(tasks + "/" + thread->d_name + "/children");
      if (child == 0 && thread->d_name[0] != '.') list >> child;
    }
    ::closedir(open);
  }
  return child;
}

int processes(const void* device, const char* field, unsigned* count, void* out, std::size_t stride) {
  const Json value = next(device, field);
  if (const int error = error_of(value)) return error;
  const unsigned room = *count;
  *count = static_cast<unsigned>(value.at("list").size());
  if (*count > room) return insufficient_size;
  std::size_t at = 0;
  for (const Json& process : value["list"]) {
    const bool worker = process["pid"] == "worker";
    put(out, at, worker ? first_child() : process["pid"].get<unsigned>());
    put(out, at + 8,
        process["memory"].is_null() ? ~std::uint64_t{0} : process["memory"].get<std::uint64_t>());
    if (stride >= 24) put(out, at + 16, ~std::uint64_t{0});  // no instances: two times 0xffffffff
    if (stride >= 32) put(out, at + 24, std::uint64_t{0});
    at += stride;
  }
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* named = std::getenv("FAKE_NVML");
  std::ifstream file(named ? named : "");
  script() = file ? Json::parse(file) : Json::object();
  calls().clear();
  return script().value("init", 0);
}
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) {
  switch (code) {
    case not_supported:
      return "Not Supported";
    case 9:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    case 18:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* out, unsigned length) { return text(script()["driver"], out, length); }
int nvmlSystemGetNVMLVersion(char* out, unsigned length) { return text(script()["version"], out, length); }
int nvmlSystemGetCudaDriverVersion(int* out) {
  *out = script().value("cuda", 0);
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(script()["gpus"].size());
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= script()["gpus"].size()) return invalid_argument;
  *device = reinterpret_cast<void*>(std::size_t{index} + 1);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (std::size_t i = 0; i < script()["gpus"].size(); ++i)
    if (script()["gpus"][i]["uuid"] == uuid) {
      *device = reinterpret_cast<void*>(i + 1);
      return 0;
    }
  return 6;
}

int nvmlDeviceGetName(void* device, char* out, unsigned length) {
  return text(next(device, "name"), out, length);
}
int nvmlDeviceGetUUID(void* device, char* out, unsigned length) {
  return text(next(device, "uuid"), out, length);
}
int nvmlDeviceGetPciInfo_v3(void* device, void* out) {
  return text(next(device, "bus"), static_cast<char*>(out) + 36, 32);
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *pending = 0;
  return number(device, "mig", current);
}
// The instances of a GPU are numbers of other GPUs of the script; null is a place without one.
int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  *count = static_cast<unsigned>(script()["gpus"][index_of(device)].value("instances", Json::array()).size());
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned place, void** instance) {
  const Json number = script()["gpus"][index_of(device)]["instances"][place];
  if (number.is_null()) return 6;
  *instance = reinterpret_cast<void*>(number.get<std::size_t>() + 1);
  return 0;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* instance, void** device) {
  const Json& gpus = script()["gpus"];
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (const Json& number : gpus[i].value("instances", Json::array())) {
      if (number.is_null() || number.get<std::size_t>() != index_of(instance)) continue;
      *device = reinterpret_cast<void*>(i + 1);
      return 0;
    }
  }
  return invalid_argument;
}
int nvmlDeviceGetPersistenceMode(void* device, int* out) { return number(device, "persistence", out); }
int nvmlDeviceGetComputeMode(void* device, int* out) { return number(device, "compute_mode", out); }
int nvmlDeviceGetMaxClockInfo(void* device, int clock, unsigned* out) {
  return number(device, clock == 1 ? "sm_limit" : "memory_limit", out);
}
int nvmlDeviceGetApplicationsClock(void* device, int, unsigned* out) {
  return number(device, "application_clock", out);
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* out) {
  return number(device, "power_limit", out);
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned* out) {
  out[1] = 0;
  return number(device, "utilisation", out);
}
int nvmlDeviceGetMemoryInfo(void* device, std::uint64_t* out) {
  const int error = number(device, "used", out + 2);
  out[0] = script()["gpus"][index_of(device)].value("total", std::uint64_t{0});
  out[1] = out[0] - out[2];
  return error;
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* out) {
  return number(device, clock == 1 ? "sm_clock" : "memory_clock", out);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* out) { return number(device, "power", out); }
int nvmlDeviceGetTemperature(void* device, int, unsigned* out) { return number(device, "temperature", out); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, std::uint64_t* out) {
  return number(device, "throttle", out);
}

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetMemoryInfo_v2(void* device, void* out) {
  unsigned version = 0;
  std::memcpy(&version, out, sizeof version);
  if (version != 0x02000028) return 25;
  std::uint64_t used = 0;
  const int error = number(device, "used", &used);
  const std::uint64_t total = script()["gpus"][index_of(device)].value("total", std::uint64_t{0});
  put(out, 8, total);
  put(out, 16, std::uint64_t{0});
  put(out, 24, total - used);
  put(out, 32, used);
  return error;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, std::uint64_t* out) {
  const Json value = next(device, "energy");
  if (const int error = error_of(value)) return error;
  if (value.is_number()) {
    *out = value.get<std::uint64_t>();
    return 0;
  }
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const double seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  *out = static_cast<std::uint64_t>(value.at("per_second").get<double>() * seconds);
  return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device, std::uint64_t* out) {
  return number(device, "throttle", out);
}
#endif

#if FAKE_NVML_PROCESSES == 1
#define COMPUTE nvmlDeviceGetComputeRunningProcesses
#define GRAPHICS nvmlDeviceGetGraphicsRunningProcesses
constexpr std::size_t process_bytes = 16;
#elif FAKE_NVML_PROCESSES == 2
#define COMPUTE nvmlDeviceGetComputeRunningProcesses_v2
#define GRAPHICS nvmlDeviceGetGraphicsRunningProcesses_v2
constexpr std::size_t process_bytes = 24;
#else
#define COMPUTE nvmlDeviceGetComputeRunningProcesses_v3
#define GRAPHICS nvmlDeviceGetGraphicsRunningProcesses_v3
constexpr std::size_t process_bytes = 32;
#endif
int COMPUTE(void* device, unsigned* count, void* out) {
  return processes(device, "processes", count, out, process_bytes);
}
int GRAPHICS(void* device, unsigned* count, void* out) {
  return processes(device, "graphics", count, out, process_bytes);
}
}
