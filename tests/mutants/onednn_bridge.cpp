// The worker of onednn as a library for onednn_worker.py. Its executable is a mutant in Python, which calls that of
// onednn, so that the adapters in Python and the worker in C++ have the same mutants.
#include <dlfcn.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/onednn/backend.hpp"
#include "tests/unit/onednn/mistaken.hpp"

namespace {

using namespace assay;

struct Tensor {
  const char* name;
  std::int64_t dtype, rank;
  const std::int64_t* shape;
  const void* data;
};

// The arguments and results of all methods; each uses some. What they point to is valid until the next call.
struct Call {
  const char* text = nullptr;
  std::int64_t slot = 0, number = 0;
  double value = 0;
  void* inputs = nullptr;
  const std::int32_t* labels = nullptr;
  float* logits = nullptr;
  const Tensor* tensors = nullptr;
  std::int64_t count = 0;
};

using State = std::vector<HostTensor>;

// Tensors that the other side reads.
struct Lent {
  State tensors;
  std::vector<Tensor> described;

  void lend(State given, Call& call) {
    tensors = std::move(given);
    described.clear();
    for (const HostTensor& tensor : tensors)
      described.push_back({tensor.name.c_str(), static_cast<std::int64_t>(tensor.type.dtype),
                           static_cast<std::int64_t>(tensor.type.shape.size()), tensor.type.shape.data(),
                           tensor.bytes.data()});
    call.tensors = described.data();
    call.count = std::ssize(described);
  }
};

State taken(const Call& call) {
  State found;
  for (const Tensor& tensor : std::span(call.tensors, static_cast<std::size_t>(call.count))) {
    const TensorType type{static_cast<DType>(tensor.dtype), {tensor.shape, tensor.shape + tensor.rank}};
    found.push_back(HostTensor::zeros(tensor.name, type));
    std::memcpy(found.back().bytes.data(), tensor.data, found.back().bytes.size());
  }
  return found;
}

// The side of onednn: what the adapter in Python calls.
class Right {
 public:
  void begin(const std::string& module, const std::string& mistake) {
    backend.emplace([this, module, mistake](int rank, int world) {
      void* library = ::dlopen(module.c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (library == nullptr) throw std::runtime_error(::dlerror());
      using Join = collectives::Communicator* (*)(int, int);
      communicator_.reset(reinterpret_cast<Join>(::dlsym(library, "assay_join_mpi"))(rank, world));
      return std::make_shared<onednn::ranks::Mistaken>(communicator_, mistake);
    });
  }
  void end() {
    executable_.reset();
    backend.reset();
    communicator_.reset();  // ends MPI
  }

  void call(const std::string& method, Call& call) {
    if (method == "compile")
      executable_ = backend->compile(program_from_json(nlohmann::json::parse(call.text)), options);
    else if (method == "set_state")
      executable_->set_state(taken(call));
    else if (method == "state")
      lent_.lend(executable_->state(), call);
    else if (method == "stage")
      executable_->stage(call.slot, {call.inputs, call.labels});
    else if (method == "step")
      executable_->step(call.slot, call.value, call.number);
    else if (method == "synchronize")
      executable_->synchronize();
    else if (method == "loss")
      call.value = executable_->loss();
    else if (method == "results")
      lent_.lend(executable_->results(), call);
    else if (method == "evaluate")
      executable_->evaluate({call.inputs, nullptr}, call.logits);
    else if (method == "supply_masks")
      executable_->supply_masks(taken(call));
    else if (method == "masks")
      lent_.lend(executable_->masks(), call);
    else if (method == "memory")
      lent_.lend(described(executable_->memory()), call);
    else if (method == "agree")
      call.number = executable_->agree(call.number);
    else if (method == "sum")
      communicator_->sum(static_cast<float*>(call.inputs), call.number);
    else
      throw std::logic_error("[bridge] no method " + method);
  }

  std::optional<onednn::OnednnBackend> backend{};
  CompileOptions options{};

 private:
  static State described(const std::map<std::string, std::int64_t>& sizes) {
    State found;
    for (const auto& [name, size] : sizes) {
      found.push_back(HostTensor::zeros(name, {DType::f64, {}}));
      found.back().as<double>().front() = static_cast<double>(size);
    }
    return found;
  }

  std::shared_ptr<collectives::Communicator> communicator_{};  // null: there is one rank
  std::unique_ptr<Executable> executable_{};
  Lent lent_{};
};

Right right;
std::string error;
int (*python)(const char* method, Call* call) = nullptr;  // 0: it has failed

// The side of the worker library: an executable that is in Python.
class Bridged final : public Executable {
 public:
  Bridged() { ask("compile"); }

  void set_state(std::span<const HostTensor> tensors) override { give("set_state", tensors); }
  State state() override { return taken(ask("state")); }
  void stage(std::int64_t slot, const HostBatch& batch) override {
    ask("stage", {.slot = slot, .inputs = const_cast<void*>(batch.inputs), .labels = batch.labels});
  }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    ask("step", {.slot = slot, .number = number, .value = rate});
  }
  void synchronize() override { ask("synchronize"); }
  double loss() override { return ask("loss").value; }
  State results() override { return taken(ask("results")); }
  void evaluate(const HostBatch& batch, float* logits) override {
    ask("evaluate", {.inputs = const_cast<void*>(batch.inputs), .logits = logits});
  }
  void supply_masks(std::span<const HostTensor> masks) override { give("supply_masks", masks); }
  State masks() override { return taken(ask("masks")); }
  std::int64_t agree(std::int64_t value) override { return ask("agree", {.number = value}).number; }
  std::map<std::string, std::int64_t> memory() const override {
    std::map<std::string, std::int64_t> sizes;
    for (const HostTensor& size : taken(ask("memory")))
      sizes[size.name] = static_cast<std::int64_t>(size.as<double>().front());
    return sizes;
  }

 private:
  static Call ask(const char* method, Call call = {}) {
    if (python(method, &call) == 0) throw std::runtime_error(error);
    return call;
  }
  static void give(const char* method, std::span<const HostTensor> tensors) {
    Lent lent;
    Call call;
    lent.lend({tensors.begin(), tensors.end()}, call);
    ask(method, call);
  }
};

class BridgedBackend final : public Backend {
 public:
  BackendInfo info() const override { return right.backend->info(); }
  bool has_ranks() const override { return true; }
  std::string unsupported(const Program& program, const CompileOptions& options) const override {
    return right.backend->unsupported(program, options);
  }
  std::unique_ptr<Executable> compile(const Program&, const CompileOptions& options) override {
    right.options = options;
    return std::make_unique<Bridged>();
  }
};

}  // namespace

extern "C" {

// Calls a method of the executable of onednn. 0: it has failed.
int assay_call(const char* method, Call* call) {
  try {
    right.call(method, *call);
    return 1;
  } catch (const std::exception& caught) {
    error = caught.what();
    return 0;
  }
}
const char* assay_error() { return error.c_str(); }
void assay_fail(const char* text) { error = text; }

// Runs the worker of a cell. `module`: that of MPI, for several ranks, with a mistake of their communicator.
int assay_serve(char* cell_folder, const char* module, const char* mistake,
                int (*called)(const char*, Call*)) {
  python = called;
  right.begin(module, mistake);
  int status = 0;
  {
    BridgedBackend backend;
    char name[] = "onednn_worker.py";
    char* arguments[] = {name, cell_folder, nullptr};
    status = worker_main(2, arguments, backend);
  }
  right.end();
  return status;
}
}
