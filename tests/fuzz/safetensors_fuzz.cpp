// A whole .safetensors file of arbitrary bytes. What is accepted must be true: each tensor lies
// inside the file, has the bytes its shape and type call for, and shares none with another.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "safetensors/header.h"

namespace ds4 {
namespace {

void check_tensor(const safetensors::TensorInfo& tensor, std::span<const std::byte> file) {
  DS4_CHECK(tensor.bytes >= 0);
  DS4_CHECK(tensor.data >= file.data());
  DS4_CHECK(tensor.bytes <= file.data() + file.size() - tensor.data);
  int64_t n_elements = 1;
  for (const int64_t dim : tensor.shape) {
    DS4_CHECK(dim >= 0);
    DS4_CHECK(!__builtin_mul_overflow(n_elements, dim, &n_elements));
  }
  DS4_CHECK(tensor.n_elements() == n_elements);
  DS4_CHECK(tensor.bytes == n_elements * safetensors::element_bytes(tensor.type));
  DS4_CHECK(!tensor.shape_text().empty());
}

}  // namespace
}  // namespace ds4

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ds4;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  auto tensors = safetensors::parse_file(bytes, "input.safetensors");
  if (!tensors) {
    DS4_CHECK(tensors.error().message.find("input.safetensors") != std::string::npos);
    return 0;
  }
  std::sort(tensors->begin(), tensors->end(),
            [](const auto& a, const auto& b) { return a.data < b.data; });
  const std::byte* free_from = bytes.data();
  for (const safetensors::TensorInfo& tensor : *tensors) {
    check_tensor(tensor, bytes);
    if (tensor.bytes == 0) continue;
    DS4_CHECK(tensor.data >= free_from);
    free_from = tensor.data + tensor.bytes;
  }
  return 0;
}
