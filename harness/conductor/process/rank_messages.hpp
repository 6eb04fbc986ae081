// What the conductor and assay-rank tell each other. assay-rank is what a launcher such as mpirun starts for each rank: it
// talks with the worker on the worker's machine, so that what is measured next to the worker is of that machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/process/conversation.hpp"
#include "harness/core/json/fields.hpp"

namespace assay {

// Both programs must be of one build.
inline constexpr int rank_protocol = 1;
// Of proof_of().
inline constexpr std::string_view rank_role = "rank", conductor_role = "conductor";

// The conductor begins with a challenge, {"challenge": text}. This is the answer, and {"proof": text} the end of the
// handshake.
struct RankHere {
  int protocol = rank_protocol;
  int rank = 0;
  std::string challenge{}, proof{};
  std::string host{}, boot{};       // the name of its machine, and the id of its boot
  std::vector<int> cores{};         // that it may use; one of each physical core comes first
  std::filesystem::path scratch{};  // its own folder on its machine, which it removes in the end
};
inline Description describe(Of<RankHere>) {
  using T = RankHere;
  return fields("here", "A rank and its machine.", field("protocol", &T::protocol, "Version."),
                field("rank", &T::rank, "Its number."), field("challenge", &T::challenge, "To be answered."),
                field("proof", &T::proof, "Of the key."), field("host", &T::host, "Name of the machine."),
                field("boot", &T::boot, "Id of its boot."), field("cores", &T::cores, "That it may use."),
                field("scratch", &T::scratch, "Its folder."));
}

// Then the conductor asks, and the rank answers each question before the next one, with {"error": text} if it cannot:
//
//   {"ask": "port", "address"}      keeps a free port of rank 0: {"place"}
//   {"ask": "machine", "folder", "command"}  of a backend: {"machine": MachineRecord, "files": digests, "confined_by"}
//   {"ask": "plan", "plan", "taken", "number", "variables"}  of all later conversations, with the processors of all ranks of
//                                   the machine, the rank's number there, and variables for those that it lacks: {"done"}
//   {"ask": "files", "files"}       what the cell folder must have (rank_files.hpp): {"done"}
//   {"ask": "talk", ...}            a conversation (Talk): {"told"}, and the files that are new, after any number of
//                                   {"heard"}; the only question that is not awaited is then {"ask": "end", "code", "reason"}
//
// The rank ends its worker and itself when the connection ends.

// A part of a worker's conversation.
struct Talk {
  std::vector<protocol::Command> commands{};
  Afterwards afterwards = Afterwards::stay;
  std::optional<double> seconds{};  // until the deadline
  ReasonCode late = ReasonCode::quick_time_spent;
};
nlohmann::json to_json(const Talk& talk);
// Throws JsonError.
Talk talk_of(const nlohmann::json& json);

nlohmann::json to_json(const ConversationPlan& plan);
ConversationPlan plan_of(const nlohmann::json& json);

// `last_heard` is told as how long it is ago, because each machine has a clock of its own.
nlohmann::json to_json(const ConversationResult& result);
ConversationResult result_of(const nlohmann::json& json);

}  // namespace assay
