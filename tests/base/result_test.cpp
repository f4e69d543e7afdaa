// Errors as values: the try macros pass them on, fail_within() says where they came from.
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/check.h"

namespace ds4 {
namespace {

Result<std::unique_ptr<int>> positive(int value) {
  if (value <= 0) return fail(ErrorCode::kInvalidArgument, "expected a positive number");
  return std::make_unique<int>(value);
}

Result<void> accept(int value) {
  if (value == 13) return fail(ErrorCode::kUnsupported, "13 is not supported");
  return {};
}

Result<int> twice(int value) {
  DS4_TRY_VOID(accept(value));
  DS4_TRY(const auto owned, positive(value));  // move-only values pass through
  return 2 * *owned;
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(twice(4).value(), 8);
  EXPECT_EQ(twice(13).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(twice(-1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(twice(-1).error().message, "expected a positive number");
}

TEST(Result, FailWithinPutsThePlaceInFront) {
  const Result<void> r = fail_within("models/a.gguf", Error{ErrorCode::kCorrupt, "short header"});
  EXPECT_EQ(r.error().message, "models/a.gguf: short header");
  EXPECT_EQ(r.error().code, ErrorCode::kCorrupt);
}

TEST(CheckDeathTest, NamesConditionFileAndNote) {
  const int two = 2;
  DS4_CHECK(two == 2, "holds");
  EXPECT_DEATH(DS4_CHECK(two == 3), "two == 3.*");
  EXPECT_DEATH(DS4_CHECK(two == 3, "arithmetic"), "result_test.cpp|arithmetic");
}

}  // namespace
}  // namespace ds4
