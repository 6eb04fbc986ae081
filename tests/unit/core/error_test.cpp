#include "harness/core/error.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/cell_file.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(InternalError, ReportsABugAsAFaultOfTheProgram) {
  EXPECT_EQ(internal_error(std::logic_error("no row 3")),
            "a fault of the program, please report it: no row 3");
}

TEST(InternalError, ReportsMissingMemoryAsSuch) {
  EXPECT_EQ(internal_error(std::bad_alloc()), "out of memory; stop other programs, or measure less");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  rlimit less = before;
  less.rlim_cur = std::min(before.rlim_max, rlim_t{1} << 40);
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &less), 0);
  EXPECT_THAT(internal_error(std::bad_alloc()),
              HasSubstr("KiB of data here: raise it (ulimit -d unlimited)"));
  ::setrlimit(RLIMIT_DATA, &before);
}

TEST(SystemErrors, HaveTheRemedyOfAFullOrReadOnlyFileSystem) {
  using std::filesystem::filesystem_error;
  const auto text = [](std::errc code, const char* path) {
    return message_of(filesystem_error("cannot copy", "/etc/hostname", path, std::make_error_code(code)));
  };
  EXPECT_THAT(text(std::errc::no_space_on_device, "/tmp/x"), HasSubstr("free some space"));
  EXPECT_THAT(text(std::errc::read_only_file_system, "/tmp/x"), HasSubstr("where you may write"));
  // What libstdc++ reports of a copy that ended early. /proc has no room.
  EXPECT_THAT(text(std::errc::io_error, "/proc/no/such"), HasSubstr("free some space"));
}

// In a process of its own, because a hard limit cannot be raised again.
TEST(SystemErrors, NameTheLimitsOfMemory) {
  const auto with_limit = [] {
    const rlimit limit{std::uint64_t{1} << 40, std::uint64_t{1} << 40};
    ::setrlimit(RLIMIT_DATA, &limit);
    std::cerr << remedy_for_memory();
    std::exit(0);
  };
  EXPECT_EXIT(with_limit(), testing::ExitedWithCode(0),
              "1073741824 KiB of data here: raise it .ulimit -d unlimited");
}

class CellFileTest : public testing::Test {
 protected:
  int read(const std::string& text) {
    std::ofstream(file_) << text;
    return read_cell_json("worker", file_, [](const nlohmann::json& json) {
      if (!json.contains("batch")) throw GraphError("the batch is missing");
      return json["batch"].get<int>();
    });
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "request.json";
};

TEST_F(CellFileTest, ReturnsWhatTheReaderReturns) { EXPECT_EQ(read(R"({"batch": 32})"), 32); }

TEST_F(CellFileTest, NamesTheFileThatIsMissing) {
  const auto none = [](const nlohmann::json&) { return 0; };
  EXPECT_THAT([&] { read_cell_json("check", file_, none); },
              ThrowsMessage<CellError>("[check] cannot read " + file_.string() + ": is this a cell folder?"));
}

TEST_F(CellFileTest, NamesTheFileThatIsMalformed) {
  const auto says = [&](const char* words) {
    return ThrowsMessage<CellError>(AllOf(HasSubstr("[worker] " + file_.string()), HasSubstr(words)));
  };
  EXPECT_THAT([&] { read("{"); }, says("parse error"));
  EXPECT_THAT([&] { read(R"({"batch": "many"})"); }, says("must be number"));
  EXPECT_THAT([&] { read("{}"); }, says("the batch is missing"));
}

TEST_F(CellFileTest, LeavesBugsOfTheReaderAlone) {
  std::ofstream(file_) << "{}";
  const auto broken = [](const nlohmann::json&) -> int { throw std::logic_error("a bug"); };
  EXPECT_THAT([&] { read_cell_json("check", file_, broken); }, ThrowsMessage<std::logic_error>("a bug"));
}

}  // namespace
}  // namespace assay
