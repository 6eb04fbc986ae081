#include "harness/worker/server.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <new>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/cell_file.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/graph/program.hpp"
#include "harness/worker/backend.hpp"
#include "harness/worker/exam.hpp"
#include "harness/worker/exchange_times.hpp"
#include "harness/worker/loaded_libraries.hpp"
#include "harness/worker/reset.hpp"
#include "harness/worker/supply.hpp"
#include "harness/worker/trainer.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

Program read_program(const std::filesystem::path& file) {
  return read_cell_json("worker", file, [](const nlohmann::json& json) { return program_from_json(json); });
}

CompileOptions compile_options(const CellRequest& request) {
  return {.task = request.task,
          .mode = request.mode,
          .device = request.device,
          .layout = request.layout,
          .precision = precision_of(request.precision),
          .threads = request.threads,
          .seed = request.seed,
          .deterministic = request.deterministic,
          .memory_fraction = request.memory_fraction.value_or(0),
          .memory_cap = request.memory_cap_bytes.value_or(0),
          .profile = request.profile,
          .rank = request.rank,
          .world = request.world};
}

OracleOptions oracle_options(const OracleRequest& request) {
  return {.emulated = precision_of(request.precision),
          .perturbations = request.perturbations,
          .seed = request.seed,
          .slices = request.slices};
}

protocol::Hello hello(const BackendInfo& info) {
  protocol::Hello hello;
  hello.backend = info.name;
  hello.version_of_backend = info.version;
  hello.libraries = with_loaded_libraries(info.libraries);
  hello.settings = info.settings;
  return hello;
}

protocol::Error failure(protocol::ErrorKind kind, const std::exception& error) {
  return {kind, error.what()};
}

// Without the running statistics if there are several ranks: each has its own.
std::vector<HostTensor> common_state(std::vector<HostTensor> state, const Program& program, int world) {
  if (world > 1) {
    std::erase_if(state, [&](const HostTensor& tensor) {
      const ValueId value = program.inference.find(tensor.name);
      return value != none && program.inference.value(value).role == Role::state;
    });
  }
  return state;
}

std::string digest(std::vector<HostTensor> state) {
  std::sort(state.begin(), state.end(),
            [](const HostTensor& a, const HostTensor& b) { return a.name < b.name; });
  Sha256 sum;
  for (const HostTensor& tensor : state) {
    sum.add(tensor.name);
    sum.add(std::span<const std::byte>(tensor.bytes));
  }
  return sum.finish();
}

// A failure is a reason, too: it must not cost the fork, whose steps are timed and examined.
protocol::DeviceTimed time_device(Executable& executable) {
  try {
    DeviceTimes times = executable.device_times();
    return {.steps = times.steps, .step_seconds = std::move(times.step_seconds)};
  } catch (const Unsupported& error) {
    return {.reason = error.what()};
  } catch (const std::exception& error) {
    return {.reason = fmt::format("[time_device] failed: {}", error.what())};
  }
}

}  // namespace

void Server::serve() {
  send(hello(backend_.info()));
  for (;;) {
    const protocol::Line line = channel_.read_line();
    if (line.reading == protocol::Reading::end || line.reading == protocol::Reading::truncated) return;
    if (line.reading == protocol::Reading::too_long) {
      return send(protocol::Error{protocol::ErrorKind::failed, "[worker] got a command that does not end"});
    }
    protocol::Event event;
    try {
      event = answer(protocol::parse_command(line.text));
    } catch (const Unsupported& error) {
      event = failure(protocol::ErrorKind::unsupported, error);
    } catch (const Unavailable& error) {
      event = failure(protocol::ErrorKind::unavailable, error);
    } catch (const std::bad_alloc& error) {
      event = failure(protocol::ErrorKind::out_of_memory, error);
    } catch (const std::runtime_error& error) {
      event = failure(protocol::ErrorKind::failed, error);
    } catch (const std::exception& error) {
      event = protocol::Error{protocol::ErrorKind::failed, internal_error(error)};
    }
    send(event);
    if (std::holds_alternative<protocol::Bye>(event)) return;
  }
}

protocol::Event Server::answer(const protocol::Command& command) {
  switch (command.verb) {
    case protocol::Verb::compile:
      return compile();
    case protocol::Verb::run:
      return run();
    case protocol::Verb::verify:
      require_compiled();
      write_exam_results(*executable_, *program_, trained_, folder_);
      return protocol::Verified{};
    case protocol::Verb::restart:
      require_compiled();
      request_ = read_request(folder_ / "request.json");  // whether this run's state is handed over
      parameters_ = read_safetensors(folder_ / "parameters.safetensors");
      executable_->set_state(parameters_);
      require_reset();
      return protocol::Restarted{};
    case protocol::Verb::exchange:
      require_compiled();
      return exchange_times(*executable_);
    case protocol::Verb::time_device:
      require_compiled();
      return time_device(*executable_);
    case protocol::Verb::oracle:
      prepare();
      if (!request_->oracle)
        throw CellError("[oracle] request.json has no \"oracle\": this is not a cell of the oracle");
      write_oracle_results(backend_, *program_, options_, oracle_options(*request_->oracle), folder_);
      return protocol::Judged{};
    case protocol::Verb::quit:
      break;
  }
  return protocol::Bye{};
}

void Server::prepare() {
  if (!request_) {
    request_ = read_request(folder_ / "request.json");
    options_ = compile_options(*request_);
  }
  if (!program_) program_ = std::make_unique<Program>(read_program(folder_ / "graph.json"));
}

protocol::Event Server::compile() {
  prepare();
  parameters_ = read_safetensors(folder_ / "parameters.safetensors");
  if (options_.world > 1 && !backend_.has_ranks())
    throw Unsupported("[ranks] this backend trains alone; use --ranks 1");
  if (std::string reason = backend_.unsupported(*program_, options_); !reason.empty())
    throw Unsupported(reason);
  const auto start = Clock::now();
  executable_.reset();
  executable_ = backend_.compile(*program_, options_);
  executable_->set_state(parameters_);
  if (request_->clock) first_step();
  protocol::Compiled compiled{seconds_since(start), backend_.info().settings, executable_->memory()};
  if (request_->clock) require_reset();
  compiled.memory["installed_size"] = loaded_bytes();
  return compiled;
}

// Runs one step on a batch of zeros, so that libraries do their first-use work now; then restores the state.
void Server::first_step() {
  // Zeros for both types.
  const Graph& graph = program_->graph(options_.task);
  std::vector<std::uint32_t> inputs(static_cast<std::size_t>(input_elements(graph)));
  std::vector<std::int32_t> labels;
  for (const Value& value : graph.values()) {
    if (value.role == Role::label) labels.resize(static_cast<std::size_t>(value.type.elements()));
  }
  executable_->stage(0, {inputs.data(), labels.data()});
  executable_->step(0, 0, 1);
  executable_->synchronize();
  executable_->set_state(parameters_);
}

void Server::require_reset() {
  if (!program_->trains(options_.task)) return;
  reject_moments(executable_->state(), program_->moments(), parameters_);
}

Timed Server::timed() const {
  if (program_->is_op()) return Timed::op;
  switch (options_.task) {
    case Task::train:
      break;
    case Task::infer:
      return Timed::inference;
    case Task::decode:
      return Timed::decoding;
  }
  return Timed::training;
}

protocol::Event Server::run() {
  require_compiled();
  Supply supply(folder_);
  if (options_.world > 1) supply.set_agree([this](std::int64_t value) { return executable_->agree(value); });
  // Sends a few messages each second, however short the blocks are.
  Clock::time_point told;
  const auto tell = [this, &told](std::int64_t done, std::int64_t planned) {
    const auto now = Clock::now();
    if (done < planned && now - told < std::chrono::milliseconds(200)) return;
    told = now;
    send(protocol::Progress{done, planned});
  };
  trained_ = train(*executable_, supply, timed(), tell, program_->generated());
  supply.close();
  protocol::Memory memory = executable_->memory();  // before the results are copied
  std::vector<HostTensor> left = program_->is_op() ? executable_->results() : executable_->state();
  if (request_->hand_over) write_safetensors(folder_ / "results/state.safetensors", left);
  // The results of a single op are the state after a run: read them here, so that no caller can skip it.
  protocol::Ran ran{
      std::move(memory),
      backend_.info().settings,
      {},
      digest(program_->is_op() ? std::move(left) : common_state(std::move(left), *program_, options_.world))};
  if (options_.profile) ran.operators = executable_->operator_times();
  return ran;
}

void Server::require_compiled() const {
  if (executable_) return;
  throw protocol::ProtocolError("[worker] got a command before the program was compiled: send compile first");
}

void Server::send(const protocol::Event& event) { channel_.write_line(protocol::write(event)); }

namespace {

constexpr int commands = 3;
constexpr int events = 4;

}  // namespace

int worker_main(int argc, char** argv, Backend& backend) {
  if (argc != 2) {
    fmt::print(stderr,
               "usage: {} CELL_FOLDER\nWorkers are started by assay; see docs/reference/protocol.md.\n",
               argv[0]);
    return 2;
  }
  if (::fcntl(commands, F_GETFD) < 0 || ::fcntl(events, F_GETFD) < 0) {
    fmt::print(
        stderr,
        "{}: descriptors {} and {} are not open. Workers are started by assay; see docs/reference/protocol.md.\n",
        argv[0], commands, events);
    return 2;
  }
  try {
    protocol::Channel channel(commands, events);
    Server(argv[1], backend, channel).serve();
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], internal_error(error));
    return 1;
  }
  return 0;
}

}  // namespace assay
