#include "backends/collectives/mpi.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>

namespace assay::collectives {
namespace {

namespace fs = std::filesystem;

// Next to the folder of the worker; a test is in the folder above.
fs::path module() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& backends : {here.parent_path(), here / "backends"}) {
    const fs::path file = backends / "collectives/assay_mpi.so";
    if (fs::exists(file)) return file;
  }
  throw NoMpi(
      "[ranks] Assay was built without MPI, as a wheel is: in a checkout, run scripts/setup --mpi, then build again");
}

// MPI_Init without a launcher makes a world of one rank, or ends the process.
bool has_launcher() {
  constexpr std::array variables{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK"};
  for (const char* variable : variables)
    if (std::getenv(variable) != nullptr) return true;
  return false;
}

// What a user changes.
std::string remedy(int world) {
  if (std::getenv("SLURM_PROCID") != nullptr && std::getenv("SLURM_STEP_ID") != nullptr)
    return "srun gave it no MPI; use --launcher srun --launcher-arguments=--mpi=pmix";
  return fmt::format("start the workers with mpirun -n {}", world);
}

}  // namespace

std::shared_ptr<Communicator> join_mpi(int rank, int world) {
  const fs::path file = module();
  if (!has_launcher())
    throw std::runtime_error(
        fmt::format("[ranks] no MPI launcher started rank {} of {}: {}", rank, world, remedy(world)));
  // Plugins of Open MPI look for its symbols among the global ones.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw NoMpi(fmt::format("[ranks] MPI cannot be loaded: {}; run scripts/setup --mpi", ::dlerror()));
  using Join = Communicator* (*)(int, int);
  const auto join = reinterpret_cast<Join>(::dlsym(library, "assay_join_mpi"));
  if (join == nullptr)
    throw NoMpi(fmt::format("[ranks] {} has no assay_join_mpi: build it again", file.string()));
  return std::shared_ptr<Communicator>(join(rank, world));  // the module stays loaded
}

}  // namespace assay::collectives
