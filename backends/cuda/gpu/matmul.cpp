#include "backends/cuda/gpu/matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <string_view>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/own_products.hpp"
#include "backends/cuda/workspace.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/worker/backend.hpp"

#define ASSAY_CUBLAS(call) ::assay::cuda::check_cublas(#call, call)

namespace assay::cuda {
namespace {

constexpr std::size_t max_product_workspace = std::size_t{32} << 20;

// One template for the descriptors: made by cublasLt...Create, destroyed by cublasLt...Destroy.
template <typename T, cublasStatus_t (*Destroy)(T)>
class Handle {
 public:
  Handle() = default;
  ~Handle() {
    if (value_ != nullptr) Destroy(value_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  T* out() { return &value_; }
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using Operation = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t cublas_type(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

// The largest power of two, at most 64, that divides the bytes of a row and of a product: the alignment of an
// operand that begins inside a buffer.
std::uint32_t alignment(std::int64_t row, std::int64_t stride, DType dtype) {
  std::uint32_t bytes = 64;
  while (bytes > 1 && (row * size_of(dtype) % bytes != 0 || stride * size_of(dtype) % bytes != 0)) bytes /= 2;
  return bytes;
}

// cuBLASLt is column-major, so it computes the transposed product c^T (n, m) = b^T a^T, whose operands are
// the row-major matrices in memory.
class LtMatmul final : public Matmul {
 public:
  LtMatmul(const MatmulSpec& spec, cublasLtHandle_t handle, cudaStream_t stream)
      : spec_(spec), handle_(handle), stream_(stream) {
    const cublasComputeType_t compute =
        spec.operands == DType::f32 && spec.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    ASSAY_CUBLAS(cublasLtMatmulDescCreate(operation_.out(), compute, CUDA_R_32F));
    const cublasOperation_t first = spec.tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = spec.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second);
    // With bf16 operands its bias would have to be bf16.
    fused_bias_ = spec.bias && spec.result == DType::f32;
    const bool fused_relu = spec.relu && (fused_bias_ || !spec.bias);
    const cublasLtEpilogue_t epilogue =
        fused_bias_  ? (fused_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
        : fused_relu ? CUBLASLT_EPILOGUE_RELU
                     : CUBLASLT_EPILOGUE_DEFAULT;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    make(b_, spec.operands, spec.tb ? spec.k : spec.n, spec.tb ? spec.n : spec.k, spec.ldb, spec.stride_b);
    make(a_, spec.operands, spec.ta ? spec.m : spec.k, spec.ta ? spec.k : spec.m, spec.lda, spec.stride_a);
    make(c_, spec.result, spec.n, spec.m, spec.ldc, spec.stride_c);
  }

  // Empty if cuBLASLt has no algorithm. The one that it expects to be the fastest is the first.
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms(int most) {
    Preference preference;
    ASSAY_CUBLAS(cublasLtMatmulPreferenceCreate(preference.out()));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      ASSAY_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), what, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, max_product_workspace);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(spec_.ldb, spec_.stride_b, spec_.operands));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(spec_.lda, spec_.stride_a, spec_.operands));
    const std::uint32_t of_c = alignment(spec_.ldc, spec_.stride_c, spec_.result);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_c);
    constexpr int more = 8;  // in the place of those that lack the addend
    const int asked = spec_.added ? most + more : most;
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(asked));
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
                                       preference.get(), asked, results.data(), &found);
    results.resize(has_algorithm(status, found) ? static_cast<std::size_t>(found) : 0);
    if (spec_.added)
      std::erase_if(results, [](const auto& result) { return !has_other_addend(result.algo); });
    if (results.size() > static_cast<std::size_t>(most)) results.resize(static_cast<std::size_t>(most));
    return results;
  }

  // how: "" or ":measured".
  void take(const cublasLtMatmulHeuristicResult_t& algorithm, const char* how = "") {
    chosen_ = algorithm;
    int id = 0;
    std::size_t written = 0;
    ASSAY_CUBLAS(cublasLtMatmulAlgoConfigGetAttribute(&chosen_.algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id,
                                                      &written));
    // One id has many tiles and splits, which are in the opaque bytes.
    const std::string_view bytes(reinterpret_cast<const char*>(chosen_.algo.data), sizeof chosen_.algo.data);
    name_ = fmt::format("cublasLt:{}:{}:workspace{}{}", id, sha256(bytes).substr(0, 8), chosen_.workspaceSize,
                        how);
  }

  // How often a result is rounded.
  int roundings() const { return spec_.bias && !fused_bias_ ? 2 : 1; }

  std::int64_t workspace_bytes() const override { return static_cast<std::int64_t>(chosen_.workspaceSize); }
  std::string name() const override { return name_; }

  void run(const void* a, const void* b, const float* bias, void* c, void* workspace) override {
    run_onto(c, a, b, bias, c, workspace);
  }
  void run_onto(const void* added, const void* a, const void* b, const float* bias, void* c,
                void* workspace) override {
    check_workspace("cublasLt", workspace, workspace_bytes());
    if (fused_bias_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
    const float scale = 1, keep = spec_.accumulate || spec_.added ? 1.0F : 0.0F;
    ASSAY_CUBLAS(cublasLtMatmul(handle_, operation_.get(), &scale, b, b_.get(), a, a_.get(), &keep, added,
                                c_.get(), c, c_.get(), &chosen_.algo, workspace, chosen_.workspaceSize,
                                stream_));
    if (spec_.bias && !fused_bias_)
      add_bias(Stream{stream_}, spec_.result, c, spec_.m * spec_.n, bias, spec_.n, 1, spec_.relu);
  }

 private:
  // Whether what is added may be another matrix than the result, which the heuristic is not asked.
  static bool has_other_addend(const cublasLtMatmulAlgo_t& algorithm) {
    std::int32_t has = 0;
    std::size_t written = 0;
    const auto status = cublasLtMatmulAlgoCapGetAttribute(
        &algorithm, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, &has, sizeof has, &written);
    return status == CUBLAS_STATUS_SUCCESS && has != 0;
  }

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t what, const T& value) {
    ASSAY_CUBLAS(cublasLtMatmulDescSetAttribute(operation_.get(), what, &value, sizeof value));
  }

  void make(MatrixLayout& layout, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t leading,
            std::int64_t stride) const {
    ASSAY_CUBLAS(cublasLtMatrixLayoutCreate(layout.out(), cublas_type(dtype),
                                            static_cast<std::uint64_t>(rows),
                                            static_cast<std::uint64_t>(columns), leading));
    if (spec_.batch == 1) return;
    const auto count = static_cast<std::int32_t>(spec_.batch);
    ASSAY_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                  sizeof count));
    ASSAY_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &stride, sizeof stride));
  }

  MatmulSpec spec_;
  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  Operation operation_;
  MatrixLayout a_, b_, c_;
  cublasLtMatmulHeuristicResult_t chosen_{};
  bool fused_bias_ = false;
  std::string name_;
};

// Operands and result of a product, of noise.
class LtAlgorithms final : public Engines {
 public:
  using Results = std::span<const cublasLtMatmulHeuristicResult_t>;
  LtAlgorithms(LtMatmul& product, const MatmulSpec& s, Results results, const Target& target, Memory& trial)
      : product_(product),
        result_(s.result),
        has_bias_(s.bias),
        results_(results),
        target_(target),
        trial_(trial),
        a_(noise(trial, (s.ta ? s.k : s.m) * s.lda + (s.batch - 1) * s.stride_a, s.operands, 0)),
        b_(noise(trial, (s.tb ? s.n : s.k) * s.ldb + (s.batch - 1) * s.stride_b, s.operands, 1)),
        c_(noise(trial, s.m * s.ldc + (s.batch - 1) * s.stride_c, s.result, 2)),
        added_(noise(trial, s.added ? elements_of(s) : 0, s.result, 4)),
        checked_(checked_part(s)),
        expected_(trial, elements_of(checked_) * size_of(s.result), purpose),
        bias_(noise(trial, s.n, DType::f32, 3)) {
    expected_.clear();
    run(*make_own_matmul(checked_, Stream{target.stream}), expected_, nullptr);
  }

  std::int64_t count() const override { return static_cast<std::int64_t>(results_.size()); }
  bool is_generated(std::int64_t) const override { return false; }
  bool build(std::int64_t) override { return true; }
  std::int64_t workspace_bytes(std::int64_t engine) const override {
    return static_cast<std::int64_t>(at(engine).workspaceSize);
  }
  std::optional<double> measure(std::int64_t engine, void* workspace) override {
    constexpr int calls = 10;
    try {
      product_.take(at(engine));
      return captured_seconds(target_, [&] { run(product_, c_, workspace); }, calls);
    } catch (const std::runtime_error&) {
      return std::nullopt;
    }
  }
  // Where the product is added to c, c is zero.
  double error(std::int64_t engine, void* workspace) override {
    product_.take(at(engine));
    c_.clear();
    run(product_, c_, workspace);
    return relative_distance(Stream{target_.stream}, trial_, result_, c_.data(), expected_.data(),
                             elements_of(checked_));
  }

 private:
  void run(Matmul& product, const Storage& c, void* workspace) {
    if (checked_.added)
      product.run_onto(added_.data(), a_.data(), b_.data(), bias(), c.data(), workspace);
    else
      product.run(a_.data(), b_.data(), bias(), c.data(), workspace);
  }
  const float* bias() const { return has_bias_ ? static_cast<const float*>(bias_.data()) : nullptr; }
  const cublasLtMatmulHeuristicResult_t& at(std::int64_t engine) const {
    return results_[static_cast<std::size_t>(engine)];
  }
  static Storage noise(Memory& trial, std::int64_t elements, DType dtype, std::uint32_t seed) {
    Storage storage(trial, elements * size_of(dtype), purpose);
    fill_with_noise(trial, storage.data(), storage.bytes(), dtype, seed);
    return storage;
  }
  // The first products, or the first rows of one: as much as our own kernel computes in a moment.
  static MatmulSpec checked_part(MatmulSpec spec) {
    constexpr std::int64_t max_terms = std::int64_t{1} << 33;
    const std::int64_t of_row = spec.n * std::max<std::int64_t>(spec.k, 1);
    spec.batch = std::clamp<std::int64_t>(max_terms / (spec.m * of_row), 1, spec.batch);
    if (spec.batch == 1) spec.m = std::clamp<std::int64_t>(max_terms / of_row, 1, spec.m);
    return spec;
  }
  static std::int64_t elements_of(const MatmulSpec& spec) {
    return spec.m * spec.ldc + (spec.batch - 1) * spec.stride_c;
  }
  static constexpr const char* purpose = "the search of a product's algorithm";

  LtMatmul& product_;
  DType result_;
  bool has_bias_;
  Results results_;
  const Target& target_;
  Memory& trial_;
  Storage a_, b_, c_, added_;
  MatmulSpec checked_;
  Storage expected_, bias_;
};

// Whether one of the results has the name that an earlier search chose.
bool take_given(LtMatmul& product, LtAlgorithms::Results results, const std::string& name,
                LtAlgorithm& algorithm) {
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    product.take(result, ":measured");
    if (product.name() != name) continue;
    algorithm = {result, true};
    return true;
  }
  return false;
}

}  // namespace

void describe_product(const MatmulSpec& spec) { LtMatmul(spec, nullptr, nullptr); }

std::unique_ptr<Matmul> make_lt_matmul(const MatmulSpec& spec, cublasLtHandle_t handle, const Target& target,
                                       Memory* trial, LtAlgorithm& algorithm) {
  auto product = std::make_unique<LtMatmul>(spec, handle, target.stream);
  if (algorithm.all_are_wrong) return nullptr;
  if (!algorithm.result) {
    const auto results = product->algorithms(trial != nullptr ? SearchLimits().built : 1);
    if (results.empty()) return nullptr;
    algorithm.result = results.front();
    if (trial != nullptr && take_given(*product, results, target.choices->given(text_of(spec)), algorithm)) {
      target.choices->reuse();
    } else if (trial != nullptr) {
      try {
        LtAlgorithms engines(*product, spec, results, target, *trial);
        SearchLimits limits;
        limits.error = allowed_error(spec.operands, spec.result, spec.tf32, spec.k, product->roundings());
        const SearchResult found = fastest_engine(engines, *trial, limits);
        for (const auto& [engine, error] : found.wrong) {
          product->take(results[static_cast<std::size_t>(engine)]);
          target.choices->refuse(product->name(), text_of(spec), error, limits.error);
        }
        if (found.fastest) {
          algorithm = {results[static_cast<std::size_t>(found.fastest->engine)], true};
        } else if (!found.wrong.empty()) {
          algorithm = {.all_are_wrong = true};
          return nullptr;
        }
      } catch (const OutOfMemory& error) {
        fmt::print(stderr, "[matmul] the heuristic's first algorithm is taken without a measurement: {}\n",
                   error.what());
      }
    }
  }
  product->take(*algorithm.result, algorithm.measured ? ":measured" : "");
  return product;
}

}  // namespace assay::cuda
