// The IQ2_XXS codebook against published checksums, and the search's behaviour at its edges.
#include "quant/iq2_xxs.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <random>
#include <thread>

#include "tests/quant/known_answers.h"

namespace ds4 {
namespace {

std::string sha256(const std::vector<uint8_t>& bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EXPECT_EQ(EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr), 1);
  return hex_from_bytes(digest, size);
}

TEST(Iq2XxsGrid, MatchesThePublishedChecksums) {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> levels;
  std::vector<uint8_t> signs;
  int sum = 0;
  int folded = 0;
  for (size_t n = 0; n < kIq2XxsGridSize; ++n) {
    const uint16_t code = iq2_xxs::kGridCodes[n];
    sum += code;
    folded ^= code;
    codes.push_back(static_cast<uint8_t>(code));
    codes.push_back(static_cast<uint8_t>(code >> 8));
    for (int i = 0; i < 8; ++i) {
      levels.push_back(static_cast<uint8_t>(iq2_xxs::kGrid[n] >> (8 * i)));
    }
  }
  for (uint32_t s = 0; s < 128; ++s) signs.push_back(static_cast<uint8_t>(iq2_xxs_signs(s)));
  EXPECT_EQ(sum, 3697703);
  EXPECT_EQ(folded, 973);
  EXPECT_EQ(sha256(codes), "915952ebc4af8ddba8113583ca1316fc818843f7b825bbf1a25ae1c39bf0e16d");
  EXPECT_EQ(sha256(levels), "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54");
  EXPECT_EQ(sha256(signs), "a76742a603f8beca5212ecce0f1f02f11a4887fd2f7c8b15aca0ea3eb3380c31");
}

// The gap list and the list of absolute positions must be the same selection.
TEST(Iq2XxsGrid, GapsAddUpToTheListedPositions) {
  std::ifstream file(std::string(DS4_SOURCE_DIR) + "/tests/data/quant/iq2_xxs_grid_ranks.txt");
  int position = 0;
  for (const uint8_t gap : iq2_xxs::kGridGaps) {
    position += gap;
    int listed = -1;
    ASSERT_TRUE(file >> listed);
    ASSERT_EQ(position, listed);
  }
}

TEST(Iq2XxsGrid, EntriesAscendAndHoldAnEvenNumberOfOnes) {
  const uint16_t first[8] = {0, 2, 5, 8, 10, 17, 20, 32};
  for (size_t n = 0; n < 8; ++n) EXPECT_EQ(iq2_xxs::kGridCodes[n], first[n]);
  for (size_t n = 0; n < kIq2XxsGridSize; ++n) {
    EXPECT_TRUE(iq2_xxs::has_even_ones(iq2_xxs::kGridCodes[n]));
    if (n > 0) {
      EXPECT_LT(iq2_xxs::kGridCodes[n - 1], iq2_xxs::kGridCodes[n]);
    }
  }
  EXPECT_EQ(iq2_xxs::kGridCodes[255], 43268);
}

// Seven stored signs decide the eighth: minus signs are always even in number.
TEST(Iq2XxsSigns, ParityIsEven) {
  for (uint32_t s = 0; s < 128; ++s) {
    EXPECT_EQ(iq2_xxs_signs(s) & 127u, s);
    EXPECT_EQ(std::popcount(iq2_xxs_signs(s)) % 2, 0);
  }
}

// An odd number of minus signs costs one wrong sign, on the value whose weighted square is
// smallest; every other sign must survive.
TEST(Iq2XxsEncode, FlipsOnlyTheCheapestSign) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  float x[256];
  float u[256];
  for (int i = 0; i < 256; ++i) {
    x[i] = normal(random);
    u[i] = 1.0f;
  }
  BlockIq2Xxs block;
  encode_block(x, u, &block);
  float y[256];
  decode_block(block, y);
  for (int octet = 0; octet < 32; ++octet) {
    const float* xs = x + 8 * octet;
    int wrong = 0;
    int smallest = 0;
    for (int i = 0; i < 8; ++i) {
      if (std::fabs(xs[i]) < std::fabs(xs[smallest])) smallest = i;
    }
    for (int i = 0; i < 8; ++i) {
      if (std::signbit(xs[i]) == std::signbit(y[8 * octet + i])) continue;
      ++wrong;
      EXPECT_EQ(i, smallest);
    }
    EXPECT_LE(wrong, 1);
  }
}

// Groups with nothing in them get scale 0 and no signs; a block of them is all zero bytes.
TEST(Iq2XxsEncode, ZeroGroupsAreZeroBytes) {
  std::vector<float> x(256, -0.0f);
  const std::vector<float> u(256, 1.0f);
  BlockIq2Xxs block;
  encode_block(x.data(), u.data(), &block);
  EXPECT_EQ(hex_from_bytes(&block, sizeof(block)), std::string(2 * sizeof(block), '0'));
  for (size_t i = 0; i < 32; ++i) x[i] = i % 2 == 0 ? 1.0f : -1.0f;
  encode_block(x.data(), u.data(), &block);
  EXPECT_NE(block.d, 0);
  for (int b = 1; b < 8; ++b) {
    EXPECT_EQ(iq2_xxs_group(block, b).a, 0u);
    EXPECT_EQ(iq2_xxs_group(block, b).b, 0u);
  }
}

// Two threads that encode at once, one of them building the neighbour lists, agree with one thread.
TEST(Iq2XxsEncode, IsThreadSafe) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> x(8 * 256);
  for (float& v : x) v = normal(random);
  const std::vector<float> u(x.size(), 1.0f);
  std::vector<BlockIq2Xxs> results[3];
  const auto encode_all = [&](std::vector<BlockIq2Xxs>& blocks) {
    blocks.resize(8);
    for (size_t b = 0; b < 8; ++b) encode_block(&x[256 * b], &u[256 * b], &blocks[b]);
  };
  {
    std::jthread first([&] { encode_all(results[0]); });
    std::jthread second([&] { encode_all(results[1]); });
  }
  encode_all(results[2]);
  for (const auto& blocks : results) {
    EXPECT_EQ(std::memcmp(blocks.data(), results[2].data(), 8 * sizeof(BlockIq2Xxs)), 0);
  }
}

}  // namespace
}  // namespace ds4
