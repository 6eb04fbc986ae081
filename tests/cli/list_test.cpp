#include <algorithm>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace assay {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> names(const json& items) {
  std::vector<std::string> out;
  for (const json& item : items) out.push_back(item["name"]);
  return out;
}

// As the help of the program lists them.
std::vector<std::string> commands(const std::string& help) {
  std::vector<std::string> found;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line) && line.starts_with("  ");)
    found.push_back(line.substr(2, line.find(' ', 2) - 2));
  EXPECT_THAT(found, ::testing::Contains("run"));
  return found;
}

TEST(Cli, prints_version_commit_and_build_type) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, ::testing::MatchesRegex("assay [0-9]+\\.[0-9]+\\.[0-9]+ \\(commit "
                                                   "([0-9a-f]{12}( with local changes)?|unknown), build type "
                                                   "[A-Za-z]+\\)\n"));
  const json program = json::parse(run({"env", "--json"}).out)["program"];
  EXPECT_THAT(outcome.out,
              HasSubstr(program["commit"] == "" ? "unknown" : program["commit"].get<std::string>()));
}

TEST(Cli, explains_itself_and_its_exit_codes) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* word : {"list", "run", "check", "show", "validate", "inspect", "env", "4 incomplete"})
    EXPECT_THAT(outcome.out, HasSubstr(word));
}

TEST(Cli, HelpOfEveryCommandHasAnExampleOfThatCommand) {
  const Outcome root = run({"--help"});
  EXPECT_THAT(root.out, HasSubstr("\nExamples:\n  assay list"));
  for (const std::string& command : commands(root.out)) {
    const Outcome help = run({command, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, ::testing::ContainsRegex("\nExamples?:\n  .*assay " + command + "( |\n)"));
    EXPECT_EQ(run({"help", command}).out, help.out);
  }
  EXPECT_EQ(run({"help"}).out, root.out);
}

TEST(Cli, AnUnknownCommandIsRefusedWithHelpToo) {
  const Outcome outcome = run({"rnu", "--help"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'run'?"));
  EXPECT_THAT(run({"plot", "--help"}).err, HasSubstr("scripts/plot"));
}

TEST(Cli, shows_its_help_and_fails_when_no_command_is_given) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("Usage"));
}

TEST(Cli, names_the_nearest_command_option_and_kind) {
  const auto expect = [](std::vector<std::string> arguments, const char* said) {
    const Outcome outcome = run(std::move(arguments));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  expect({"lst"}, "unknown command 'lst'; did you mean 'list'?");
  expect({"list", "--jsn"}, "list: unknown option '--jsn'; did you mean '--json'?");
  expect({"list", "workload"}, "did you mean 'workloads'?");
  expect({"list", "ops", "more"}, "unexpected argument 'more'");
  expect({"inspect", "lenet"}, "did you mean 'lenet5'?");
  expect({"inspect", "lenet5", "--batch", "0"}, "[batch] got 0: must be from 1");
  expect({"inspect", "lenet5", "--batch", "many"}, "[batch] got 'many'");
  expect({"inspect", "lenet5", "--precision", "fp31"}, "must be one of fp32");
  expect({"inspect"}, "WORKLOAD");
  expect({"show", "--format", "csw", "x"}, "did you mean 'csv'?");
  expect({"show", "--ask", "step_time,0", "x"}, "no other format has them");
  expect({"show", "--format", "csv", "--time-to-accuracy", "0.9", "x"}, "console, markdown and json only");
  for (const char* share : {"90", "nan", "0.5x", ""})
    expect({"show", "--time-to-accuracy", share, "x"}, "must be a share");
}

TEST(CliList, TheListOfEverythingIsShort) {
  const std::string all = run({"list"}).out;
  EXPECT_THAT(all, HasSubstr("\nlenet5 "));
  EXPECT_THAT(all, Not(HasSubstr("op/convolution")));
  EXPECT_THAT(all, HasSubstr("assay list workloads adds"));
  EXPECT_THAT(all, HasSubstr("assay list ops shows"));
  EXPECT_LT(std::count(all.begin(), all.end(), '\n'), 110);
  EXPECT_THAT(run({"list", "workloads"}).out, HasSubstr("op/convolution"));
  EXPECT_THAT(run({"list", "ops"}).out, HasSubstr("softmax_cross_entropy"));
}

TEST(CliList, lists_every_kind_as_strict_json) {
  const Outcome outcome = run({"list", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json all = json::parse(outcome.out);
  EXPECT_THAT(names(all["workloads"]), ::testing::IsSupersetOf({"lenet5", "mlp", "cnn"}));
  EXPECT_THAT(names(all["ops"]), ::testing::IsSupersetOf({"convolution", "softmax_cross_entropy", "adam"}));
  EXPECT_THAT(names(all["datasets"]), ::testing::IsSupersetOf({"fashion-mnist", "synthetic"}));
  EXPECT_TRUE(all["backends"].is_array());
  EXPECT_TRUE(all["configs"].is_array());
  EXPECT_EQ(json::parse(run({"list", "workloads", "--json"}).out), all["workloads"]);
}

// An array of bytes as numpy saves it, with a header of 128 bytes.
std::string npy(const std::string& shape, const std::string& bytes) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(117 - header.size(), ' ');
  return std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" + bytes;
}

TEST(CliList, prints_place_size_and_checksum_of_a_data_set) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "npy");
  folder.file("npy/inputs.npy", npy("(10, 1, 2, 2)", std::string(40, 'a')));
  folder.file("npy/labels.npy", npy("(10,)", std::string(10, '\1')));
  const std::map<std::string, std::string> environment{{"ASSAY_CACHE", (folder.path() / "cache").string()}};
  const std::vector<std::string> command = {"list", "datasets", "--json", "--data", folder.path().string()};
  for (int again = 0; again < 2; ++again) {  // the second time from the cache of digests
    const json sets = json::parse(test::assay({.arguments = command, .environment = environment}).out);
    const auto own =
        std::find_if(sets.begin(), sets.end(), [](const json& one) { return one["name"] == "npy"; });
    ASSERT_NE(own, sets.end());
    EXPECT_EQ((*own)["available"], true);
    const json& provenance = (*own)["provenance"];
    EXPECT_EQ(provenance["folder"], (folder.path() / "npy").string());
    EXPECT_EQ(provenance["bytes"], 306);
    EXPECT_EQ(provenance["files"][1]["name"], "labels.npy");
    // What sha256sum labels.npy and sha256sum inputs.npy labels.npy | sha256sum print.
    EXPECT_EQ(provenance["files"][1]["sha256"],
              "49704e207fa34ddfb33f63c432e20ef85d19b5296b4c9f54d5e27b730181e0a9");
    EXPECT_EQ(provenance["checksum"], "b92289c6d827c0c14f3578549f89a7bb226039734544c9e85d1408e80000008f");
  }
  const std::vector<std::string> text = {"list", "datasets", "--data", "/nowhere"};
  EXPECT_THAT(run(text).out, HasSubstr("cifar10: get it: scripts/fetch-data cifar10"));
  EXPECT_THAT(run(text).out,
              HasSubstr("imdb: get it: scripts/fetch-data imdb; to convert an imdb.npz that you "
                        "have: scripts/fetch-data --convert imdb.npz"));
}

TEST(CliList, FilesThatAreNotDataAreDamagedAndNotHere) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "mnist");
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                           "t10k-labels-idx1-ubyte"})
    folder.file("mnist/" + std::string(name) + ".gz",
                "<html><head><title>404 Not Found</title></head></html>");
  for (const char* name : {"npy", "text", "images/a", "images/b"})
    std::filesystem::create_directories(folder.path() / name);
  folder.file("images/a/1.jpg", "version https://git-lfs.github.com/spec/v1\n");
  folder.file("images/b/2.jpg", "version https://git-lfs.github.com/spec/v1\n");
  folder.file("npy/inputs.npy", npy("(10, 1, 2, 2)", std::string(40, 'a')));
  folder.file("npy/labels.npy", npy("(10, 2, 2)", std::string(40, '\1')));
  folder.file("text/input.txt", std::string("\xff\xfe"
                                            "a\0b\0",
                                            6));
  std::vector<std::string> command{"list", "datasets", "--data", folder.path().string()};
  const Outcome text = run(command);
  EXPECT_THAT(text.out, HasSubstr("labels.reshape(-1)"));
  EXPECT_THAT(text.out, HasSubstr("input.txt: is a text in UTF-16"));
  EXPECT_THAT(text.out, HasSubstr("1.jpg: is not a JPEG: it is a pointer of Git LFS"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("mnist +48000 +12000 +10000 +damaged"));
  EXPECT_THAT(text.out, HasSubstr("train-images-idx3-ubyte.gz: is not an IDX file: it is a web page"));
  command.emplace_back("--json");
  const json sets = json::parse(run(command).out);
  EXPECT_EQ(sets[0]["name"], "mnist");
  EXPECT_EQ(sets[0]["available"], false);
  EXPECT_EQ(sets[0]["remedy"], "scripts/fetch-data mnist");
}

TEST(CliList, says_why_a_backend_is_unavailable_and_how_to_get_it) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "ghost");
  folder.file("ghost/backend.json",
              R"({"name": "ghost", "description": "not here", "kind": "framework", "oracle": false,
    "command": ["${here}/worker"], "framework": "ghost", "devices": ["cpu"], "modes": ["eager"], "tasks": ["train"],
    "precisions": ["fp32"], "layouts": ["native"], "loaders": ["resident"],
    "requires": [{"file": "${here}/missing", "reason": "Ghost is not set up", "remedy": "scripts/setup --framework ghost"}]})");
  const std::map<std::string, std::string> environment{{"ASSAY_BACKENDS", folder.path().string()}};
  const Outcome text = test::assay({.arguments = {"list", "backends"}, .environment = environment});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("ghost: Ghost is not set up"));
  EXPECT_THAT(text.out, HasSubstr("get it: scripts/setup --framework ghost"));
  const json backends =
      json::parse(test::assay({.arguments = {"list", "backends", "--json"}, .environment = environment}).out);
  const auto ghost =
      std::find_if(backends.begin(), backends.end(), [](const json& one) { return one["name"] == "ghost"; });
  ASSERT_NE(ghost, backends.end());
  EXPECT_EQ((*ghost)["available"], false);
  EXPECT_EQ((*ghost)["remedy"], "scripts/setup --framework ghost");
}

TEST(CliList, lists_added_backends_with_the_built_ones) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "added/guest");
  folder.file(
      "added/guest/backend.json",
      R"({"name": "guest", "kind": "bare", "command": ["true"], "devices": ["cpu"], "modes": ["eager"],
    "tasks": ["train"], "precisions": ["fp32"], "layouts": ["native"], "loaders": ["resident"]})");
  const json built = json::parse(run({"list", "backends", "--json"}).out);
  const std::string added = (folder.path() / "added").string(), absent = (folder.path() / "absent").string();
  const Outcome more = test::assay({.arguments = {"list", "backends", "--json"},
                                    .environment = {{"ASSAY_BACKENDS", added + ":" + absent}}});
  ASSERT_EQ(more.code, 0) << more.err;
  auto expected = names(built);
  ASSERT_THAT(expected, ::testing::Contains("reference"));
  expected.push_back("guest");
  EXPECT_THAT(names(json::parse(more.out)), ::testing::UnorderedElementsAreArray(expected));
  const Outcome text = test::assay(
      {.arguments = {"list", "backends"}, .environment = {{"ASSAY_BACKENDS", added + ":" + absent}}});
  EXPECT_THAT(text.out, HasSubstr(absent + " has no backend"));
}

TEST(CliList, lists_all_configs_after_a_broken_one) {
  const test::TemporaryFolder folder;
  folder.file("broken.json", "{\"workload\": ");
  folder.file("fine.json", R"({"title": "A fine one", "workload": "mlp"})");
  const Outcome outcome = test::assay(
      {.arguments = {"list", "configs"}, .environment = {{"ASSAY_CONFIGS", folder.path().string()}}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("A fine one"));
  EXPECT_THAT(outcome.out, HasSubstr("broken.json"));
}

TEST(CliList, has_no_colours_in_a_file_and_no_utf8_without_the_locale) {
  const Outcome outcome =
      test::assay({.arguments = {"list"}, .environment = {{"LC_ALL", "C"}, {"TERM", "xterm"}}});
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b[")));
  EXPECT_TRUE(std::all_of(outcome.out.begin(), outcome.out.end(),
                          [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

// What would make it slow: a Python that imports a framework, and the files of a data set.
TEST(CliList, StartsNoProgramAndReadsNoDataSet) {
  const test::TemporaryFolder folder;
  const std::string started = (folder.path() / "started").string();
  const std::string python = folder.file("python", "#!/bin/sh\ntouch '" + started + "'\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  std::filesystem::create_directory(folder.path() / "npy");
  folder.file("npy/inputs.npy", "no array");
  folder.file("npy/labels.npy", "no array");
  const auto listed = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--interpreter", "torch=" + python, "--data", folder.path().string()});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const char* fault = "inputs.npy:";
  EXPECT_THAT(listed({"list"}), Not(HasSubstr(fault)));
  EXPECT_FALSE(std::filesystem::exists(started));
  EXPECT_THAT(listed({"list", "datasets"}), HasSubstr(fault)) << "only this listing reads the files";
}

TEST(CliInspect, describes_the_workload) {
  const json lenet5 = json::parse(run({"inspect", "lenet5", "--json"}).out);
  EXPECT_EQ(lenet5["batch"], 200);
  // Weights and biases of C(6,5)-C(16,3)-FC120-FC84-FC10 on 28 x 28: 24, 12, 10, 5 pixels a side.
  EXPECT_EQ(lenet5["parameters"],
            (6 * 25 + 6) + (16 * 6 * 9 + 16) + (400 * 120 + 120) + (120 * 84 + 84) + (84 * 10 + 10));
  const json& arena = lenet5["training"]["arena_bytes"];
  EXPECT_LE(arena["in_place"], arena["naive"]);
  EXPECT_LE(arena["co_share"], arena["in_place"]);
  EXPECT_LE(arena["co_share"], arena["co_share_only"]);
  EXPECT_LE(arena["co_share_only"], arena["naive"]);
  EXPECT_GE(arena["co_share"], arena["lower_bound"]);
  EXPECT_EQ(json::parse(run({"inspect", "lenet5", "--batch", "7", "--json"}).out)["batch"], 7);
  const json gemm = json::parse(run({"inspect", "op/gemm", "--size", "m2n3k4", "--json"}).out);
  EXPECT_EQ(gemm["forward_flops"], 2 * 2 * 3 * 4);
  EXPECT_THAT(run({"inspect", "op/gemm"}).out, HasSubstr("op/gemm"));
  EXPECT_THAT(run({"inspect", "op/gemm", "--batch", "7"}).err, HasSubstr("op/gemm does not support --batch"));
  for (const char* op : {"op/from_array", "op/from_list", "op/from_rows"}) {
    const Outcome described = run({"inspect", op, "--nodes"});
    EXPECT_EQ(described.code, 0) << described.err;
    EXPECT_THAT(described.out, HasSubstr("It has no gradient, so it has no training step."));
    EXPECT_TRUE(json::parse(run({"inspect", op, "--json"}).out)["training"].is_null());
  }
  const json program = json::parse(run({"inspect", "mlp", "--graph"}).out);
  EXPECT_EQ(program["schema"], "assay-program/2");
}

TEST(CliEnv, describes_the_machine_and_its_causes_of_noise) {
  const json told = json::parse(run({"env", "--json"}).out);
  EXPECT_GE(told["cpu"]["logical"], 1);
  EXPECT_TRUE(told["unsteady"].is_array());
  EXPECT_FALSE(told["program"]["version"].get<std::string>().empty());
  const Outcome text = run({"env"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("processor"));
}

}  // namespace
}  // namespace assay
