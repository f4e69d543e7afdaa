#include "tests/backend/backend_test.h"

#include <fmt/format.h>

#include <map>

#include "backend/cpu/cpu_ops.h"
#include "backend/reference/reference_ops.h"
#include "quant/codec.h"

namespace ds4::test {

Array::Array(DType dtype, const Shape& shape)
    : bytes_(static_cast<size_t>(shape.n_rows() * row_bytes(dtype, shape.n_cols())) + 1),
      dtype_(dtype),
      shape_(shape) {}

Array random_floats(const Shape& shape, uint32_t seed, float sigma) {
  Array out = floats(shape);
  std::mt19937 gen(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  for (int64_t i = 0; i < out.n(); ++i) out.f()[i] = normal(gen);
  return out;
}

Array encoded(DType type, const Array& values) {
  const ConstTensor v = values.tensor();
  Array out(type, v.shape());
  const std::vector<float> importance(static_cast<size_t>(v.n_cols()), 1.0f);
  for (int64_t r = 0; r < v.n_rows(); ++r) {
    EXPECT_TRUE(
        encode_row(type, v.row<float>(r), importance.data(), out.tensor().row_data(r), v.n_cols()));
  }
  return out;
}

const Array& random_weights(DType type, const Shape& shape, uint32_t seed) {
  // Kept, because the search of IQ2_XXS takes far longer than any test that uses its blocks.
  static std::map<std::string, Array> made;
  const std::string key = fmt::format("{} {} {}", dtype_name(type), shape.to_string(), seed);
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  return made.emplace(key, encoded(type, random_floats(shape, seed, 0.05f))).first->second;
}

Array decoded(const Array& values) {
  const ConstTensor v = values.tensor();
  Array out = floats(v.shape());
  for (int64_t r = 0; r < v.n_rows(); ++r) {
    decode_row(v.dtype(), v.row_data(r), out.tensor().row<float>(r), v.n_cols());
  }
  return out;
}

std::string host_name(Host host) {
  switch (host) {
    case Host::kReference:
      return "reference";
    case Host::kCpuFloat:
      return "cpu_float";
    case Host::kCpuInteger:
      return "cpu_integer";
  }
  return "";
}

HostBackend make_host(Host host, int n_threads) {
  HostBackend out{std::make_unique<ThreadPool>(n_threads), nullptr};
  if (host == Host::kReference) {
    out.ops = std::make_unique<reference::ReferenceOps>(*out.pool);
  } else {
    out.ops = std::make_unique<cpu::CpuOps>(
        *out.pool, cpu::CpuOptions{.integer_activations = host == Host::kCpuInteger});
  }
  return out;
}

double relative_l2(const Array& got, const Array& want) {
  double error = 0, norm = 0;
  for (int64_t i = 0; i < want.n(); ++i) {
    if (!std::isfinite(got.f()[i])) return INFINITY;
    const double delta = static_cast<double>(got.f()[i]) - static_cast<double>(want.f()[i]);
    error += delta * delta;
    norm += static_cast<double>(want.f()[i]) * static_cast<double>(want.f()[i]);
  }
  return std::sqrt(error / (norm > 0 ? norm : 1));
}

}  // namespace ds4::test
