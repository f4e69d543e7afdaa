// Sizes as people write them, and what is said about those that are none.
#include "base/byte_size.h"

#include <gtest/gtest.h>

namespace ds4 {
namespace {

TEST(ByteSize, ReadsTheFormsThatThePageNames) {
  const std::pair<const char*, int64_t> cases[] = {
      {"8G", int64_t{8} << 30},
      {"512M", int64_t{512} << 20},
      {"1.5g", int64_t{3} << 29},
      {"64K", 65536},
      {"2T", int64_t{1} << 41},
      {"123456789", 123456789},
      {"8GiB", int64_t{8} << 30},
      {"8gb", int64_t{8} << 30},
      {"100B", 100},
      {"3.1G", 3328599654},
      {"1", 1},
      {"4611686018427387000", 4611686018427386880},
  };
  for (const auto& [text, bytes] : cases) {
    const auto size = parse_byte_size(text);
    ASSERT_TRUE(size) << text << ": " << size.error().message;
    EXPECT_EQ(*size, bytes) << text;
  }
}

TEST(ByteSize, WrongFormsNameTheRightOnes) {
  for (const char* text : {"", "G", "8X", "8 G", "-1", "-8G", "0", "0.0001K", "nan", "inf", "1e30",
                           "8GG", "8Gib!", "99999999T", " 8G", "0x10"}) {
    const auto size = parse_byte_size(text);
    ASSERT_FALSE(size) << text << " gave " << *size;
    EXPECT_EQ(size.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(size.error().message,
              "expected a size such as 8G, 512M, 1.5G or a number of bytes, found '" +
                  std::string(text) + "'");
  }
}

TEST(ByteSize, PrintsThreeDigitsOrSo) {
  EXPECT_EQ(format_byte_size(812), "812 bytes");
  EXPECT_EQ(format_byte_size(int64_t{57} << 20), "57.0 MiB");
  EXPECT_EQ(format_byte_size(5583457484), "5.20 GiB");
}

}  // namespace
}  // namespace ds4
