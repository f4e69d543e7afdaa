#pragma once
// DS4_CHECK(cond, ...): a programmer error stops the program with file, line and the condition.
// Input from outside never reaches a check; a parser turned it into a Result first.
// DS4_DCHECK is for inner loops and vanishes when NDEBUG is set.

namespace ds4 {

// Prints the failed condition to stderr and aborts. `note` may be empty.
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const char* note = "");

}  // namespace ds4

#define DS4_CHECK(cond, ...) \
  ((cond) ? (void)0 : ::ds4::check_failed(#cond, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__))

#ifdef NDEBUG
#define DS4_DCHECK(cond) ((void)0)
#else
#define DS4_DCHECK(cond) DS4_CHECK(cond)
#endif
