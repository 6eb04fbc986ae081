#include "harness/conductor/process/team.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace assay {
namespace {

ConversationResult rank_with(protocol::Memory compiled, protocol::Memory ran) {
  ConversationResult rank;
  rank.status = Status::ok;
  rank.compiled = protocol::Compiled{.memory = std::move(compiled)};
  rank.ran = protocol::Ran{.memory = std::move(ran)};
  return rank;
}

TEST(JoinedRanks, AddTheirMemoryButHaveOneInstallation) {
  const ConversationResult all =
      joined({rank_with({{"persistent", 10}, {"installed_size", 1000}}, {{"persistent", 11}}),
              rank_with({{"persistent", 20}, {"installed_size", 1000}}, {{"persistent", 21}}),
              rank_with({{"persistent", 30}, {"installed_size", 1000}}, {{"persistent", 31}})});
  EXPECT_EQ(all.compiled->memory, (protocol::Memory{{"persistent", 60}, {"installed_size", 1000}}));
  EXPECT_EQ(all.ran->memory, (protocol::Memory{{"persistent", 63}}));
}

}  // namespace
}  // namespace assay
