// One rank under mpirun: trains, and compares itself with one rank that has the whole batch and with rank 0. Ends with 0
// if it is right; else prints what differs.
//
//   onednn_mpi_rank MODE PRECISION OPTIMIZER MISTAKE
//
// MISTAKE: none, a mistake of ranks.hpp, dies (rank 1 is killed), world (the cell has another number of ranks), lone world
// (rank 1 has another number of ranks)
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>

#include "backends/collectives/mpi.hpp"
#include "tests/unit/onednn/ranks.hpp"

namespace assay::onednn::ranks {
namespace {

int variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

int run(const Case& c, const std::string& mistake) {
  const int rank = variable("OMPI_COMM_WORLD_RANK"), world = variable("OMPI_COMM_WORLD_SIZE");
  const bool other_world = mistake == "world" || (mistake == "lone world" && rank == 1);
  auto mpi = collectives::join_mpi(rank, other_world ? world + 1 : world);
  const auto exchange = std::make_shared<Exchange>(std::make_shared<Mistaken>(mpi, mistake), c.progress);
  if (rank == 1 && mistake == "dies") std::raise(SIGKILL);
  const Trained found = train(c, exchange), expected = train(c, nullptr);
  const Distance apart = distance(found.state, expected.state);
  const std::int64_t own = digest(found.state), of_first = exchange->agree(own);
  const bool right = apart.value <= bound(c.precision) && own == of_first;
  fmt::print("rank {}: {} {:.3g} from one rank, {} rank 0, {}\n", rank, apart.tensor, apart.value,
             own == of_first ? "the bits of" : "other bits than", exchange->library());
  return right ? 0 : 1;
}

}  // namespace
}  // namespace assay::onednn::ranks

int main(int argc, char** argv) {
  using namespace assay;
  if (argc != 5) return 2;
  onednn::ranks::Case c;
  c.mode = argv[1];
  c.precision = std::string(argv[2]) == "bf16" ? PrecisionKind::bf16 : PrecisionKind::fp32;
  c.optimizer = onednn::ranks::optimizer_of(argv[3]);
  try {
    return onednn::ranks::run(c, argv[4]);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 3;
  }
}
