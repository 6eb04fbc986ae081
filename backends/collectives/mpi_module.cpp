// The only file that includes MPI.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "backends/collectives/communicator.hpp"

namespace assay::collectives {
namespace {

// How long the other ranks may take to end after this one.
constexpr std::chrono::seconds patience{10};

void must(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw std::runtime_error(
      fmt::format("[ranks] {}: {}", call, std::string(text, static_cast<std::size_t>(length))));
}

class Mpi final : public Communicator {
 public:
  Mpi(int rank, int world) {
    int provided = MPI_THREAD_SINGLE;
    must(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    must(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &world_), "MPI_Comm_size");
    std::string wrong;
    if (world_ != world || rank_ != rank)
      wrong = fmt::format(
          "[ranks] MPI started rank {} of {}, but the cell has rank {} of {}: start the workers with mpirun -n {}, "
          "in the order of the ranks",
          rank_, world_, rank, world, world);
    if (provided < MPI_THREAD_SERIALIZED)
      wrong = "[ranks] this MPI allows no calls from another thread: use one with MPI_THREAD_SERIALIZED";
    if (wrong.empty()) return;
    // At once: the others may wait for this rank in another call, and then end() does not return.
    std::fprintf(stderr, "%s\n", wrong.c_str());
    end(wrong + "; ");
    throw std::runtime_error(wrong);
  }
  ~Mpi() override { end(); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string all(text, static_cast<std::size_t>(length));
    return all.substr(0, all.find_first_of(",\n"));
  }

  void sum(float* values, std::int64_t count) override {
    constexpr std::int64_t most = std::int64_t{1} << 28;  // an int counts the elements of one call
    for (std::int64_t i = 0; i < count; i += most)
      call(MPI_Allreduce(MPI_IN_PLACE, values + i, static_cast<int>(std::min(most, count - i)), MPI_FLOAT,
                         MPI_SUM, MPI_COMM_WORLD),
           "MPI_Allreduce of gradients");
  }
  std::int64_t first(std::int64_t value) override {
    std::int64_t common = rank_ == 0 ? value : 0;
    call(MPI_Allreduce(MPI_IN_PLACE, &common, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD),
         "MPI_Allreduce of a number");
    return common;
  }
  void abort(const std::string& reason) noexcept override {
    std::fprintf(stderr, "%s\n", reason.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
  }

 private:
  void call(int status, const char* name) {
    failed_ = failed_ || status != MPI_SUCCESS;
    must(status, name);
  }

  // MPI_Finalize waits for all ranks, so it is called only if all of them are about to. `why`: begins the reason if they
  // are not.
  void end(const std::string& why = "") noexcept {
    if (failed_) abort("[ranks] a collective of MPI failed: all ranks end");
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) abort("[ranks] MPI_Ibarrier failed");
    const auto until = std::chrono::steady_clock::now() + patience;
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
      if (std::chrono::steady_clock::now() > until)
        abort(fmt::format("{}[ranks] rank {}: the other ranks did not end within {} s", why, rank_,
                          patience.count()));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (done == 0) abort("[ranks] MPI_Test failed");
    MPI_Finalize();
  }

  int rank_ = 0, world_ = 1;
  bool failed_ = false;
};

}  // namespace
}  // namespace assay::collectives

// Throws std::runtime_error.
extern "C" assay::collectives::Communicator* assay_join_mpi(int rank, int world) {
  return new assay::collectives::Mpi(rank, world);
}
