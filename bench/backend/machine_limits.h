#pragma once
// What one thread of this machine can do (machine/limits.h), measured in the run whose figures are
// held against it, at the first call; the same answer afterwards.
namespace ds4 {

struct MachineLimits {
  double read_bytes = 0;     // a second, from memory
  double int8_products = 0;  // multiplications of int8 that are added to int32
  double f32_products = 0;   // fused multiply-adds of f32
};

const MachineLimits& machine_limits();

}  // namespace ds4
