#include "harness/conductor/process/rank_messages.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "harness/conductor/process/steady_time.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/report/report_fields.hpp"

namespace assay {

template <>
inline constexpr auto words<Afterwards> = std::array{
    Word{Afterwards::quit, "quit"}, Word{Afterwards::stop, "stop"}, Word{Afterwards::stay, "stay"}};

inline Description describe(Of<Talk>) {
  using T = Talk;
  return fields("talk", "A part of a conversation.", field("commands", &T::commands, "In this order."),
                field("afterwards", &T::afterwards, "What the worker does then."),
                field("seconds", &T::seconds, "Until its latest end."),
                field("late", &T::late, "Whose limit that is."));
}

inline Description describe(Of<Confinement>) {
  using T = Confinement;
  return fields("confinement", "See confinement.hpp.", field("unreadable", &T::unreadable, "Folders."),
                field("unwritable", &T::unwritable, "Folders."), field("own", &T::own, "Folders."),
                field("connects", &T::connects, "Whether it uses TCP."));
}

inline Description describe(Of<WorkerStart>) {
  using T = WorkerStart;
  return fields("worker", "See worker_process.hpp.", field("command", &T::command, "Program and arguments."),
                field("cell_folder", &T::cell_folder, "Where it works."),
                field("cores", &T::cores, "Affinity."), field("environment", &T::environment, "Variables."),
                field("confinement", &T::confinement, "What it may reach."),
                field("folders", &T::folders, "Made before it starts."));
}

inline Description describe(Of<CudaVisibility>) {
  using T = CudaVisibility;
  return fields("cuda", "What chooses its GPU.", field("devices", &T::devices, "CUDA_VISIBLE_DEVICES."),
                field("order", &T::order, "CUDA_DEVICE_ORDER."));
}

inline Description describe(Of<ConversationPlan>) {
  using T = ConversationPlan;
  return fields("plan", "See conversation.hpp.", field("worker", &T::worker, "What is started."),
                field("backend", &T::backend, "That must answer."),
                field("phase_seconds", &T::phase_seconds, "Limit of each command."),
                field("quit_seconds", &T::quit_seconds, "Limit of its end."),
                field("sample_seconds", &T::sample_seconds, "Between samples."),
                field("cuda", &T::cuda, "For its GPU."),
                field("placed", &T::placed, "Processors to look at."));
}

inline Description describe(Of<RunSpan>) {
  return fields("span", "Of CLOCK_MONOTONIC.", field("begin_ns", &RunSpan::begin_ns, "Begin."),
                field("end_ns", &RunSpan::end_ns, "End."));
}

inline Description describe(Of<Standstill>) {
  using T = Standstill;
  return fields("standstill", "See standstill.hpp.", field("begin_ns", &T::begin_ns, "Begin."),
                field("end_ns", &T::end_ns, "End."), field("seconds", &T::seconds, "How long."));
}

inline Description describe(Of<WorkerExit>) {
  using T = WorkerExit;
  return fields("exit", "See child.hpp.", field("code", &T::code, "Exit code."),
                field("signal", &T::signal, "That killed it."), field("peak_rss", &T::peak_rss, "Bytes."),
                field("cpu_seconds", &T::cpu_seconds, "Of it and its children."),
                field("outlasted", &T::outlasted, "Its end was too late."),
                field("is_lost", &T::is_lost, "Nobody knows how."));
}

inline Description describe(Of<ConversationResult>) {
  using T = ConversationResult;
  return fields(
      "result", "See conversation.hpp.", field("status", &T::status, "How it ended."),
      field("reason", &T::reason, "Why."), field("reason_code", &T::reason_code, "Of it."),
      field("failed_at", &T::failed_at, "The command."), field("log_tail", &T::log_tail, "Last lines."),
      field("hello", &T::hello, "Its answer."), field("compiled", &T::compiled, "Its answer."),
      field("ran", &T::ran, "Its answer."), field("exchanged", &T::exchanged, "Its answer."),
      field("device_timed", &T::device_timed, "Its answer."),
      field("samples", &T::samples, "During the run.").in_columns(), field("gpu", &T::gpu, "Its GPU."),
      field("start_seconds", &T::start_seconds, "To its hello."),
      field("quit_seconds", &T::quit_seconds, "Of its end."),
      field("ran_between", &T::ran_between, "Of the run."),
      field("stepped_between", &T::stepped_between, "Of its progress."),
      field("run_cpu_ns", &T::run_cpu_ns, "Of its process."),
      field("run_disturbance", &T::run_disturbance, "By others."),
      field("run_others_ns", &T::run_others_ns, "Of others."),
      field("placement", &T::placement, "Of its cores."),
      field("run_waited_ns", &T::run_waited_ns, "For a processor."),
      field("quota_stopped_ns", &T::quota_stopped_ns, "By a quota."),
      field("strayed_to", &T::strayed_to, "A processor."),
      field("confined_to", &T::confined_to, "Processors."),
      field("standstills", &T::standstills, "During the run."),
      field("used_at_end", &T::used_at_end, "Processors."), field("exit", &T::exit, "How it ended."),
      field("peak_rss", &T::peak_rss, "Bytes."), field("start_rss", &T::start_rss, "Bytes."));
}

using Json = nlohmann::json;

Json to_json(const Talk& talk) { return encode(talk); }
Talk talk_of(const Json& json) { return decoded<Talk>(json, "talk"); }

Json to_json(const ConversationPlan& plan) { return encode(plan); }
ConversationPlan plan_of(const Json& json) { return decoded<ConversationPlan>(json, "plan"); }

Json to_json(const ConversationResult& result) {
  Json json = encode(result);
  for (const auto& [verb, seconds] : result.command_seconds)
    json["command_seconds"][std::string(to_string(verb))] = seconds;
  json["heard_ago"] =
      result.last_heard.time_since_epoch().count() == 0 ? 0 : seconds_since(result.last_heard);
  return json;
}

ConversationResult result_of(const Json& json) {
  using Clock = std::chrono::steady_clock;
  auto result = decoded<ConversationResult>(json, "result");
  std::map<std::string, double> command_seconds;
  double ago = 0;
  if (const auto told = json.find("command_seconds"); told != json.end())
    decode(*told, command_seconds, "command_seconds");
  if (const auto told = json.find("heard_ago"); told != json.end()) decode(*told, ago, "heard_ago");
  for (const auto& [word, seconds] : command_seconds)
    if (const auto verb = from_word<protocol::Verb>(word)) result.command_seconds[*verb] = seconds;
  result.last_heard = Clock::now() - duration_of(ago);
  return result;
}

}  // namespace assay
