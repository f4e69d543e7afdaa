// Some hundred random operations a seed; tests/tools/session_soak runs them for hours.
#include "tests/engine/random_sessions.h"

#include <gtest/gtest.h>

namespace ds4::test {
namespace {

TEST(RandomSessions, AlwaysHoldWhatAColdRunHolds) {
#ifdef DS4_SANITIZED
  constexpr int kSteps = 20;
#else
  constexpr int kSteps = 200;
#endif
  for (uint32_t seed : {1, 2, 3}) {
    RandomSessions sessions(BackendKind::kCpu, seed, /*ctx_tokens=*/300);
    for (int i = 0; i < kSteps; ++i) {
      const std::string wrong = sessions.step();
      ASSERT_EQ(wrong, "") << "seed " << seed;
    }
    EXPECT_GT(sessions.n_reused(), 0);
  }
}

}  // namespace
}  // namespace ds4::test
