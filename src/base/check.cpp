#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ds4 {

void check_failed(const char* condition, const char* file, int line, const char* note) {
  std::fprintf(stderr, "ds4: internal error: check failed: %s at %s:%d %s\n", condition, file, line,
               note);
  std::abort();
}

}  // namespace ds4
