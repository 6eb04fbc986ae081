// Cell values with a closed list: each enum with its words, as command lines, reports and request.json spell
// them.
#pragma once

#include <cstdint>

#include "harness/core/words.hpp"

namespace assay {

// The most classes of a data set, its own or those of --classes.
inline constexpr std::int64_t max_classes = 1'000'000;

// For a single op, `infer` is the forward pass; `train` is forward and backward in one step. `decode`: a step
// generates the tokens of a batch of samples, one after the other.
enum class Task { train, infer, decode };
template <>
inline constexpr auto words<Task> =
    std::array{Word{Task::train, "train"}, Word{Task::infer, "infer"}, Word{Task::decode, "decode"}};

// What a program computes: the layers of a network, or one op at one size.
enum class ProgramKind { network, op };
template <>
inline constexpr auto words<ProgramKind> =
    std::array{Word{ProgramKind::network, "network"}, Word{ProgramKind::op, "op"}};

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

// Source of the batches: a few that rotate in memory, the batch library, or the framework's own loader.
enum class LoaderKind { resident, harness, native };
template <>
inline constexpr auto words<LoaderKind> =
    std::array{Word{LoaderKind::resident, "resident"}, Word{LoaderKind::harness, "harness"},
               Word{LoaderKind::native, "native"}};

// The initial values that the layers of a framework have if a user asks for none; glorot_normal: kernels and
// biases from Glorot's normal distribution, which is not a default of any framework.
enum class InitialScheme { keras, gluon, torch, glorot_normal };
template <>
inline constexpr auto words<InitialScheme> =
    std::array{Word{InitialScheme::keras, "keras"}, Word{InitialScheme::gluon, "gluon"},
               Word{InitialScheme::torch, "torch"}, Word{InitialScheme::glorot_normal, "glorot_normal"}};

// State of a single op's operands, or of the on-disk caches of a framework's compiler.
enum class CacheState { cold, warm };
template <>
inline constexpr auto words<CacheState> =
    std::array{Word{CacheState::cold, "cold"}, Word{CacheState::warm, "warm"}};

// The kind of a backend in a mode: a framework; a runtime, which only infers; only a vendor's library; such a library
// with our own kernels around it; or the oracle that judges the others.
enum class BackendKind { framework, runtime, bare, engine, oracle };
template <>
inline constexpr auto words<BackendKind> =
    std::array{Word{BackendKind::framework, "framework"}, Word{BackendKind::runtime, "runtime"},
               Word{BackendKind::bare, "bare"}, Word{BackendKind::engine, "engine"},
               Word{BackendKind::oracle, "oracle"}};
// Whether its users take it whole, with a graph, a scheduler and an allocator of its own: what that costs over a bare
// library is its tax.
constexpr bool is_product(BackendKind kind) {
  return kind == BackendKind::framework || kind == BackendKind::runtime;
}

}  // namespace assay
