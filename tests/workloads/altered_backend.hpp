// A backend that compiles another program than it was given.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tests/workloads/our_backends.hpp"

namespace assay {

class AlteredBackend final : public Backend {
 public:
  // `backend`: one of our_backends(), which compiles `program` in place of any other.
  AlteredBackend(const std::string& backend, Program program)
      : backend_(make_backend(backend)), program_(std::move(program)) {}
  BackendInfo info() const override { return backend_->info(); }
  std::string unsupported(const Program&, const CompileOptions& options) const override {
    return backend_->unsupported(program_, options);
  }
  std::unique_ptr<Executable> compile(const Program&, const CompileOptions& options) override {
    return backend_->compile(program_, options);
  }

 private:
  std::unique_ptr<Backend> backend_;
  Program program_;
};

}  // namespace assay
