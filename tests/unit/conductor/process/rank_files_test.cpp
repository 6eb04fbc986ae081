// The cell folder of a rank on another machine: what it gets, and what comes back.
#include "harness/conductor/process/rank_files.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/batch/manifest.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/json/decode.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

class RankFilesTest : public ::testing::Test {
 protected:
  RankFilesTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    near_ = std::make_unique<Link>(Descriptor(ends[0]));
    far_ = std::make_unique<Link>(Descriptor(ends[1]));
    near_->trust();
    far_->trust();
    ::setenv("ASSAY_CACHE", (folder_ / "cache").c_str(), 1);
    fs::create_directories(folder_ / "cache");
    fs::permissions(folder_ / "cache", fs::perms::owner_all);
    write(cell() / "request.json", "{}");
    write(cell() / "check/inputs.safetensors", std::string(10'000'000, 'x'));
    fs::create_directories(cell() / "results");
  }
  ~RankFilesTest() override { ::unsetenv("ASSAY_CACHE"); }

  fs::path cell() const { return folder_ / "cell"; }

  // As the rank on a machine that does not see the conductor's folder, or sees it.
  void receive(bool sees) {
    const auto message = far_->receive();
    ASSERT_TRUE(message);
    auto contents = decoded<FolderContents>(message->json.at("files"));
    if (!sees) contents.folder = "/no/such/folder";
    try {
      received_.receive(*far_, contents);
      far_->send({{"done", true}});
    } catch (const Error& error) {
      far_->send({{"error", error.what()}});
    }
  }
  void send(bool sees = false) {
    std::thread rank([&] { receive(sees); });
    const std::exception_ptr failure = [&]() -> std::exception_ptr {
      try {
        sent_.send(*near_);
        return nullptr;
      } catch (...) {
        return std::current_exception();
      }
    }();
    rank.join();
    if (failure) std::rethrow_exception(failure);
  }
  void give_back() {
    const auto fresh = received_.fresh();
    std::thread rank([&] {
      for (const fs::path& file : fresh) received_.send(*far_, file);
    });
    sent_.take(*near_, fresh.size());
    rank.join();
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Link> near_, far_;
  SentFolder sent_{folder_ / "cell"};
  ReceivedFolder received_{folder_ / "scratch", "node2"};
};

TEST_F(RankFilesTest, UsesTheFolderThatBothSee) {
  send(true);
  EXPECT_EQ(received_.folder(), cell());
  EXPECT_TRUE(received_.fresh().empty());
}

TEST_F(RankFilesTest, CopiesAFolderThatTheRankDoesNotSee) {
  send();
  EXPECT_EQ(received_.folder(), folder_ / "scratch/cell");
  EXPECT_EQ(read_text(received_.folder() / "request.json"), "{}");
  EXPECT_EQ(read_text(received_.folder() / "check/inputs.safetensors"), std::string(10'000'000, 'x'));
  EXPECT_TRUE(fs::is_directory(received_.folder() / "results"));
}

TEST_F(RankFilesTest, SendsOnlyWhatIsNew) {
  send();
  fs::remove(received_.folder() / "request.json");
  write(cell() / "check/audit.json", "[1]");
  send();
  EXPECT_FALSE(fs::exists(received_.folder() / "request.json"));
  EXPECT_EQ(read_text(received_.folder() / "check/audit.json"), "[1]");
}

TEST_F(RankFilesTest, GivesBackWhatTheWorkerWrote) {
  send();
  write(received_.folder() / "results/clock.json", "{\"complete\": true}");
  write(received_.folder() / "log", "");
  give_back();
  EXPECT_EQ(read_text(cell() / "results/clock.json"), "{\"complete\": true}");
  EXPECT_EQ(fs::file_size(cell() / "log"), 0u);
  EXPECT_TRUE(received_.fresh().empty());
  send();  // and does not get it again
  EXPECT_EQ(read_text(received_.folder() / "results/clock.json"), "{\"complete\": true}");
}

TEST_F(RankFilesTest, GivesBackAGivenFileThatTheWorkerChanged) {
  send();
  write(received_.folder() / "request.json", "{\"seed\": 2}");
  give_back();
  EXPECT_EQ(read_text(cell() / "request.json"), "{\"seed\": 2}");
}

TEST_F(RankFilesTest, WritesNothingOutsideOfTheFolder) {
  for (const char* name : {"../outside", "/outside", "results/../../outside", ""}) {
    far_->send({{"next", name}});
    EXPECT_THAT([&] { sent_.take(*near_, 1); }, ThrowsMessage<Error>(HasSubstr("outside of its folder")))
        << name;
  }
}

TEST_F(RankFilesTest, KeepsTheArraysOfADataSetInTheCache) {
  write(folder_ / "elsewhere/inputs.npy", std::string(1000, 'a'));
  write(folder_ / "elsewhere/labels.npy", std::string(100, 'b'));
  Manifest manifest{.name = "some", .sample_shape = {10}, .classes = 2};
  manifest.splits["train"] = {folder_ / "elsewhere/inputs.npy", folder_ / "elsewhere/labels.npy", 0, 100};
  write_manifest(cell(), manifest);
  send();
  const Split split = read_manifest(received_.folder()).splits.at("train");
  EXPECT_EQ(split.inputs.parent_path(), folder_ / "cache/received");
  EXPECT_EQ(read_text(split.inputs), std::string(1000, 'a'));
  EXPECT_EQ(read_text(split.labels), std::string(100, 'b'));
  EXPECT_TRUE(received_.fresh().empty()) << "the changed manifest is not the worker's";
}

TEST_F(RankFilesTest, NamesWhatAMachineSeesDifferently) {
  std::thread rank([&] {
    const auto message = far_->receive();
    auto contents = decoded<FolderContents>(message->json.at("files"));
    contents.data.push_back({.path = (folder_ / "elsewhere/inputs.npy").string(), .size = 7});
    try {
      received_.receive(*far_, contents);
    } catch (const Error& error) {
      far_->send({{"error", error.what()}});
    }
  });
  EXPECT_THAT([&] { sent_.send(*near_); },
              ThrowsMessage<Error>(AllOf(HasSubstr("node2 does not have"), HasSubstr("set ASSAY_CACHE"))));
  rank.join();
}

TEST(Link, TakesNothingLargeFromAStranger) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  Link near(Descriptor{ends[0]}), far{Descriptor(ends[1])};
  const std::string text(1000, 'x');
  ASSERT_TRUE(far.send({{"text", text}}));
  EXPECT_EQ(near.receive().value().json.at("text"), text);
  ASSERT_TRUE(far.send({{"text", text}}, std::as_bytes(std::span(text))));
  EXPECT_FALSE(near.receive());
}

TEST(Link, TakesNothingThatIsNoMessage) {
  for (const std::string& bytes :
       {std::string(12, '\xff'), std::string(12, '\0') + "{", std::string("GET / HTTP/1.1\r\n")}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    Link near(Descriptor{ends[0]});
    Descriptor far(ends[1]);
    ASSERT_EQ(::write(far.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    far.reset();
    EXPECT_FALSE(near.receive()) << bytes;
  }
}

TEST(Proof, NeedsTheKeyAndServesOnlyOneRole) {
  EXPECT_EQ(proof_of("key", "challenge", "rank"), proof_of("key", "challenge", "rank"));
  EXPECT_NE(proof_of("key", "challenge", "rank"), proof_of("key", "challenge", "conductor"));
  EXPECT_NE(proof_of("key", "challenge", "rank"), proof_of("other", "challenge", "rank"));
  EXPECT_NE(random_key(), random_key());
}

TEST_F(RankFilesTest, SaysThatTheConnectionBroke) {
  far_.reset();
  EXPECT_THROW(sent_.send(*near_), LinkBroken);
}

}  // namespace
}  // namespace assay
