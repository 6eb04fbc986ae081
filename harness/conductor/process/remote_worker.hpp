// The worker of a rank that a launcher started, as the conductor sees it: assay-rank talks with it on its machine.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/launch.hpp"
#include "harness/conductor/process/rank_files.hpp"

namespace assay {

// For the thread that has the rank's link. It does not end the worker: the end of the link does.
class RemoteWorker {
 public:
  // After Launch::gather(). `taken`: the processors of all ranks on its machine, which assay-rank leaves to them.
  RemoteWorker(Launch& launch, int rank, ConversationPlan plan, const ConversationWatch& watch,
               std::vector<int> taken);

  // As Worker::converse(). The rank gets what is new in its cell folder before, and its new files are in the folder
  // afterwards.
  ConversationResult converse(const std::vector<protocol::Command>& commands, Afterwards afterwards,
                              std::optional<Deadline> deadline);

 private:
  ConversationResult talk(const std::vector<protocol::Command>& commands, Afterwards afterwards);
  void hear(const nlohmann::json& heard);
  void end(const WorkerEnding& why);
  void give_plan();
  void look() const;

  Launch& launch_;
  int rank_;
  Link& link_;
  ConversationPlan plan_;
  ConversationWatch watch_;
  std::vector<int> taken_;
  SentFolder files_;
  bool is_planned_ = false;
  std::optional<Deadline> deadline_;
  std::optional<WorkerEnding> ended_;  // why the rank was told to end
};

// The machine of a rank, and what digest_of() finds there of a backend with this folder and command. Throws Error.
struct RankMachine {
  MachineRecord machine;
  std::map<std::string, std::string> files;
  std::string confined_by;
};
RankMachine machine_of_rank(Launch& launch, int rank, const std::filesystem::path& folder,
                            const std::vector<std::string>& command);

// Of a rank whose connection broke, with what was noticed.
WorkerEnding lost(const std::string& host, std::string_view what);

// Has rank 0 keep a free port of the address, at which the ranks find each other: "10.0.0.1:29400". Throws Error.
std::string keep_port_of_rank_0(Launch& launch, const std::string& address);

}  // namespace assay
