#pragma once
// The two vocabularies of the project, built once per test program, and line-by-line JSON test
// data.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace ds4::test {

inline Tokenizer must_create(Result<VocabData> vocab) {
  EXPECT_TRUE(vocab.has_value()) << vocab.error().message;
  auto made = Tokenizer::create(std::move(*vocab));
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

inline const Tokenizer& v4_tokenizer() {
  static const Tokenizer made = must_create(load_v4_vocab(DS4_SOURCE_DIR "/models/vocab"));
  return made;
}

inline const Tokenizer& nano_tokenizer() {
  static const Tokenizer made =
      must_create(load_hf_vocab(DS4_SOURCE_DIR "/models/nano/tokenizer.json"));
  return made;
}

// The JSON lines of tests/data/`name`; `n_expected` guards against a file that went missing.
inline std::vector<nlohmann::ordered_json> read_json_lines(const std::string& name,
                                                           size_t n_expected) {
  std::ifstream file(DS4_SOURCE_DIR "/tests/data/" + name);
  std::vector<nlohmann::ordered_json> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(nlohmann::ordered_json::parse(line));
  }
  EXPECT_EQ(lines.size(), n_expected) << name;
  return lines;
}

// The smallest vocabulary that Tokenizer::create() takes, for tests that then damage it: 256 bytes,
// the merges "a b" and "ab c", and the required special tokens.
inline VocabData tiny_vocab() {
  VocabData vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab.tokens.push_back(byte_stand_in(static_cast<uint8_t>(byte)));
  vocab.tokens.insert(vocab.tokens.end(), {"ab", "abc"});
  vocab.merges = {"a b", "ab c"};
  vocab.token_types.assign(vocab.tokens.size(), kTokenTypeNormal);
  for (const auto text : {spelling::kBos, spelling::kEos, spelling::kUser, spelling::kAssistant,
                          spelling::kThinkOpen, spelling::kThinkClose, spelling::kDsml}) {
    vocab.tokens.emplace_back(text);
    vocab.token_types.push_back(kTokenTypeControl);
  }
  return vocab;
}

}  // namespace ds4::test
