#pragma once
// Leveled lines on stderr: log::info("gguf", "mapped {} bytes={}", path, n). The first argument is
// the room that speaks. Thread-safe. Rooms return numbers in structs and let programs print them;
// the log is for what an operator needs when something goes wrong.
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace ds4::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };

// Lines below `level` are dropped; the default is kWarn.
void set_level(Level level);
bool enabled(Level level);

// One finished line; prefer the functions below.
void write(Level level, std::string_view room, std::string_view message);

template <typename... Args>
void debug(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kDebug)) {
    write(Level::kDebug, room, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void info(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kInfo)) {
    write(Level::kInfo, room, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void warn(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kWarn)) {
    write(Level::kWarn, room, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void error(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kError)) {
    write(Level::kError, room, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace ds4::log
