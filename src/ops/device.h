#pragma once
// Where tensors live. A host device hands out ordinary memory; an accelerator hands out its own and
// moves bytes. Buffers own device bytes and give them back when destroyed; the Device must outlive
// them. Thread-compatible.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "tensor/tensor.h"

namespace ds4 {

class Buffer {
 public:
  Buffer() = default;
  Buffer(std::byte* data, int64_t size_bytes, std::function<void(std::byte*)> release)
      : data_(data), size_(size_bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        release_(std::move(other.release_)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(release_, other.release_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) release_(data_);
  }

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  std::function<void(std::byte*)> release_;
};

class Device {
 public:
  virtual ~Device() = default;

  // Bytes aligned to 64; contents undefined. Host memory is committed by the system on first touch.
  // Errors: kOutOfMemory with the size asked for.
  virtual Result<Buffer> allocate(int64_t size_bytes) = 0;

  // Copies between host memory and this device; both are complete, and visible to later ops, on
  // return.
  virtual void upload(std::byte* device, std::span<const std::byte> host) = 0;
  virtual void download(std::span<std::byte> host, const std::byte* device) = 0;
  virtual void copy(std::byte* dst, const std::byte* src, int64_t size_bytes) = 0;

  // Waits for everything issued so far. Errors: kDevice; the device can then only be destroyed.
  virtual Result<void> synchronize() = 0;

  // For people: "cpu, AVX-512, 2 threads".
  virtual std::string description() const = 0;
};

// The device of every host backend: plain memory, everything complete at once.
class HostDevice final : public Device {
 public:
  explicit HostDevice(std::string description) : description_(std::move(description)) {}
  Result<Buffer> allocate(int64_t size_bytes) override;
  void upload(std::byte* device, std::span<const std::byte> host) override;
  void download(std::span<std::byte> host, const std::byte* device) override;
  void copy(std::byte* dst, const std::byte* src, int64_t size_bytes) override;
  Result<void> synchronize() override { return {}; }
  std::string description() const override { return description_; }

 private:
  std::string description_;
};

}  // namespace ds4
