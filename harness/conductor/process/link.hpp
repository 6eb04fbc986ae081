// Messages between the conductor and a rank on another machine, over TCP.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/process/worker_process.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {

// The other end of a connection is gone.
class LinkBroken : public Error {
 public:
  using Error::Error;
};

// A conversation or a transfer that must not go on; thrown by what Link::watch() was given.
struct LinkEnded {
  WorkerEnding ending;
};

// One end of a connection. A message is a JSON object with bytes: two numbers of 4 and 8 bytes (big-endian), the lengths
// of both, and then both. Whoever vanishes without a word is noticed within about 15 s. One thread sends and receives;
// shut_down() may be called by any thread.
class Link {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t max_json = std::size_t{64} << 20, max_bytes = std::size_t{8} << 20;
  // Until trust(): nobody knows yet who is at the other end.
  static constexpr std::size_t max_of_stranger = std::size_t{64} << 10;

  struct Message {
    nlohmann::json json;  // an object
    std::vector<std::byte> bytes;
  };

  explicit Link(Descriptor socket);

  int descriptor() const { return socket_.get(); }  // to poll
  // Is called several times a second while a message is waited for, and may throw. Empty: nothing is.
  void watch(std::function<void()> look) { look_ = std::move(look); }
  // How long the other end may take nothing and say nothing, in seconds: an end that writes to a slow disk needs more.
  void allow_silence(int seconds);
  static constexpr int usual_silence = 15, silence_with_files = 120;
  void trust() { is_trusted_ = true; }
  // False: the other end is gone, or took nothing for too long. What is not UTF-8 is replaced.
  bool send(const nlohmann::json& json, std::span<const std::byte> bytes = {});
  // Waits until a whole message is there. nullopt: the other end is gone, sent something else, or nothing in time.
  std::optional<Message> receive(std::optional<Clock::time_point> latest = {});
  // The same for an answer. Throws LinkBroken with `what` if there is none, and Error with the text of {"error": text}.
  Message answer(Clock::time_point latest, const char* what);
  // Ends the connection for both ends; the descriptor stays.
  void shut_down();

  // The IPv4 addresses of both ends: "10.0.0.1". Empty if they are unknown.
  std::string own_address() const;
  std::string peer_address() const;

 private:
  bool put(std::span<const std::byte> bytes);
  bool is_ready(short what, std::optional<Clock::time_point> latest) const;
  bool take(std::span<std::byte> bytes, std::optional<Clock::time_point> latest);

  Descriptor socket_;
  std::function<void()> look_;
  int silence_seconds_ = usual_silence;
  bool is_trusted_ = false;
};

// Listens at a free port of all IPv4 addresses of this machine. Throws std::system_error.
struct Listener {
  Descriptor socket;
  int port = 0;
};
Listener listen_on_all();

// The IPv4 addresses of this machine at which others may reach it, and 127.0.0.1 as the last one.
std::vector<std::string> own_addresses();

// A connection to "10.0.0.1", made within `patience`; none if there is nobody.
Descriptor connect_to(const std::string& address, int port, std::chrono::milliseconds patience);

// Both ends prove that they have the key without sending it: each sends a challenge, and the other one answers with the
// digest of key, challenge and its own role, so that no answer serves the other way round.
std::string random_key();
std::string proof_of(std::string_view key, std::string_view challenge, std::string_view role);

}  // namespace assay
