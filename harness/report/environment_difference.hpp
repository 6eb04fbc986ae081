// The machine of a report, as a short key for baselines and calibrations, and whether two reports come from
// comparable machines and libraries.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Twelve hexadecimal digits of the stable properties that times depend on: the hard fields of machine_differences(),
// except for measured ones. Never a host name, a frequency or an uptime: they make one machine look like many. Nothing if
// the processor is unknown: two unknown machines are not the same one.
std::optional<std::string> machine_fingerprint(const MachineRecord& machine);

// The machine that the cell ran on: the report's, or of a merged report the one that the cell names.
const MachineRecord& machine_of(const Report& report, const CellReport& cell);
// All machines of the report: one, or those of a merged report.
std::vector<const MachineRecord*> machines_of(const Report& report);
// The fingerprint that all machines of the report share; nothing if they differ or one is unknown.
std::optional<std::string> shared_fingerprint(const Report& report);

// "12 CPUs of an Intel(R) Xeon(R) ...": for people.
std::string machine_text(const MachineRecord& machine);

enum class DifferenceKind {
  processor,  // which one it is
  speed,      // measured, of a fixed loop
  cpus,       // how many of them may be used
  gpu,
  driver,      // of the GPUs
  libraries,   // a framework's or vendor's version, or the system's
  fork_style,  // whether forks share a process
  system       // the rest: a warning
};

struct EnvironmentDifference {
  std::string what;  // "the processor", "the version of onednn: oneDNN"
  std::string base, current;
  bool hard = false;  // true: the times are not comparable; false: a warning
  DifferenceKind kind = DifferenceKind::system;
  std::string backend{}, library{};  // of kind `libraries`
  bool operator==(const EnvironmentDifference&) const = default;
};

// Where a library that a worker loaded is from.
enum class LibraryOrigin {
  under_test,  // this project's, or the backend's own: what a comparison is about
  given,       // a framework, a vendor's library, a math library, an OpenMP runtime
  system       // what every program needs: the C library and its like
};
// Reports of earlier versions do not mark those under test; there the name decides.
LibraryOrigin origin_of(const protocol::Library& library);

// Hard: the processor (vendor, family, model, stepping, instruction sets, caches), the number of processors that may be
// used, the GPUs, a measured speed that differs by over 15 %, the version of a backend or of a given library that a cell
// of both reports loaded, the fork style, and the GPUs' driver if a cell of both ran on cuda. Soft: kernel, microcode,
// governor, system libraries, whether the build was dirty, and a field that a report of an earlier version does not have.
// A library under test is not a difference. A machine that does not know its processor is not the same as any other. For
// a merged report the machines of every two cells with the same id are compared. Threads and precision are axes: cells
// that differ in them have different ids and are never paired.
std::vector<EnvironmentDifference> environment_differences(const Report& base, const Report& current);

// What ran, by name: the versions of backends and libraries, the driver of GPUs that ran a cell, the commit of the
// program, and whether its sources had changes.
std::map<std::string, std::string> software_of(const Report& report);

// Differences of the machines only. Every comparison of machines uses it: of
// reports, baselines, calibrations, remembered searches for the best mode, and of a report with the machine that resumes
// it. Either side may be a machine_identity().
std::vector<EnvironmentDifference> machine_differences(const MachineRecord& base,
                                                       const MachineRecord& current);
// The first hard one of them.
std::optional<EnvironmentDifference> other_machine(const MachineRecord& then, const MachineRecord& now);
// The part of a machine that machine_differences() looks at: what a file keeps in order to know its machine again.
MachineRecord machine_identity(const MachineRecord& machine);
// How many times as long a fixed loop takes on the second machine; nothing if one of them did not measure it.
std::optional<double> loop_ratio(const MachineRecord& base, const MachineRecord& current);

}  // namespace assay
