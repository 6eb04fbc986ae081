// The values of a cell that have a closed list: each enum with its words, as command lines, reports and request.json
// spell them.
#pragma once

#include "harness/core/words.hpp"

namespace assay {

// `infer` of a single op is forward; `train` is forward and backward in one step.
enum class Task { train, infer };
template <>
inline constexpr auto words<Task> = std::array{Word{Task::train, "train"}, Word{Task::infer, "infer"}};

// The named precision policies (harness/graph/passes/precision.hpp). fp64 is the oracle's.
enum class PrecisionKind { fp32, tf32, bf16, fp64 };
template <>
inline constexpr auto words<PrecisionKind> =
    std::array{Word{PrecisionKind::fp32, "fp32"}, Word{PrecisionKind::tf32, "tf32"},
               Word{PrecisionKind::bf16, "bf16"}, Word{PrecisionKind::fp64, "fp64"}};

enum class DeviceKind { cpu, cuda };
template <>
inline constexpr auto words<DeviceKind> =
    std::array{Word{DeviceKind::cpu, "cpu"}, Word{DeviceKind::cuda, "cuda"}};

// Where batches come from: a few that rotate in memory, the batch library, or the framework's own loader.
enum class LoaderKind { resident, harness, native };
template <>
inline constexpr auto words<LoaderKind> =
    std::array{Word{LoaderKind::resident, "resident"}, Word{LoaderKind::harness, "harness"},
               Word{LoaderKind::native, "native"}};

// The state of a single op's operands, or of the caches on disk of a framework's compiler.
enum class CacheState { cold, warm };
template <>
inline constexpr auto words<CacheState> =
    std::array{Word{CacheState::cold, "cold"}, Word{CacheState::warm, "warm"}};

// What a backend is in a mode: a framework; a vendor's library and nothing else; such a library with kernels of our own
// around it; or the judge of the others.
enum class BackendKind { framework, bare, engine, oracle };
template <>
inline constexpr auto words<BackendKind> =
    std::array{Word{BackendKind::framework, "framework"}, Word{BackendKind::bare, "bare"},
               Word{BackendKind::engine, "engine"}, Word{BackendKind::oracle, "oracle"}};

}  // namespace assay
