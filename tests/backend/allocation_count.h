#pragma once
// Counts every operator new of the program it is linked into (allocation_count.cpp replaces them).
#include <cstdint>

namespace ds4::test {

int64_t allocation_count();

}  // namespace ds4::test
