#pragma once
// Counts what a decode step must not do, in any thread of the program that step_counters.cpp is
// linked into: its functions stand in front of the C library's.
#include <cstdint>

namespace ds4::test {

struct StepCounts {
  int64_t allocations = 0;  // malloc family (operator new calls it) and mmap
  int64_t locks = 0;        // mutexes, condition variables, read-write locks
  int64_t environment = 0;  // getenv, secure_getenv
};

// From start to stop all threads count; counts are those in between.
void start_counting();
StepCounts stop_counting();

// Whether memory and locks can be counted in this build.
bool counts_memory_and_locks();

}  // namespace ds4::test
