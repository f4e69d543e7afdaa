#pragma once
// Which instruction sets the kernels are compiled for. Include this before anything of Highway.
//
//   x86   SSE2 (what every x86-64 has), SSE4, AVX2 + FMA, AVX-512, AVX-512 with VNNI
//   Arm   NEON, as every 64-bit Arm has it
//
// Left out: SSSE3, which no machine of interest stops at; Zen 4 and Sapphire Rapids flavours, whose
// additions (bf16 products) would round differently; NEON with AES, fp16 or bf16, of which no
// kernel has a use (Highway 1.2 makes no dot product instructions of theirs) and for which GCC 12
// does not compile a struct of vectors without a constructor of its own; SVE, whose vectors have no
// compile-time length.
//
// Bits. Every kernel has one order of additions, written for 8 or 16 lanes whatever the vectors'
// width, and every target here but SSE2 and SSE4 has a fused multiply-add. So AVX2, AVX-512,
// VNNI and NEON give the same bits; the two SSE targets agree with each other and differ from the
// rest in last bits of f32 sums. Sums of integer products are exact everywhere.
//
// Sanitizers look at where a kernel reads and writes, which depends on the vectors' width alone. So
// with them one target of each width is compiled, in less than half the time.

#define HWY_WANT_AVX3_DL
#ifdef DS4_SANITIZED
#define DS4_TWIN_TARGETS (HWY_SSE4 | HWY_AVX3)
#else
#define DS4_TWIN_TARGETS 0
#endif
#define HWY_DISABLED_TARGETS                                                                  \
  (HWY_SSSE3 | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_NEON | HWY_NEON_BF16 | HWY_SVE | HWY_SVE2 | \
   HWY_SVE_256 | HWY_SVE2_128 | DS4_TWIN_TARGETS)
