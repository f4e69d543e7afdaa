// What a reader gives back, and every reason to refuse a file, with the sentence it must say.
#include "gguf/file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

#include "tests/gguf/builder.h"

namespace ds4::gguf {
namespace {

TEST(GgufFile, GivesKeysAndTensorsOfAGoodFile) {
  const Bytes bytes = good_file();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find("general.architecture")->as_string(), "deepseek4");
  EXPECT_EQ(file->find("deepseek4.block_count")->as_int(), 2);
  EXPECT_EQ(file->find("nothing"), nullptr);
  const auto tokens = file->find("tokenizer.ggml.tokens")->as_strings();
  ASSERT_TRUE(tokens);
  EXPECT_EQ(*tokens, (std::vector<std::string_view>{"a", "bc", ""}));

  const TensorInfo* three = file->find_tensor("three.weight");
  ASSERT_NE(three, nullptr);
  EXPECT_EQ(three->dims, (std::vector<int64_t>{3, 5, 7}));
  EXPECT_EQ(three->bytes, 210);
  const ConstTensor view = three->view();
  EXPECT_EQ(view.shape(), (Shape{7, 5, 3}));
  EXPECT_EQ(view.dtype(), DType::kF16);
  EXPECT_EQ(view.data() - bytes.data.data(), file->data_start() + 192);
  EXPECT_EQ(file->find_tensor("two.weight")->bytes, 102);
}

// Exporters disagree on the width of integers; the getter takes any that holds the value.
TEST(GgufValue, AnyIntegerTypeAndNumbersAsFloats) {
  Bytes b;
  b.header(0, 11);
  b.str("u8").u32(0).put<uint8_t>(200);
  b.str("i8").u32(1).put<int8_t>(-3);
  b.str("u16").u32(2).put<uint16_t>(65535);
  b.str("i16").u32(3).put<int16_t>(-300);
  b.str("i32").u32(5).put<int32_t>(-70000);
  b.str("f32").u32(6).put<float>(0.5f);
  b.str("bool").u32(7).put<uint8_t>(1);
  b.str("big").u32(10).u64(std::numeric_limits<uint64_t>::max());
  b.str("i64").u32(11).put<int64_t>(-5);
  b.str("f64").u32(12).put<double>(0.25);
  b.str("ints").u32(9).u32(3).u64(2).put<int16_t>(7).put<int16_t>(-8);
  const auto file = parse(b);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find("u8")->as_int(), 200);
  EXPECT_EQ(file->find("i8")->as_int(), -3);
  EXPECT_EQ(file->find("u16")->as_int(), 65535);
  EXPECT_EQ(file->find("i16")->as_int(), -300);
  EXPECT_EQ(file->find("i32")->as_int(), -70000);
  EXPECT_EQ(file->find("i64")->as_int(), -5);
  EXPECT_EQ(file->find("big")->as_int(), std::nullopt);
  EXPECT_EQ(file->find("f32")->as_int(), std::nullopt);
  EXPECT_EQ(file->find("bool")->as_int(), std::nullopt);
  EXPECT_EQ(file->find("bool")->as_bool(), true);
  EXPECT_EQ(file->find("f32")->as_float(), 0.5);
  EXPECT_EQ(file->find("f64")->as_float(), 0.25);
  EXPECT_EQ(file->find("i8")->as_float(), -3.0);
  EXPECT_EQ(file->find("bool")->as_float(), std::nullopt);
  EXPECT_EQ(file->find("ints")->as_ints(), (std::vector<int64_t>{7, -8}));
  EXPECT_EQ(file->find("ints")->as_floats(), (std::vector<double>{7, -8}));
  EXPECT_EQ(file->find("ints")->as_strings(), std::nullopt);
  EXPECT_EQ(file->find("ints")->type_name(), "array of i16");
}

TEST(GgufFile, NamesAMissingFileAndAFolder) {
  const auto missing = File::open("/nonexistent/model.gguf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_MENTIONS(missing.error().message, "/nonexistent/model.gguf");
  const auto folder = File::open(DS4_SOURCE_DIR);
  ASSERT_FALSE(folder);
  EXPECT_MENTIONS(folder.error().message, "a directory");
}

// Failed downloads: an error page, a pointer of Git LFS, some text.
TEST(GgufFile, SaysWhatAFileWithoutTheMagicIs) {
  EXPECT_MENTIONS(refusal(Bytes{}.raw("\n <!DOCTYPE html><html><body>404 Not Found</body></html>")),
                  "web page");
  EXPECT_MENTIONS(refusal(Bytes{}.raw("version https://git-lfs.github.com/spec/v1\noid sha256:12")),
                  "Git LFS pointer");
  EXPECT_MENTIONS(refusal(Bytes{}.raw("Entry not found")), "text file");
  EXPECT_MENTIONS(refusal(Bytes{}.put<uint64_t>(0x0102030405060708).zeros(100)),
                  "expected the bytes \"GGUF\" at byte 0, found 08 07 06 05");
  EXPECT_MENTIONS(refusal(Bytes{}), "empty");
}

TEST(GgufFile, RefusesOtherVersionsAndSmallFiles) {
  EXPECT_MENTIONS(refusal(Bytes{}.raw("GGUF").u32(2).u64(0).u64(0).zeros(64)),
                  "expected 3, found 2");
  EXPECT_MENTIONS(refusal(Bytes{}.raw("GGUF").u32(0x03000000).u64(0).u64(0).zeros(64)),
                  "big-endian");
  EXPECT_MENTIONS(refusal(Bytes{}.header(0, 0)), "truncated: 24 bytes");
}

TEST(GgufFile, RefusesCountsThatCannotFit) {
  EXPECT_MENTIONS(
      refusal(Bytes{}.header(uint64_t{1} << 60, 0).zeros(100)),
      "corrupt at byte 8: 1152921504606846976 tensors cannot fit in a file of 124 bytes");
  EXPECT_MENTIONS(refusal(Bytes{}.header(0, uint64_t{1} << 60).zeros(100)), "corrupt at byte 16");
}

TEST(GgufFile, RefusesValueTypesAndLengthsThatLie) {
  EXPECT_MENTIONS(refusal(Bytes{}.header(0, 1).str("k").u32(13).zeros(64)), "value type 0..12");
  EXPECT_MENTIONS(refusal(Bytes{}.header(0, 1).str("k").u32(8).u64(uint64_t{1} << 40).zeros(64)),
                  "truncated at byte 45: k needs 1099511627776 bytes, the file ends after 64");
  EXPECT_MENTIONS(refusal(Bytes{}.header(0, 1).u64(uint64_t{1} << 40).zeros(64)), "truncated");
  for (const uint32_t element : {0u, 8u, 9u, 12u}) {
    const std::string text =
        refusal(Bytes{}.header(0, 1).str("k").u32(9).u32(element).u64(uint64_t{1} << 40).zeros(64));
    EXPECT_MENTIONS(text, "1099511627776 elements");
  }
  EXPECT_MENTIONS(refusal(Bytes{}
                              .header(0, 1)
                              .str("k")
                              .u32(9)
                              .u32(12)
                              .u64(std::numeric_limits<uint64_t>::max())
                              .zeros(64)),
                  "cannot fit");
  EXPECT_MENTIONS(refusal(Bytes{}.header(0, 1).str("k").u32(7).put<uint8_t>(2).zeros(64)),
                  "a bool is 0 or 1, found 2");
}

TEST(GgufFile, NestedArraysAreBounded) {
  const auto nested = [](int depth) {
    Bytes b;
    b.header(0, 1).str("k").u32(9);
    for (int i = 1; i < depth; ++i) b.u32(9).u64(1);
    return b.u32(0).u64(1).put<uint8_t>(5).zeros(64);
  };
  EXPECT_TRUE(parse(nested(8)));
  EXPECT_MENTIONS(refusal(nested(9)), "nested deeper than 8");
  EXPECT_FALSE(parse(nested(3000)));
}

TEST(GgufFile, NamesMustBePrintable) {
  EXPECT_MENTIONS(refusal(Bytes{}.header(0, 1).str(std::string_view("a\0b", 3)).u32(0).zeros(64)),
                  "printable ASCII");
  EXPECT_MENTIONS(refusal(Bytes{}.header(0, 1).str("").u32(0).zeros(64)), "printable ASCII");
  EXPECT_MENTIONS(refusal(Bytes{}.header(1, 0).tensor("a b", {1}, 0, 0).zeros(64)),
                  "printable ASCII");
}

TEST(GgufFile, DuplicateKeysAreFatalWhereTheyMatter) {
  const auto twice = [](std::string_view key) {
    return Bytes{}.header(0, 2).key_u32(key, 64).key_u32(key, 32).zeros(64);
  };
  for (const char* key : {"deepseek4.block_count", "tokenizer.ggml.model", "general.alignment",
                          "general.architecture"}) {
    EXPECT_MENTIONS(refusal(twice(key)), std::string(key) + " appears twice");
  }
  const Bytes harmless = twice("general.quantization_version");
  const auto file = parse(harmless);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->find("general.quantization_version")->as_int(), 64);
}

TEST(GgufFile, AlignmentIsChecked) {
  const auto with = [](uint32_t alignment) {
    return Bytes{}.header(0, 1).key_u32("general.alignment", alignment).zeros(64);
  };
  EXPECT_TRUE(parse(with(0)));
  EXPECT_TRUE(parse(with(8)));
  EXPECT_MENTIONS(refusal(with(3)), "general.alignment");
  EXPECT_MENTIONS(refusal(with(4)), "multiple of 8 expected, found 4");
  // 2^30 is a legal alignment, but this file's one tensor would begin a gigabyte further on.
  Bytes far;
  far.header(1, 1).key_u32("general.alignment", 1u << 30).tensor("t", {8}, 0, 0).zeros(200);
  EXPECT_MENTIONS(refusal(far), "at least 1073741856 bytes");
}

TEST(GgufFile, RefusesShapesThatMakeNoSense) {
  const auto one = [](std::vector<uint64_t> dims, uint32_t type, uint64_t offset = 0) {
    return Bytes{}.header(1, 0).tensor("t", std::move(dims), type, offset).pad().zeros(4096);
  };
  EXPECT_TRUE(parse(one({8}, 0)));
  EXPECT_MENTIONS(refusal(one({}, 0)), "1..4 dimensions expected, found 0");
  EXPECT_MENTIONS(refusal(one({1, 1, 1, 1, 1}, 0)), "1..4 dimensions expected, found 5");
  EXPECT_MENTIONS(refusal(one({8, 0}, 0)), "dimension 1 is 0");
  EXPECT_MENTIONS(refusal(one({uint64_t{1} << 32, uint64_t{1} << 32}, 0)), "overflows");
  EXPECT_MENTIONS(refusal(one({uint64_t{1} << 63}, 0)), "overflows");
  EXPECT_MENTIONS(refusal(one({uint64_t{1} << 62}, 0)), "size overflows");
  EXPECT_MENTIONS(refusal(one({33}, 8)),
                  "a row of 33 values is not a multiple of the Q8_0 block of 32");
  EXPECT_MENTIONS(refusal(one({8}, 0, 8)), "offset 8 is not a multiple of the alignment 32");
  EXPECT_MENTIONS(refusal(one({8}, 0, uint64_t{1} << 62)), "truncated");
  EXPECT_MENTIONS(refusal(one({8}, 0, uint64_t{0} - 32)), "out of range");
  EXPECT_MENTIONS(refusal(one({2048}, 0)), "download incomplete?");
}

// Only a tensor somebody binds needs a known type.
TEST(GgufFile, UnknownTypesAreKeptAside) {
  for (const uint32_t type : {4u, 40u, 41u, 1000u}) {
    const Bytes bytes = Bytes{}.header(1, 0).tensor("t", {8}, type, 0).pad().zeros(64);
    const auto file = parse(bytes);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->tensors()[0].dtype(), std::nullopt);
    EXPECT_EQ(file->tensors()[0].bytes, std::nullopt);
  }
  EXPECT_EQ(type_name(14), "Q6_K");
  EXPECT_EQ(type_name(1000), "type 1000");
}

TEST(GgufFile, RefusesOverlapAndDuplicateTensors) {
  Bytes over;
  over.header(2, 0).tensor("a", {64}, 0, 0).tensor("b", {8}, 0, 32).pad().zeros(512);
  EXPECT_MENTIONS(refusal(over), "overlaps tensor b");
  Bytes twice;
  twice.header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).pad().zeros(512);
  EXPECT_MENTIONS(refusal(twice), "tensor a appears twice");
}

TEST(GgufFile, RefusesAPieceOfASplitModel) {
  Bytes b;
  b.header(0, 2).str("split.no").u32(2).put<uint16_t>(0).str("split.count").u32(2).put<uint16_t>(5);
  EXPECT_MENTIONS(refusal(b.zeros(64)), "piece 1 of 5 of a split GGUF");
  EXPECT_MENTIONS(refusal(b), "merge first");
  Bytes whole;
  EXPECT_TRUE(parse(whole.header(0, 1).str("split.count").u32(2).put<uint16_t>(1).zeros(64)));
}

TEST(GgufFile, MessagesBeginWithTheFileName) {
  EXPECT_EQ(refusal(Bytes{}).rfind("test.gguf: ", 0), 0u);
}

}  // namespace
}  // namespace ds4::gguf
