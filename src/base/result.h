#pragma once
// How this project reports failure.
//
// Operating errors (files, requests, memory, devices, limits) are values: a function that can fail
// returns Result<T>. Programmer errors stop the program through DS4_CHECK. Nothing throws.
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace ds4 {

enum class ErrorCode {
  kInvalidArgument,  // the caller or the user asked for something that has no meaning
  kNotFound,         // a file, key or tensor is not there
  kIo,               // the operating system refused to read or write
  kCorrupt,          // bytes that do not follow their format: truncated, damaged, hostile
  kUnsupported,      // well formed, but not something this engine runs
  kOutOfMemory,      // would not fit; the message has the sizes
  kContextFull,      // the prompt or the session is longer than the context
  kCancelled,        // stopped on request; the state is valid
  kDevice,           // a device fault; what used the device can only be destroyed
  kNonFinite,        // the model produced NaN or infinite logits
};

// What went wrong, in one line that says what was expected, what was found and where.
struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// Puts `context` in front of the message: fail_within("models/a.gguf", error) -> "models/a.gguf:
// ...".
inline tl::unexpected<Error> fail_within(std::string_view context, Error error) {
  error.message.insert(0, ": ");
  error.message.insert(0, context);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace ds4

#define DS4_CONCAT_INNER(a, b) a##b
#define DS4_CONCAT(a, b) DS4_CONCAT_INNER(a, b)
#define DS4_TRY_INNER(tmp, decl, expr)                                     \
  auto tmp = (expr);                                                       \
  if (!tmp) return ::tl::unexpected<::ds4::Error>(std::move(tmp.error())); \
  decl = std::move(*tmp)

// DS4_TRY(auto file, MappedFile::open(path)); declares `file`, or returns the error.
#define DS4_TRY(decl, expr) DS4_TRY_INNER(DS4_CONCAT(ds4_try_, __LINE__), decl, expr)

// DS4_TRY_VOID(check(x)); returns the error of a Result<void>.
#define DS4_TRY_VOID(expr)                   \
  if (auto ds4_status = (expr); !ds4_status) \
  return ::tl::unexpected<::ds4::Error>(std::move(ds4_status.error()))
