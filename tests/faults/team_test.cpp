// Ranks that go wrong, one of two: the row gets a status with the rank's number, and no process stays.
#include "harness/conductor/process/team.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/faults/rank_faults.hpp"

namespace assay {
namespace {

using protocol::Command;
using protocol::Verb;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class TeamTest : public test::RankFaults {
 protected:
  ConversationResult talk(const std::vector<std::string>& modes, double seconds = 20) {
    Team team(plans(modes, seconds), {});
    return talk_with(team);
  }
  void expect_no_process() {
    ASSERT_FALSE(processes_.empty());
    expect_no_worker();
  }
};

TEST_F(TeamTest, JoinsTheAnswersOfRanksThatBehave) {
  const ConversationResult result = talk({"good", "good"});
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  EXPECT_EQ(result.compiled->memory.at("planned_arena"), 2 * 4096);
  EXPECT_GT(result.start_rss, 0);
  EXPECT_EQ(processes_.size(), 2u);
  expect_no_process();
}

TEST_F(TeamTest, KeepsItsWorkersFromOneCallToTheNext) {
  Team team(plans({"good", "good", "good"}), {});
  const auto first = team.converse({Command{Verb::compile}}, Afterwards::stay, {});
  const auto second = team.converse({Command{Verb::run}}, Afterwards::quit, {});
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(first[rank].hello->settings.at("process"), second[rank].hello->settings.at("process"));
}

TEST_F(TeamTest, NamesTheRankThatDied) {
  const ConversationResult result = talk({"hang", "crash"});
  EXPECT_EQ(result.status, Status::crashed);
  EXPECT_EQ(result.reason_code, ReasonCode::killed_by_signal);
  EXPECT_THAT(result.reason, AllOf(StartsWith("rank 1: "), HasSubstr("SIGSEGV"), Not(HasSubstr("rank 0"))));
  EXPECT_THAT(result.log_tail, HasSubstr("about to fall"));
  expect_no_process();
}

TEST_F(TeamTest, NamesEveryRankThatGaveNoAnswer) {
  const ConversationResult result = talk({"hang", "hang"}, 0.3);
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_THAT(result.reason, StartsWith("ranks 0, 1: no answer during run"));
  expect_no_process();
}

TEST_F(TeamTest, NamesOnlyTheRankThatHangs) {
  const ConversationResult result = talk({"good", "hang"}, 0.3);
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_THAT(result.reason, StartsWith("rank 1: no answer during run"));
  expect_no_process();
}

TEST_F(TeamTest, NamesAStoppedRankBeforeOnesThatWaitForIt) {
  const ConversationResult result = talk({"hang", "stops"}, 0.3);
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_THAT(result.reason,
              StartsWith("rank 1: no answer during run within 0.3 s (--time-limit): it is stopped"));
  EXPECT_THAT(result.reason, HasSubstr("; then rank 0: no answer during run"));
  expect_no_process();
}

TEST_F(TeamTest, SaysWhichRankComputesAndWhichWaits) {
  Team team(plans({"hang", "spins"}, 1.5), {});
  std::vector<ConversationResult> ranks = team.converse({Command{Verb::compile}}, Afterwards::stay, {});
  note(ranks);
  ranks = team.converse({Command{Verb::run}}, Afterwards::stay, {});
  ASSERT_TRUE(ranks[0].used_at_end && ranks[1].used_at_end);
  EXPECT_GT(*ranks[1].used_at_end, *ranks[0].used_at_end);
  EXPECT_THAT(joined(ranks).reason, ContainsRegex("ranks 0, 1: no answer .*; processors in use at the end: "
                                                  "rank 0 [0-9.]+, rank 1 [0-9.]+$"));
  expect_no_process();
}

TEST_F(TeamTest, KeepsTheStacksOfAllRanksThatGaveNoAnswer) {
  const ConversationResult result = talk({"prints_its_stack", "prints_its_stack"}, 0.3);
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_EQ(result.log_tail, "log of rank 0:\nin pause()\n\nlog of rank 1:\nin pause()\n\n");
  expect_no_process();
}

TEST_F(TeamTest, TakesADeathForTheCauseOfAnError) {
  ConversationResult error, death;
  end_with(error, ReasonCode::worker_failed, "connection closed");
  end_with(death, ReasonCode::killed_by_signal, "it died");
  death.last_heard = error.last_heard + std::chrono::milliseconds(1);  // seen later
  const ConversationResult result = joined({error, death});
  EXPECT_EQ(result.status, Status::crashed);
  EXPECT_EQ(result.reason, "rank 1: it died; then rank 0: connection closed");
}

TEST_F(TeamTest, TakesTheFirstOfTwoErrorsForTheCause) {
  ConversationResult first, second;
  end_with(first, ReasonCode::worker_failed, "no such luck");
  end_with(second, ReasonCode::worker_failed, "connection closed");
  first.last_heard = second.last_heard - std::chrono::milliseconds(1);
  EXPECT_EQ(joined({second, first}).reason, "rank 1: no such luck; then rank 0: connection closed");
}

TEST_F(TeamTest, EndsTheOthersIfARankCannotDoIt) {
  Team team(plans({"good", "unsupported"}), {});
  const ConversationResult result = joined(team.converse({Command{Verb::compile}}, Afterwards::stay, {}));
  EXPECT_EQ(result.status, Status::unsupported);
  EXPECT_THAT(result.reason, AllOf(StartsWith("rank 1: "), HasSubstr("stride 3")));
}

TEST_F(TeamTest, OfOneWorkerIsAsItWas) {
  const ConversationResult result = talk({"crash"});
  EXPECT_EQ(result.status, Status::crashed);
  EXPECT_THAT(result.reason, StartsWith("the worker died of SIGSEGV"));
}

int port_of(const Rendezvous& one) { return std::stoi(one.place.substr(one.place.find(':') + 1)); }

TEST(Rendezvous, HasAFreePort) {
  for (const std::string address : {"127.0.0.1", "198.51.100.7"}) {  // the second one is of no machine
    const Rendezvous one = free_rendezvous(address);
    EXPECT_THAT(one.place, StartsWith(address + ":"));
    EXPECT_GT(port_of(one), 1023);
  }
}

TEST(Rendezvous, IsGivenToNobodyElse) {
  const Rendezvous one = free_rendezvous("127.0.0.1");
  std::vector<Rendezvous> others;
  for (int i = 0; i < 500; ++i) others.push_back(free_rendezvous("127.0.0.1"));
  EXPECT_EQ(std::ranges::count(others, one.place, &Rendezvous::place), 0);
}

TEST(Rendezvous, IsFreeForTheServerThatAsksForIt) {
  const Rendezvous one = free_rendezvous("127.0.0.1");
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port_of(one)));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const Descriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ASSERT_EQ(::setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  EXPECT_EQ(::bind(server.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  EXPECT_EQ(::listen(server.get(), 1), 0);
}

TEST(Rendezvous, RejectsWhatIsNotAnAddress) { EXPECT_THROW(free_rendezvous("localhost"), std::system_error); }

}  // namespace
}  // namespace assay
