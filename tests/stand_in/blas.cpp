// cuBLASLt: descriptions, a heuristic that names three algorithms, and the product.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "tests/stand_in/machine.hpp"
#include "tests/stand_in/numbers.hpp"

using namespace assay::stand_in;

struct cublasLtContext {};

namespace {

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;

  Number number() const { return type == CUDA_R_16BF ? Number::bf16 : Number::f32; }
  std::int64_t bytes() const {
    return ((batch - 1) * stride + (columns - 1) * leading + rows) * size_of(number());
  }
};

struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;

  bool has_bias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool has_relu() const { return (epilogue & CUBLASLT_EPILOGUE_RELU) != 0; }
};

struct Preference {
  std::uint64_t max_workspace = 0;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};
};

// What is in the eight numbers of a cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t id, workspace, product;
  std::array<std::uint32_t, 4> alignments;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
constexpr std::uint64_t wrong_algorithm = 24;
// The first, which adds to its result only.
constexpr std::uint64_t algorithm_in_place = 21;

// What a handle of cuBLASLt points to; its own type is for structs of a fixed size.
template <typename T>
const T& described(const void* handle) {
  return *static_cast<const T*>(handle);
}

template <typename T, typename Handle>
cublasStatus_t create(Handle* handle, T value) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = reinterpret_cast<Handle>(new T(std::move(value)));
  hold("descriptions of cuBLASLt", 1);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T, typename Handle>
cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<T*>(handle);
  hold("descriptions of cuBLASLt", -1);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T>
cublasStatus_t take(T& attribute, const void* bytes, std::size_t size) {
  if (bytes == nullptr || size != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, bytes, size);
  return CUBLAS_STATUS_SUCCESS;
}

// d = epilogue(alpha op(a) op(b) + beta d), column by column.
struct Product {
  Operation operation;
  Layout a, b, d;
  std::int64_t m = 0, n = 0, k = 0;

  // A number that another product is unlikely to have.
  std::uint64_t digest() const {
    std::uint64_t sum = 1469598103934665603U;
    const auto add = [&](std::int64_t value) {
      sum = (sum ^ static_cast<std::uint64_t>(value)) * 1099511628211U;
    };
    for (const Layout* l : {&a, &b, &d}) {
      for (const std::int64_t value :
           {std::int64_t{l->type}, l->rows, l->columns, l->leading, std::int64_t{l->batch}, l->stride})
        add(value);
    }
    add(operation.compute);
    add(operation.a);
    add(operation.b);
    add(operation.epilogue);
    return sum;
  }
};

// Nothing if the descriptions do not belong together.
std::optional<Product> product_of(const Operation& operation, const Layout& a, const Layout& b,
                                  const Layout& c, const Layout& d) {
  const bool ta = operation.a == CUBLAS_OP_T, tb = operation.b == CUBLAS_OP_T;
  Product p{operation, a, b, d, ta ? a.columns : a.rows, tb ? b.rows : b.columns, ta ? a.rows : a.columns};
  const bool shapes = (tb ? b.columns : b.rows) == p.k && d.rows == p.m && d.columns == p.n;
  const bool same = c.rows == d.rows && c.columns == d.columns && c.leading == d.leading &&
                    c.type == d.type && c.batch == d.batch && c.stride == d.stride;
  const bool batches = a.batch == d.batch && b.batch == d.batch;
  const bool types = a.type == b.type && (d.type == CUDA_R_32F || d.type == a.type);
  // A bias has the type of the result.
  if (!shapes || !same || !batches || !types || (operation.has_bias() && d.type != CUDA_R_32F)) return {};
  return p;
}

// op(matrix), of `rows` rows that lie one after the other.
std::vector<float> rows_of(const Layout& layout, const void* base, std::int32_t batch, bool transposed,
                           std::int64_t rows, std::int64_t columns, bool tf32) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t at =
          batch * layout.stride + (transposed ? r * layout.leading + c : c * layout.leading + r);
      const auto value = static_cast<float>(load(base, layout.number(), at));
      values[static_cast<std::size_t>(r * columns + c)] = tf32 ? to_tf32(value) : value;
    }
  }
  return values;
}

void multiply(const Product& p, const void* a, const void* b, const void* c, void* d, double alpha,
              double beta) {
  constexpr const char* user = "cublasLtMatmul";
  if (!check_range(a, p.a.bytes(), user) || !check_range(b, p.b.bytes(), user) ||
      !check_range(d, p.d.bytes(), user))
    return;
  if (beta != 0 && !check_range(c, p.d.bytes(), user)) return;
  const Operation& o = p.operation;
  if (o.has_bias() && !check_range(o.bias, p.m * size_of(Number::f32), user)) return;
  const bool tf32 = o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type == CUDA_R_32F;
  for (std::int32_t batch = 0; batch < p.d.batch; ++batch) {
    const std::vector<float> left = rows_of(p.a, a, batch, o.a == CUBLAS_OP_T, p.m, p.k, tf32);
    const std::vector<float> right = rows_of(p.b, b, batch, o.b == CUBLAS_OP_T, p.k, p.n, tf32);
    std::vector<double> sums(static_cast<std::size_t>(p.n));
    for (std::int64_t i = 0; i < p.m; ++i) {
      std::ranges::fill(sums, 0.0);
      for (std::int64_t k = 0; k < p.k; ++k) {
        const auto x = static_cast<double>(left[static_cast<std::size_t>(i * p.k + k)]);
        const float* const row = right.data() + k * p.n;
        for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += x * static_cast<double>(row[j]);
      }
      for (std::int64_t j = 0; j < p.n; ++j) {
        const std::int64_t at = batch * p.d.stride + j * p.d.leading + i;
        double sum = alpha * sums[static_cast<std::size_t>(j)];
        if (beta != 0) sum += beta * load(c, p.d.number(), at);
        if (o.has_bias()) sum += load(o.bias, Number::f32, i);
        store(d, p.d.number(), at, o.has_relu() && sum < 0 ? 0 : sum);
      }
    }
  }
}

}  // namespace

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality is not supported";
    default:
      return "an unsupported value or parameter was passed to the function";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!find_memory()) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = new cublasLtContext;
  hold("handles of cuBLASLt", 1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  hold("handles of cuBLASLt", -1);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  Operation operation;
  operation.compute = compute;
  return create(handle, operation);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) { return destroy<Operation>(handle); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute, const void* bytes,
                                              std::size_t size) {
  auto& operation = *reinterpret_cast<Operation*>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(operation.a, bytes, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(operation.b, bytes, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(operation.epilogue, bytes, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(operation.bias, bytes, size);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  if ((type != CUDA_R_32F && type != CUDA_R_16BF) || leading < static_cast<std::int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  return create(handle,
                Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) { return destroy<Layout>(handle); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* bytes,
                                                std::size_t size) {
  auto& layout = *reinterpret_cast<Layout*>(handle);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take(layout.batch, bytes, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(layout.stride, bytes, size);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return create(handle, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy<Preference>(handle);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* bytes, std::size_t size) {
  auto& preference = *reinterpret_cast<Preference*>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(preference.max_workspace, bytes, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return take(preference.alignments[0], bytes, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return take(preference.alignments[1], bytes, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return take(preference.alignments[2], bytes, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(preference.alignments[3], bytes, size);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

// The first has the smallest workspace; the fastest is the second.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* returned) {
  *returned = 0;
  if (handle == nullptr || requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const auto product = product_of(described<Operation>(operation), described<Layout>(a), described<Layout>(b),
                                  described<Layout>(c), described<Layout>(d));
  if (!product) return CUBLAS_STATUS_INVALID_VALUE;
  const auto& preferred = described<Preference>(preference);
  constexpr std::pair<std::uint64_t, std::uint64_t> known[] = {
      {algorithm_in_place, 330}, {22, 5000}, {23, 70001}, {wrong_algorithm, 0}};  // id, workspace
  for (const auto& [id, workspace] : known) {
    if (*returned == requested || workspace > preferred.max_workspace) continue;
    if (id == wrong_algorithm && !machine().conditions.has_wrong_engines) continue;
    const Algorithm algorithm{id, workspace, product->digest(), preferred.alignments};
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return *returned > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void* value,
                                                 std::size_t size, std::size_t* written) {
  if (attribute != CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT || size != sizeof(std::int32_t))
    return CUBLAS_STATUS_INVALID_VALUE;
  const std::int32_t has = algorithm->data[0] == algorithm_in_place ? 0 : 1;
  std::memcpy(value, &has, sizeof has);
  *written = sizeof has;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t size, std::size_t* written) {
  if (attribute != CUBLASLT_ALGO_CONFIG_ID || size != sizeof(std::int32_t))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto id = static_cast<std::int32_t>(algorithm->data[0]);
  std::memcpy(value, &id, sizeof id);
  *written = sizeof id;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr || chosen == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (c != d && chosen->data[0] == algorithm_in_place) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto product =
      product_of(described<Operation>(operation), described<Layout>(a_layout), described<Layout>(b_layout),
                 described<Layout>(c_layout), described<Layout>(d_layout));
  Algorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  if (!product || product->digest() != algorithm.product) return CUBLAS_STATUS_INVALID_VALUE;
  // "Must be 256B aligned (i.e. lowest 8 bits of address must be 0)"
  if (workspace_bytes < algorithm.workspace || !is_aligned(workspace, 256))
    return CUBLAS_STATUS_INVALID_VALUE;
  const std::array<const void*, 4> operands{a, b, c, d};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!is_aligned(operands[i], algorithm.alignments[i])) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (product->operation.has_bias() && product->operation.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  enqueue(stream, [=, p = *product, alpha_value = static_cast<double>(*static_cast<const float*>(alpha)),
                   beta_value = static_cast<double>(*static_cast<const float*>(beta))] {
    const bool is_wrong = algorithm.id == wrong_algorithm;
    machine().microseconds += is_wrong ? 0.5 : algorithm.id == 22 ? 1 : 10;
    spoil_workspace(workspace, static_cast<std::int64_t>(algorithm.workspace), "cublasLtMatmul");
    multiply(p, a, b, c, d, is_wrong ? 1.02 * alpha_value : alpha_value, beta_value);
  });
  return CUBLAS_STATUS_SUCCESS;
}
