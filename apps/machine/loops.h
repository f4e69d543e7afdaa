#pragma once
// Between limits.cpp and loops.cpp.
#include <string>

namespace ds4::machine {

// The instruction set the loops run on.
std::string target_name();

}  // namespace ds4::machine
