#pragma once
// What the backend tests share: arrays that own their memory, weights of every type, and the two
// host backends made by name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

namespace ds4::test {

// A tensor with its own zeroed memory.
class Array {
 public:
  Array() = default;
  Array(DType dtype, const Shape& shape);

  Tensor tensor() { return Tensor(bytes_.data(), dtype_, shape_); }
  ConstTensor tensor() const { return ConstTensor(bytes_.data(), dtype_, shape_); }
  operator Tensor() { return tensor(); }
  operator ConstTensor() const { return tensor(); }

  float* f() { return reinterpret_cast<float*>(bytes_.data()); }
  const float* f() const { return reinterpret_cast<const float*>(bytes_.data()); }
  int32_t* i32() { return reinterpret_cast<int32_t*>(bytes_.data()); }
  const int32_t* i32() const { return reinterpret_cast<const int32_t*>(bytes_.data()); }
  int64_t* i64() { return reinterpret_cast<int64_t*>(bytes_.data()); }
  int64_t n() const { return shape_.n_elements(); }
  int64_t n_bytes() const { return static_cast<int64_t>(bytes_.size()) - 1; }
  std::byte* data() { return bytes_.data(); }
  bool same_bits(const Array& other) const { return bytes_ == other.bytes_; }

 private:
  std::vector<std::byte> bytes_;
  DType dtype_ = DType::kF32;
  Shape shape_;
};

inline Array floats(const Shape& shape) { return Array(DType::kF32, shape); }
inline Array ints(const Shape& shape) { return Array(DType::kI32, shape); }

// Normal values, the same for the same seed.
Array random_floats(const Shape& shape, uint32_t seed, float sigma = 1.0f);
// f32 values encoded as `type`, every value equally important.
Array encoded(DType type, const Array& values);
// Random values as weights of `type`; the same object for the same arguments.
const Array& random_weights(DType type, const Shape& shape, uint32_t seed);
Array decoded(const Array& values);

constexpr DType kPlainTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr DType kBlockTypes[] = {DType::kQ8_0, DType::kMXFP4, DType::kQ4_K, DType::kQ2_K,
                                 DType::kIQ2_XXS};
constexpr DType kAllTypes[] = {DType::kF32,   DType::kF16,  DType::kBF16, DType::kQ8_0,
                               DType::kMXFP4, DType::kQ4_K, DType::kQ2_K, DType::kIQ2_XXS};

// The three ways a host computes: the oracle, the cpu backend of the hf32 profile, and that of the
// official one, whose block weights meet int8 activations.
enum class Host { kReference, kCpuFloat, kCpuInteger };

std::string host_name(Host host);

// Ops with their pool.
struct HostBackend {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ops> ops;
  Ops* operator->() const { return ops.get(); }
};

HostBackend make_host(Host host, int n_threads = 2);

// A test that runs on every host backend.
class OnEveryHost : public testing::TestWithParam<Host> {
 protected:
  HostBackend host = make_host(GetParam());
};

#define DS4_ON_EVERY_HOST(suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(, suite,                                                               \
                           testing::Values(Host::kReference, Host::kCpuFloat, Host::kCpuInteger), \
                           [](const auto& param_info) { return host_name(param_info.param); })

// ||got - want|| / ||want||, infinite when a value is not finite.
double relative_l2(const Array& got, const Array& want);

}  // namespace ds4::test
