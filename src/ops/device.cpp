#include "ops/device.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

namespace ds4 {

// Anonymous mappings: page-aligned, zero until touched, given back whole, and a size that the
// system cannot promise is an error here instead of a kill later.
Result<Buffer> HostDevice::allocate(int64_t size_bytes) {
  DS4_CHECK(size_bytes >= 0);
  const size_t size = static_cast<size_t>(size_bytes < 64 ? 64 : size_bytes);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::kOutOfMemory, fmt::format("cannot allocate {} bytes", size_bytes));
  }
  return Buffer(static_cast<std::byte*>(data), size_bytes,
                [size](std::byte* p) { munmap(p, size); });
}

void HostDevice::upload(std::byte* device, std::span<const std::byte> host) {
  if (!host.empty()) std::memcpy(device, host.data(), host.size());
}

void HostDevice::download(std::span<std::byte> host, const std::byte* device) {
  if (!host.empty()) std::memcpy(host.data(), device, host.size());
}

void HostDevice::copy(std::byte* dst, const std::byte* src, int64_t size_bytes) {
  if (size_bytes > 0) std::memmove(dst, src, static_cast<size_t>(size_bytes));
}

}  // namespace ds4
