#pragma once
// How our programs end.

namespace ds4::app {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

}  // namespace ds4::app
