#include "backend/reference/dot.h"

// A plain loop, compiled once for each vector width and chosen when the program starts. The lanes
// fix the order of the additions and nothing is contracted, so every width gives the same bits.
// Thread sanitizer instruments the chooser, which runs before its runtime does; there one version
// must do.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define DS4_EVERY_VECTOR_WIDTH __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define DS4_EVERY_VECTOR_WIDTH
#endif

namespace ds4::reference {

DS4_EVERY_VECTOR_WIDTH
float dot(const float* a, const float* b, int64_t n) {
  double lane[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int l = 0; l < 16; ++l) {
      lane[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
    }
  }
  for (int l = 0; i < n; ++i, ++l) lane[l] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (int width = 8; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return static_cast<float>(lane[0]);
}

}  // namespace ds4::reference
