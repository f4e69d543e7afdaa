#include "chat/effort.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <string>

#include "chat/protocol.h"

namespace ds4 {
namespace {

std::string sha256(std::string_view text) {
  unsigned char digest[32];
  EXPECT_EQ(EVP_Digest(text.data(), text.size(), digest, nullptr, EVP_sha256(), nullptr), 1);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

TEST(EffortPrefix, TextsAreTheProtocols) {
  EXPECT_EQ(protocol::kEffortPrefixA.size(), 476u);
  EXPECT_EQ(sha256(protocol::kEffortPrefixA),
            "f7a24f3b3050d4a83781e9b755b316aae2ec1d9dc87562541d90bcb04d7350f7");
  EXPECT_EQ(protocol::kEffortPrefixB.size(), 528u);
  EXPECT_EQ(sha256(protocol::kEffortPrefixB),
            "53fb31b8392ec5b4a926481943efc67636748f137c1a49d493a7af4d4fa55d2c");
}

TEST(EffortPrefix, ProfilesDisagree) {
  using enum EffortProfile;
  EXPECT_EQ(effort_prefix(kPreview, Effort::kLow), "");
  EXPECT_EQ(effort_prefix(kPreview, Effort::kHigh), "");
  EXPECT_EQ(effort_prefix(kPreview, Effort::kMax), protocol::kEffortPrefixA);
  EXPECT_EQ(effort_prefix(kOfficial, Effort::kLow), "");
  EXPECT_EQ(effort_prefix(kOfficial, Effort::kHigh), protocol::kEffortPrefixA);
  EXPECT_EQ(effort_prefix(kOfficial, Effort::kMax), protocol::kEffortPrefixB);
}

TEST(ParseEffort, KnowsEveryNameOfTheApi) {
  const auto thinking = [](Effort effort) { return Thinking{ThinkingMode::kThinking, effort}; };
  EXPECT_EQ(parse_effort("none").value().mode, ThinkingMode::kChat);
  for (const char* name : {"minimal", "low"})
    EXPECT_EQ(*parse_effort(name), thinking(Effort::kLow));
  for (const char* name : {"medium", "high", "xhigh"}) {
    EXPECT_EQ(*parse_effort(name), thinking(Effort::kHigh));
  }
  for (const char* name : {"max", "ultra"}) EXPECT_EQ(*parse_effort(name), thinking(Effort::kMax));
  for (const char* name : {"", "High", "maximum"}) {
    EXPECT_EQ(parse_effort(name).error().code, ErrorCode::kInvalidArgument) << name;
  }
}

TEST(EffortProfile, AutoReadsTheModelsName) {
  const auto by_name = [](std::string_view name) {
    return select_effort_profile("auto",
                                 {.metadata = {}, .model_name = name, .has_draft_tensors = false})
        .value();
  };
  for (const char* name :
       {"DeepSeek-V4-Flash-0731", "deepseek_v4_pro_0813_q2", "V4-1101", "v4-20260813"}) {
    EXPECT_EQ(by_name(name), EffortProfile::kOfficial) << name;
  }
  for (const char* name : {"DeepSeek-V4-Flash", "V4-0424", "V4-0730", "", "V4-1399", "V4-07311",
                           "V4-20260424", "284B-2026", "DeepSeek V4 Nano"}) {
    EXPECT_EQ(by_name(name), EffortProfile::kPreview) << name;
  }
}

TEST(EffortProfile, OptionThenMetadataThenDraftTensorsDecide) {
  const EffortProfileHints late{
      .metadata = "preview", .model_name = "V4-0813", .has_draft_tensors = true};
  EXPECT_EQ(*select_effort_profile("official", late), EffortProfile::kOfficial);
  EXPECT_EQ(*select_effort_profile("auto", late), EffortProfile::kPreview);
  EXPECT_EQ(*select_effort_profile("auto",
                                   {.metadata = {}, .model_name = "V4", .has_draft_tensors = true}),
            EffortProfile::kOfficial);
  EXPECT_THAT(select_effort_profile("newest", late).error().message,
              testing::HasSubstr("'newest'"));
  EXPECT_EQ(
      select_effort_profile("auto", {.metadata = "x", .model_name = {}, .has_draft_tensors = false})
          .error()
          .code,
      ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace ds4
