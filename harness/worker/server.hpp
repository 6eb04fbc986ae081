// The worker's side of docs/reference/protocol.md for one cell folder.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "harness/protocol/channel.hpp"
#include "harness/protocol/message.hpp"
#include "harness/protocol/request.hpp"
#include "harness/worker/backend.hpp"
#include "harness/worker/trainer.hpp"

namespace assay {

// Borrows the backend and the channel. Used from one thread.
class Server {
 public:
  Server(std::filesystem::path cell_folder, Backend& backend, protocol::Channel& channel)
      : folder_(std::move(cell_folder)), backend_(backend), channel_(channel) {}

  // Sends hello and answers commands until quit or the end of the channel. A failure becomes an error event;
  // throws only the exceptions of the channel.
  void serve();

 private:
  protocol::Event answer(const protocol::Command& command);
  protocol::Event compile();
  protocol::Event run();
  Timed timed() const;
  void prepare();
  void first_step();
  void require_reset();  // after set_state() without moments
  void require_compiled() const;
  void send(const protocol::Event& event);

  std::filesystem::path folder_;
  Backend& backend_;
  protocol::Channel& channel_;
  std::optional<CellRequest> request_;
  CompileOptions options_;
  std::unique_ptr<Program> program_;
  std::vector<HostTensor> parameters_;
  std::unique_ptr<Executable> executable_;
  std::optional<Trained> trained_;  // what the last run left
};

}  // namespace assay
