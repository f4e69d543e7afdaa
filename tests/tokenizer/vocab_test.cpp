#include "tokenizer/vocab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/tokenizer/vocabs.h"
#include "tokenizer/tokenizer.h"

namespace ds4 {
namespace {

using testing::HasSubstr;

std::string create_error(VocabData vocab) {
  const auto made = Tokenizer::create(std::move(vocab));
  EXPECT_FALSE(made.has_value());
  return made ? "" : made.error().message;
}

TEST(V4Vocab, HasThePublishedFingerprints) {
  const Tokenizer& v4 = test::v4_tokenizer();
  EXPECT_EQ(v4.size(), 129280);
  EXPECT_EQ(v4.fingerprints().tokens, kV4TokensSha256);
  EXPECT_EQ(v4.fingerprints().merges, kV4MergesSha256);
}

TEST(V4Vocab, SpecialTokensHaveTheirIds) {
  const Tokenizer& v4 = test::v4_tokenizer();
  const SpecialTokens& special = v4.special();
  EXPECT_EQ(special.bos, 0);
  EXPECT_EQ(special.eos, 1);
  EXPECT_EQ(special.pad, 2);
  EXPECT_EQ(special.user, 128803);
  EXPECT_EQ(special.assistant, 128804);
  EXPECT_EQ(special.think_open, 128821);
  EXPECT_EQ(special.think_close, 128822);
  EXPECT_EQ(special.dsml, 128825);
  EXPECT_EQ(special.latest_reminder, 128828);
  EXPECT_EQ(v4.find("<｜read_url｜>"), 128845);
  int64_t n_control = 0;
  for (Token token = 0; token < v4.size(); ++token) n_control += v4.is_control(token);
  EXPECT_EQ(n_control, 1283);
  for (const Token token : {-1, 129280, 19923}) EXPECT_FALSE(v4.is_control(token)) << token;
}

TEST(NanoVocab, SpecialTokensAreFoundBySpelling) {
  const Tokenizer& nano = test::nano_tokenizer();
  EXPECT_EQ(nano.size(), 4096);
  EXPECT_EQ(nano.special().user, 4089);
  EXPECT_EQ(nano.special().assistant, 4090);
  EXPECT_EQ(nano.special().think_close, 4093);
  EXPECT_EQ(nano.special().dsml, 4094);
  EXPECT_EQ(nano.special().latest_reminder, 4095);
  int64_t n_control = 0;
  for (Token token = 0; token < nano.size(); ++token) n_control += nano.is_control(token);
  EXPECT_EQ(n_control, 13);
}

TEST(ByteAlphabet, StandInsGoThereAndBack) {
  EXPECT_EQ(byte_stand_in('A'), "A");
  EXPECT_EQ(byte_stand_in(' '), "Ġ");
  EXPECT_EQ(byte_stand_in('\n'), "Ċ");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string expected(1, static_cast<char>(byte));
    EXPECT_EQ(bytes_of_spelling(byte_stand_in(static_cast<uint8_t>(byte))), expected) << byte;
  }
  for (const char* text : {" ", "\n", "｜", "\u0144", "\xFF", "\u00AD"}) {
    EXPECT_EQ(bytes_of_spelling(text), std::nullopt) << text;
  }
}

TEST(TokenizerCreate, NamesAllMissingSpecialTokensAtOnce) {
  VocabData vocab = test::tiny_vocab();
  for (auto& token : vocab.tokens) {
    if (token == spelling::kUser || token == spelling::kDsml) token += "?";
  }
  const std::string message = create_error(std::move(vocab));
  EXPECT_THAT(message, HasSubstr("<｜User｜>, ｜DSML｜"));
}

TEST(TokenizerCreate, NamesEveryKindOfProblemInOneMessage) {
  VocabData vocab = test::tiny_vocab();
  vocab.tokens['a'] = "A";
  vocab.merges.push_back("q zz");
  vocab.merges.push_back("nospace");
  vocab.merges.push_back("ab c");
  vocab.tokens.back() = "gone";
  EXPECT_THAT(create_error(std::move(vocab)),
              AllOf(HasSubstr("tokens listed twice: 'A' (65 and 97)"),
                    HasSubstr("bytes without a token: 0x61"), HasSubstr("'q zz' (rank 2)"),
                    HasSubstr("'nospace' (rank 3)"), HasSubstr("'ab c' (rank 4)"),
                    HasSubstr("required special tokens missing: ｜DSML｜")));
  vocab = test::tiny_vocab();
  vocab.token_types.pop_back();
  EXPECT_THAT(create_error(std::move(vocab)), HasSubstr("264 and 265"));
}

// Found by fuzzing: a control token spelled as the last byte of a character was found inside that
// character in scaffold text, and what was left of it decoded as U+FFFD.
TEST(TokenizerCreate, APartOfACharacterIsNoToken) {
  VocabData vocab = test::tiny_vocab();
  vocab.tokens.push_back("\x96");
  vocab.token_types.push_back(kTokenTypeControl);
  EXPECT_THAT(create_error(std::move(vocab)), HasSubstr("tokens that are not UTF-8: id 265"));
}

// The rank is the place in the list, not an id: here the product of the first merge has a higher id
// than the product of the second.
TEST(TokenizerCreate, MergeRankIsThePlaceInTheList) {
  VocabData vocab = test::tiny_vocab();
  vocab.tokens[256] = "bc";
  vocab.tokens[257] = "ab";
  vocab.merges = {"a b", "b c"};
  const auto made = Tokenizer::create(std::move(vocab));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->encode_text("abc"), (std::vector<Token>{257, 'c'}));
}

TEST(TokenizerCreate, ATokenNoMergeReachesIsAddedWhateverItsType) {
  VocabData vocab = test::tiny_vocab();
  for (auto& type : vocab.token_types) type = kTokenTypeNormal;
  const auto made = Tokenizer::create(std::move(vocab));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_TRUE(made->is_control(made->special().think_open));
  EXPECT_EQ(made->encode_rendered("<think>"), std::vector<Token>{made->special().think_open});
}

TEST(HfJson, RejectsDamagedFilesWithAReason) {
  const auto message = [](std::string_view json) {
    const auto vocab = vocab_from_hf_json(json);
    EXPECT_FALSE(vocab.has_value()) << json;
    return vocab ? "" : vocab.error().message;
  };
  EXPECT_THAT(message(""), HasSubstr("not JSON"));
  EXPECT_THAT(message("{\"model\": {\"vocab\""), HasSubstr("not JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(message("{}"), HasSubstr("no object 'model'"));
  EXPECT_THAT(message(R"({"model":{"type":"Unigram"}})"), HasSubstr("\"Unigram\""));
  EXPECT_THAT(message(R"({"model":{"vocab":{}}})"), HasSubstr("'merges'"));
  EXPECT_THAT(message(R"({"model":{"vocab":{"a":-1},"merges":[]}})"), HasSubstr("-1"));
  EXPECT_THAT(message(R"({"model":{"vocab":{"a":1e99},"merges":[]}})"), HasSubstr("1e+99"));
  EXPECT_THAT(message(R"({"model":{"vocab":{"a":4000000000},"merges":[]}})"),
              HasSubstr("4000000000"));
  EXPECT_THAT(message(R"({"model":{"vocab":{"a":2},"merges":[]}})"), HasSubstr("none is 0"));
  EXPECT_THAT(message(R"({"model":{"vocab":{"a":0,"b":0},"merges":[]}})"), HasSubstr("both"));
  EXPECT_THAT(message(R"({"model":{"vocab":{"":0},"merges":[]}})"), HasSubstr("no spelling"));
  EXPECT_THAT(message(R"({"model":{"vocab":{"a":0},"merges":[["a"]]}})"), HasSubstr("merges[0]"));
  EXPECT_THAT(message(R"({"model":{"vocab":{"a":0},"merges":[]},"added_tokens":[7]})"),
              HasSubstr("added_tokens"));
  EXPECT_THAT(message(std::string(100'000, '[')), HasSubstr("not JSON"));
}

TEST(LoadVocab, NamesTheFileAtFault) {
  EXPECT_EQ(load_v4_vocab("/nonexistent").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(load_v4_vocab("/nonexistent").error().message, HasSubstr("/nonexistent/deepseek_v3"));

  const std::string dir = testing::TempDir();
  std::ifstream whole(DS4_SOURCE_DIR "/models/vocab/deepseek_v3_tokenizer.json.gz",
                      std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(whole), {});
  ASSERT_GT(bytes.size(), 1'000'000u);
  std::ofstream(dir + "/deepseek_v3_tokenizer.json.gz", std::ios::binary)
      << bytes.substr(0, 500'000);
  EXPECT_THAT(load_v4_vocab(dir).error().message, HasSubstr("truncated"));
  std::ofstream(dir + "/deepseek_v3_tokenizer.json.gz", std::ios::binary) << "plain text";
  EXPECT_THAT(load_v4_vocab(dir).error().message, HasSubstr("not a whole gzip file"));
}

TEST(GgufTokenizer, RefusesAnotherSplittingUnlessTheTokensAreV4) {
  const VocabFingerprints v4{std::string(kV4TokensSha256), std::string(kV4MergesSha256)};
  EXPECT_TRUE(check_gguf_tokenizer("gpt2", "joyai-llm", {}).has_value());
  EXPECT_TRUE(check_gguf_tokenizer("gpt2", "deepseek-v3", {}).has_value());
  EXPECT_TRUE(check_gguf_tokenizer("gpt2", "whatever", v4).has_value());
  EXPECT_THAT(check_gguf_tokenizer("gpt2", "llama3", {}).error().message, HasSubstr("'llama3'"));
  EXPECT_THAT(check_gguf_tokenizer("llama", "joyai-llm", v4).error().message, HasSubstr("'llama'"));
}

}  // namespace
}  // namespace ds4
