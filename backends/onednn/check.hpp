// Every oneDNN call goes through here, so that an error names the call and its arguments.
#pragma once

#include <dnnl.h>

#include <dnnl.hpp>
#include <string_view>
#include <utility>

namespace assay::onednn {

// Throws OutOfMemory, Unsupported if oneDNN has no implementation, or std::runtime_error:
// "[oneDNN] dnnl_primitive_execute(...) at file:line: runtime_error".
[[noreturn]] void fail(std::string_view call, dnnl_status_t status, std::string_view text, const char* file,
                       int line);

template <typename F>
decltype(auto) checked(std::string_view call, const char* file, int line, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const dnnl::error& e) {
    fail(call, e.status, e.message, file, line);
  }
}

}  // namespace assay::onednn

// A call of the C++ interface, which throws; returns the result of the call.
#define ASSAY_ONEDNN(...) \
  ::assay::onednn::checked(#__VA_ARGS__, __FILE__, __LINE__, [&]() -> decltype(auto) { return __VA_ARGS__; })

// A call of the C interface, which returns a status.
#define ASSAY_ONEDNN_C(...)                                                             \
  do {                                                                                  \
    if (const dnnl_status_t assay_status = (__VA_ARGS__); assay_status != dnnl_success) \
      ::assay::onednn::fail(#__VA_ARGS__, assay_status, "", __FILE__, __LINE__);        \
  } while (false)
