#pragma once
// What this machine can do at best, measured: bytes read from memory and from a core's cache, and
// multiply-adds on 8-bit integers and 32-bit floats. Kernels are judged by their share of these.
//
// The loops are written with Highway like the kernels and run on the best instruction set there is:
//
//   read        all bytes are added up, in order; nothing is written. From memory once in pages of
//               4 KiB, as files are mapped, and once in large ones where the system gives them
//   int8        unsigned times signed bytes, added in fours to 32-bit sums, operands from the L1
//               cache, as the dot products of quantized weights do
//   f32         fused multiply-adds, one operand from the L1 cache
//
// Each is measured many times for a few milliseconds, by the wall clock. `best` is the limit: other
// work on the machine only ever makes it look slower, and between two time slices there is none.
// `median` says how much there was. Single-thread from outside.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace ds4::machine {

struct Rate {
  double best = 0;  // 10^9 a second
  double median = 0;
};

struct Options {
  int n_threads = 0;  // for the figures of all threads; below 1: one per processor
  int64_t memory_bytes = int64_t{512} << 20;  // walked for memory reads; each thread has its part
  int64_t cache_bytes = int64_t{256} << 10;   // of each thread, for cache reads
  int repeat = 64;
  double seconds = 0.002;  // of one measurement, at least
  // Called before each limit is measured; true ends with kCancelled.
  std::function<bool(const char* what)> before;
};

// With one thread and with all of them.
struct Limit {
  Rate one, all;
};

struct Limits {
  std::string target;  // the instruction set of the loops: "AVX3_DL"
  int n_threads = 1;
  Limit memory_read;  // GB/s, pages of 4 KiB
  Limit memory_read_large;
  Limit cache_read;  // GB/s
  Limit int8;        // GMAC/s
  Limit f32;         // GFMA/s
};

// Takes about three seconds. Errors: kOutOfMemory with the bytes asked for, kCancelled.
Result<Limits> measure(const Options& options);

// The loops themselves, for benchmarks that want to run one beside a kernel.
//
// The sum of all 64-bit words of [data, data + bytes); `bytes` a multiple of 8.
uint64_t read_bytes(const std::byte* data, int64_t bytes);
// `rounds` passes over kOperandBytes of operands. Returns something that depends on every product.
inline constexpr int64_t kOperandBytes = 6144;
int64_t int8_multiply_adds(const std::byte* operands, int64_t rounds);
float f32_multiply_adds(const std::byte* operands, int64_t rounds);
// Multiply-adds of one round.
inline constexpr int64_t kInt8PerRound = kOperandBytes;
inline constexpr int64_t kF32PerRound = kOperandBytes / 4;

}  // namespace ds4::machine
