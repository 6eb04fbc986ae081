#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace assay {
namespace {

using nlohmann::json;
using test::Outcome;
using test::read_text;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The smallest run that times something: two cells' worth of the oracle on data made here.
const std::vector<std::string> small{"--workload", "mlp",       "--backend", "reference", "--mode",
                                     "graph",      "--dataset", "synthetic", "--quick",   "--steps",
                                     "20",         "--threads", "1"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Refused in one line with exit code 2, and nothing was run: no report, no folder.
void expect_refused(const test::Invocation& invocation, const char* said) {
  const TemporaryFolder folder;
  const Outcome outcome = test::assay(invocation, folder.path());
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr(said));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "reports"));
}

TEST(CliRun, a_config_or_a_report_names_no_program) {
  const TemporaryFolder folder;
  const std::string config =
      folder.file("c.json", R"({"workload": "mlp", "backend": "torch", "interpreter": ["torch=/bin/true"]})");
  expect_refused({.arguments = {"run", config}}, "names a program, which a config must not do");
}

TEST(CliRun, AConfigLoadsNoLibraryIntoAWorker) {
  const TemporaryFolder folder;
  const auto config = [&](const char* variable) {
    return folder.file("c.json",
                       std::string(R"({"workload": "mlp", "backend": "reference", "dataset": "synthetic",
      "environment": [")") +
                           variable + "\"]}");
  };
  expect_refused({.arguments = {"run", config("LD_PRELOAD=/mine.so")}}, "sets LD_PRELOAD");
  EXPECT_EQ(test::run({"run", "--dry-run", config("OMP_WAIT_POLICY=passive")}).code, 0);
}

TEST(CliRun, PassesOnlyNamedVariablesAndSaysSo) {
  const TemporaryFolder folder;
  const Outcome outcome = test::assay(
      {.arguments = with({"run", "--environment", "OMP_SCHEDULE=static", "--out", "r.json"}, small),
       .environment = {{"OMP_THREAD_LIMIT", "1"}}},
      folder.path());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Workers had OMP_SCHEDULE=static (--environment)."));
  EXPECT_THAT(outcome.out, HasSubstr("Not passed to workers: OMP_THREAD_LIMIT;"));
  const json session = json::parse(read_text(folder.path() / "r.json"))["run"]["sessions"][0];
  EXPECT_EQ(session["variables"], json({{"OMP_SCHEDULE", "static"}}));
  EXPECT_EQ(session["dropped"], json({"OMP_THREAD_LIMIT"}));
}

// The reference, which dies when it is the oracle.
void write_dying_oracle(const std::filesystem::path& folder) {
  const auto own = std::filesystem::path(ASSAY_PROGRAM).parent_path() / "backends/reference";
  json description = json::parse(read_text(own / "backend.json"));
  const std::string worker = (own / "assay-worker-reference").string();
  description["command"] = {"/bin/sh", "-c",
                            R"(grep -q '"oracle"' request.json && kill -SEGV $$; exec "$0" "$@")", worker};
  std::filesystem::create_directories(folder / "reference");
  std::ofstream(folder / "reference/backend.json") << description.dump();
}

TEST(CliRun, AnOracleThatDiesIsNotSuccess) {
  const TemporaryFolder folder;
  write_dying_oracle(folder.path() / "dying");
  const auto assay = [&](std::vector<std::string> words, const char* backends = "dying") {
    return test::assay({.arguments = std::move(words), .environment = {{"ASSAY_BACKENDS", backends}}},
                       folder.path());
  };
  ASSERT_EQ(assay(with({"run", "--out", "good.json"}, small), "").code, 0);

  const Outcome check =
      assay({"check", "--workload", "mlp", "--backend", "reference", "--mode", "graph", "--quick"});
  EXPECT_EQ(check.code, 4) << check.out << check.err;
  EXPECT_THAT(check.out + check.err, HasSubstr("SIGSEGV"));

  const Outcome run = assay(with({"run", "--out", "bad.json"}, small));
  EXPECT_EQ(run.code, 4) << run.out << run.err;
  const json cell = json::parse(read_text(folder.path() / "bad.json"))["cells"][0];
  EXPECT_EQ(cell["status"], "failed");
  EXPECT_EQ(cell["reason_code"], "not_checked");
  EXPECT_THAT(cell["reason"].get<std::string>(), HasSubstr("SIGSEGV"));

  const auto compared = [&](const char* base, const char* current) {
    return assay({"compare", base, current}).code;
  };
  EXPECT_EQ(compared("good.json", "bad.json"), 3) << "what was proven is broken";
  EXPECT_EQ(compared("bad.json", "good.json"), 4);
  EXPECT_EQ(compared("bad.json", "bad.json"), 4);
  EXPECT_EQ(assay(with({"run", "--out", "again.json"}, small), "").code, 0) << "the failure is not kept";
}

TEST(CliRun, a_dry_run_lists_the_programs_to_start) {
  const Outcome outcome = test::run(with(with({"run"}, small), {"--dry-run"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("starts "));
  EXPECT_THAT(outcome.out, HasSubstr("assay-worker-reference"));
}

TEST(CliRun, an_empty_name_of_a_report_is_refused) {
  expect_refused({.arguments = with(with({"run"}, small), {"--out", ""})},
                 "the file name of the report is empty");
}

TEST(CliRun, refuses_bad_input_before_anything_is_run) {
  expect_refused({.arguments = {"run"}}, "nothing to run");
  expect_refused({.arguments = {"run", "nonesuch"}}, "nonesuch");
  expect_refused({.arguments = {"run", "--workload", "lenet", "--backend", "reference"}},
                 "did you mean 'lenet5'?");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--backend", "referense"}},
                 "did you mean 'reference'?");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--backend", "all"}}, "omit --backend");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--backend", "reference onednn"}},
                 "separate names with commas");
  expect_refused(
      {.arguments = {"run", "--workload", "mlp", "--backend", "reference", "--backend", "onednn"}},
      "--backend is given more than once; separate several values with commas; see assay run --help");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--data", "/no/such"}},
                 "[data] got '/no/such': the folder does not exist");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--data", "/dev/null"}},
                 "[data] got '/dev/null': it is neither a folder nor a file");
  expect_refused({.arguments = {"run", "/dev/null"}}, "[config] got '/dev/null': it is a pipe, a socket");
  expect_refused({.arguments = {"run", "/dev"}}, "[config] got '/dev': it is a folder, not a file");
  expect_refused(
      {.arguments = {"run", "--workload", "mlp", "--interpreter", "pytorch=/bin/true"}},
      "[interpreter] got 'pytorch': no backend uses a framework of that name; did you mean 'torch'?");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--batch", "0"}}, "[batch] got 0");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--device", "gpu"}},
                 "[device] got 'gpu': must be one of auto, cpu, cuda");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--precision", "fp64"}},
                 "[precision] got 'fp64': must be one of fp32, tf32, bf16");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--forks", "-1"}}, "forks");
  expect_refused(
      {.arguments = {"run", "--workload", "mlp", "--backend", "reference", "--dataset", "fashion"}},
      "fashion");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--seed", "1.5"}}, "seed");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--quick=maybe"}}, "quick");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--batchs", "3"}}, "did you mean '--batch'?");
  expect_refused({.arguments = {"run", "--workload", "mlp", "--check", "false"}}, "--check=false");
  expect_refused({.arguments = with({"run", "--filter", "resnet"}, small)}, "no cell has it in its id");
  expect_refused({.arguments = with({"run", "--filter", "mlp,refrence"}, small)},
                 "--filter got 'refrence': no cell has it in its id; did you mean 'reference'?");
  expect_refused({.arguments = with({"run", "--resume", "/no/such.json"}, small)}, "/no/such.json");
}

TEST(CliRun, names_file_and_key_of_a_config_that_is_wrong) {
  const TemporaryFolder folder;
  const auto config = [&](const std::string& text) { return folder.file("mine.json", text); };
  expect_refused({.arguments = {"run", config(R"({"workload": "mlp", "bacth": 3})")}},
                 "unknown key 'bacth'; did you mean 'batch'?");
  expect_refused({.arguments = {"run", config(R"({"workload": "mlp", "batch": 0})")}}, "[batch] got 0");
  expect_refused({.arguments = {"run", config(R"({"workload": "mlp", "workload": "cnn"})")}},
                 "duplicate key");
  expect_refused({.arguments = {"run", config(R"({"workload": "mlp", "device": ["cpu", "gpu"]})")}},
                 "[device] got 'gpu': must be one of auto, cpu, cuda");
  expect_refused({.arguments = {"run", config("{")}}, "not valid JSON");
  expect_refused({.arguments = {"run", config(R"({"cells": [{"workload": "mlp", "forks": 3}]})")}},
                 "whole run");
}

TEST(CliRun, refuses_a_data_set_that_is_cut_short_and_names_the_file) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "fashion-mnist");
  // The first bytes of a gzip file: only a header.
  const std::string cut("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b", 11);
  for (const char* name : {"train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"})
    folder.file("fashion-mnist/" + std::string(name) + "-ubyte.gz", cut);
  expect_refused({.arguments = {"run", "--workload", "mlp", "--backend", "reference", "--quick", "--out",
                                "r.json", "--data", folder.path().string()}},
                 "ubyte.gz");
}

TEST(CliRun, refuses_a_report_path_that_cannot_be_written) {
  expect_refused({.arguments = with({"run", "--out", "/dev/null/folder/r.json"}, small)}, "/dev/null/folder");
  expect_refused({.arguments = with({"run", "--out", "/"}, small)}, "/");
  expect_refused({.arguments = with({"run", "--out", "/dev/full"}, small)}, "/dev/full");
}

TEST(CliRun, lists_its_cells_and_runs_nothing_when_dry) {
  const TemporaryFolder folder;
  const Outcome outcome = test::assay({.arguments = with({"run", "--dry-run"}, small)}, folder.path());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("mlp/reference/cpu/graph/train/fp32/native/b32/synthetic/resident/adam/t1/"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "reports"));
  const Outcome named = test::assay(
      {.arguments = with({"run", "--dry-run", "--out", "reports/new/r.json"}, small)}, folder.path());
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "reports"));
}

TEST(CliRun, MakesTheFolderOfItsReport) {
  const TemporaryFolder folder;
  const Outcome outcome =
      test::assay({.arguments = with({"run", "--out", "reports/new/r.json"}, small)}, folder.path());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "reports/new/r.json"));
}

TEST(CliRun, SaysWhenDryWhatARunWouldFind) {
  const TemporaryFolder folder;
  const std::vector<std::string> stored{"run",       "--dry-run", "--workload", "mlp",       "--backend",
                                        "reference", "--mode",    "graph",      "--dataset", "cifar10"};
  test::Invocation missing{.arguments = stored};
  missing.environment = {{"HOME", folder.path().string()}, {"XDG_DATA_HOME", folder.path().string()}};
  const Outcome none = test::assay(missing, folder.path());
  EXPECT_EQ(none.code, 4) << none.err;
  EXPECT_THAT(none.out, HasSubstr("cifar10 is missing"));
  EXPECT_THAT(none.out, HasSubstr("0 of 1 cell can be run"));

  const std::vector<std::string> busy{"--workload", "mlp",   "--backend", "reference",
                                      "--mode",     "graph", "--dataset", "synthetic",
                                      "--forks",    "2",     "--threads", "4096"};
  const Outcome many = test::assay({.arguments = with({"run", "--dry-run"}, busy)}, folder.path());
  EXPECT_EQ(many.code, 0) << many.err;
  EXPECT_THAT(many.out, HasSubstr("4096 threads share"));
  EXPECT_THAT(many.out, HasSubstr("Warm-up and timed blocks take at least 3 s"));
  const Outcome closed = test::assay(
      {.arguments = with({"run", "--dry-run", "--out", "/dev/null/folder/r.json"}, busy)}, folder.path());
  EXPECT_EQ(closed.code, 2) << "a place that cannot be written is found before the run";
}

TEST(CliRun, prints_the_table_and_the_path_of_a_valid_report) {
  const TemporaryFolder folder;
  const Outcome outcome = test::assay({.arguments = with({"run", "--out", "r.json"}, small)}, folder.path());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("mlp train fp32 b32 synthetic adam"));
  EXPECT_THAT(outcome.out, HasSubstr("Report: r.json"));
  const std::string file = (folder.path() / "r.json").string();
  const Outcome valid = test::assay({.arguments = {"validate", file}});
  EXPECT_EQ(valid.code, 0) << valid.err;
  const json report = json::parse(read_text(file));
  EXPECT_EQ(report["cells"][0]["status"], "ok");
  EXPECT_EQ(report["run"]["complete"], true);
  EXPECT_GT(report["cells"][0]["metrics"]["step_time"]["value"], 0);
  EXPECT_FALSE(report["environment"]["cpu"].is_null());
  EXPECT_THAT(report["run"]["programs"].dump(), HasSubstr("assay-worker-reference"));

  // With nothing missing, resuming runs nothing and changes no number.
  const Outcome again = test::assay({.arguments = {"run", "--resume", "r.json"}}, folder.path());
  EXPECT_EQ(again.code, 0) << again.err;
  const json resumed = json::parse(read_text(file));
  EXPECT_EQ(resumed["cells"], report["cells"]);
  const Outcome strict = test::assay({.arguments = {"validate", "--strict", file}});
  EXPECT_EQ(strict.code, 0) << strict.err;
}

TEST(CliRun, RunsAsAlwaysIfItsParentIgnoresTheEndOfChildren) {
  const Outcome outcome = test::assay({.arguments = with({"run"}, small), .ignores_children = true});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

TEST(CliRun, RunsWithASmallStack) {
  const Outcome outcome = test::assay({.arguments = with({"run"}, small), .stack_bytes = 64 << 10});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  expect_refused({.arguments = with({"run"}, small), .stack_bytes = 64 << 10, .stack_is_final = true},
                 "the stack is limited to 64 KiB");
}

TEST(CliRun, DescribesTheMachineThatItRunsOn) {
  const auto processor = [](std::map<std::string, std::string> variables) {
    const Outcome outcome =
        test::assay({.arguments = {"env", "--json"}, .environment = std::move(variables)});
    return json::parse(outcome.out).at("cpu");
  };
  const json found = processor({}), other = processor({{"HWLOC_SYNTHETIC", "l3:1(size=1000) core:64 pu:2"}});
  for (const char* fact : {"logical", "cores", "caches"}) EXPECT_EQ(other.at(fact), found.at(fact)) << fact;
}

TEST(CliRun, KeepsItsFilesForItselfWhateverTheMask) {
  const TemporaryFolder folder;
  const Outcome outcome =
      test::assay({.arguments = with({"run", "--out", "r.json"}, small), .mask = 0777}, folder.path());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  struct stat found{};
  ASSERT_EQ(::stat((folder.path() / "r.json").c_str(), &found), 0) << outcome.out;
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST(CliRun, NamesTheLimitOfMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a sanitizer needs more memory than the limit";
#endif
  const Outcome outcome = test::assay({.arguments = with({"run"}, small), .data_bytes = 2 << 20});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("out of memory; each process may have 2048 KiB of data here: raise it"));
}

TEST(CliRun, SaysThatProcIsMissing) {
  const Outcome outcome = test::assay({.arguments = with({"run"}, small), .proc = test::Proc::none});
  if (outcome.code == test::cannot_hide) GTEST_SKIP() << "this user may not mount anything";
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("mount -t proc proc /proc"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(CliRun, SaysThatProcIsOfAnotherNamespace) {
  const Outcome outcome =
      test::assay({.arguments = with({"run"}, small), .proc = test::Proc::of_another_namespace});
  if (outcome.code == test::cannot_hide) GTEST_SKIP() << "this user may not make a namespace";
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("/proc is of another process namespace"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(CliRun, SaysBeforehandThatItsForksDecideNothing) {
  const TemporaryFolder folder;
  const auto said = [&](const char* forks) {
    return test::assay({.arguments = {"run",       "--workload",      "mlp",     "--backend",
                                      "reference", "--mode",          "graph",   "--dataset",
                                      "synthetic", "--samples",       "32",      "--batch",
                                      "32",        "--steps",         "1",       "--blocks",
                                      "1",         "--warm-up-steps", "1",       "--warm-up-seconds",
                                      "0",         "--threads",       "1",       "--check=false",
                                      "--out",     "r.json",          "--forks", forks}},
                       folder.path())
        .err;
  };
  EXPECT_THAT(said("2"),
              HasSubstr("2 forks per cell are too few for a verdict of `assay compare`: it needs at least 3, "
                        "and 6 are usual (--forks 6)"));
  EXPECT_THAT(said("3"), Not(HasSubstr("too few for a verdict")));
}

TEST(CliRun, checks_times_and_shows_a_single_op) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "r.json").string();
  const Outcome outcome =
      test::assay({.arguments = {"run", "--workload", "op/linear", "--size", "m16", "--backend", "reference",
                                 "--mode", "graph", "--quick", "--threads", "1", "--out", file}});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("op/linear infer fp32, cpu t1, warm cache"));
  EXPECT_THAT(outcome.out, HasSubstr("FLOP/s"));
  const Outcome valid = test::assay({.arguments = {"validate", file}});
  EXPECT_EQ(valid.code, 0) << valid.err;
  const json report = json::parse(read_text(file));
  ASSERT_EQ(report["cells"].size(), 2U);
  for (const json& cell : report["cells"]) {
    EXPECT_EQ(cell["equivalence"]["passed"], true);
    EXPECT_TRUE(cell["forks"][0].value("latencies_ns", json::array()).empty());
    EXPECT_EQ(cell["axes"]["size"], "m16");
    const double time = cell["metrics"]["step_time"]["value"], flops = cell["work"]["flops"];
    EXPECT_NEAR(cell["metrics"]["flops_per_second"]["value"].get<double>(), flops / time,
                1e-6 * flops / time);
  }
  // x, weight, bias and y of 16 x 16, and in training dy and the three gradients.
  EXPECT_EQ(report["cells"][0]["work"]["bytes"], 4 * (3 * 256 + 16));
  EXPECT_EQ(report["cells"][1]["work"]["bytes"], 4 * (6 * 256 + 2 * 16));
  EXPECT_EQ(report["cells"][0]["work"]["flops"], 2 * 16 * 16 * 16);
  EXPECT_EQ(report["cells"][1]["work"]["flops"], 3 * 2 * 16 * 16 * 16);
}

TEST(CliRun, TrainsOnTheCharactersOfATextFile) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>('a' + i * i % 7);
  const std::string file = folder.file("poem.txt", text);
  const Outcome outcome = test::assay({.arguments = {"run",       "--workload",
                                                     "nanogpt",   "--dataset",
                                                     "text",      "--data",
                                                     file,        "--backend",
                                                     "reference", "--mode",
                                                     "graph",     "--threads",
                                                     "1",         "--sequence-length",
                                                     "8",         "--batch",
                                                     "2",         "--samples",
                                                     "3",         "--epochs",
                                                     "1",         "--forks",
                                                     "1",         "--check=false",
                                                     "--out",     "r.json"}},
                                      folder.path());
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const json report = json::parse(read_text(folder.path() / "r.json"));
  const json& cell = report["cells"][0];
  EXPECT_EQ(cell["status"], "ok") << cell["reason"];
  EXPECT_EQ(report["run"]["datasets"][0]["classes"], 4);
  EXPECT_EQ(report["run"]["datasets"][0]["sample_shape"], json::array({8}));
  // Each split has three samples of eight characters, and every character counts.
  const json samples = cell["forks"][0]["evaluations"]["samples"];
  EXPECT_EQ(samples.is_array() ? samples[0] : samples, 24);
  const Outcome valid = test::assay({.arguments = {"validate", (folder.path() / "r.json").string()}});
  EXPECT_EQ(valid.code, 0) << valid.err;
}

TEST(CliRun, RefusesWeightsThatDoNotFit) {
  expect_refused({.arguments = {"run", "--workload", "lenet5", "--backend", "reference", "--weights", "w"}},
                 "[weights] lenet5 has no published weights: --weights applies to minilm, bert-base");
  const TemporaryFolder folder;
  std::string file(8, '\0');
  file[0] = 2;
  const std::string empty = folder.file("empty.safetensors", file + "{}");
  expect_refused({.arguments = {"run", "--workload", "minilm", "--backend", "reference", "--weights", empty}},
                 "has no tensor 'embeddings.word_embeddings.weight' f32 (30522, 384), which minilm needs");
}

TEST(CliRun, writes_only_the_report_to_stdout_on_request) {
  const Outcome outcome = test::assay({.arguments = with({"run", "--out", "-"}, small)});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["schema"], "assay-report/2");
  EXPECT_THAT(outcome.err, HasSubstr("backend"));
}

TEST(CliCheck, shows_tensor_by_tensor_and_times_nothing) {
  const TemporaryFolder folder;
  const Outcome outcome = test::assay({.arguments = with({"check"}, small)}, folder.path());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("equivalent"));
  EXPECT_THAT(outcome.out, HasSubstr("first/moment/fc1.weight.m"));
  EXPECT_THAT(outcome.out, HasSubstr("the exam detects gradient errors above"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "reports"));
  const Outcome as_json = test::assay({.arguments = with({"check", "--json"}, small)});
  const json report = json::parse(as_json.out);
  EXPECT_EQ(report["cells"][0]["equivalence"]["passed"], true);
  EXPECT_THAT(report["cells"][0]["forks"], IsEmpty());
}

}  // namespace
}  // namespace assay
