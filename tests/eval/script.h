#pragma once
// A model that follows a script, and Nano's vocabulary to write scripts in.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "eval/case.h"
#include "eval/decoder.h"
#include "eval/prompt.h"
#include "tokenizer/tokenizer.h"

namespace ds4::eval::test {

inline const Tokenizer& nano_tokenizer() {
  static const Tokenizer tokenizer = [] {
    std::stringstream text;
    text << std::ifstream(DS4_SOURCE_DIR "/models/nano/tokenizer.json", std::ios::binary).rdbuf();
    auto vocab = vocab_from_hf_json(text.str());
    if (!vocab) throw std::runtime_error(vocab.error().message);
    auto made = Tokenizer::create(std::move(*vocab));
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }();
  return tokenizer;
}

// Control tokens spelled in `text` count.
inline std::vector<Token> tokens_of(const std::string& text) {
  return nano_tokenizer().encode_rendered(text);
}

// Logits that make `token` the likeliest, and </think> the `close_rank`-th (0: the last).
inline std::vector<float> logits_for(Token token, int64_t close_rank = 0) {
  const Token close = nano_tokenizer().special().think_close;
  std::vector<float> logits(static_cast<size_t>(nano_tokenizer().size()), 0.0f);
  logits[static_cast<size_t>(token)] = 100;
  if (token == close) return logits;
  logits[static_cast<size_t>(close)] = close_rank == 0 ? -1.0f : 10.0f;
  // Others between the two: ids that nothing here uses as an answer.
  for (int64_t i = 0; i < close_rank - 2; ++i) logits[static_cast<size_t>(3000 + i)] = 20;
  return logits;
}

// Says, after each prompt, what a script has for it; then EOS for ever.
class ScriptedDecoder : public Decoder {
 public:
  ScriptedDecoder(size_t n_lanes, int64_t ctx_tokens) : ctx_tokens_(ctx_tokens), lanes_(n_lanes) {}

  void script(std::vector<Token> prompt, const std::string& answer) {
    answers_[std::move(prompt)] = tokens_of(answer);
  }

  size_t n_lanes() const override { return lanes_.size(); }
  int64_t ctx_tokens() const override { return ctx_tokens_; }

  Result<void> read_prompt(size_t lane, std::span<const Token> prompt,
                           const Progress& progress) override {
    const std::vector<Token> key(prompt.begin(), prompt.end());
    const int64_t n = std::ssize(prompt);
    if (!progress(n, n)) return fail(ErrorCode::kCancelled, "stopped");
    if (!answers_.contains(key)) return fail(ErrorCode::kOutOfMemory, "no script, no memory");
    lanes_[lane] = {answers_[key], 0, {}};
    show(lane);
    return {};
  }

  Result<void> decode(std::span<const LaneToken> tokens) override {
    ++n_steps;
    if (n_steps == fail_at_step) return fail(ErrorCode::kDevice, "the device is gone");
    for (const LaneToken& t : tokens) {
      Lane& lane = lanes_[t.lane];
      EXPECT_EQ(t.token, lane.script[lane.next]) << "a token that was not offered";
      ++lane.next;
      show(t.lane);
    }
    most_together = std::max(most_together, tokens.size());
    if (on_step) on_step(n_steps);
    return {};
  }

  std::span<const float> logits(size_t lane) const override { return lanes_[lane].logits; }

  int64_t n_steps = 0, fail_at_step = 0;
  size_t most_together = 0;
  std::function<void(int64_t)> on_step;

 private:
  struct Lane {
    std::vector<Token> script;
    size_t next = 0;
    std::vector<float> logits;
  };

  void show(size_t number) {
    Lane& lane = lanes_[number];
    const bool more = lane.next < lane.script.size();
    lane.logits = logits_for(more ? lane.script[lane.next] : nano_tokenizer().special().eos);
  }

  const int64_t ctx_tokens_;
  std::vector<Lane> lanes_;
  std::map<std::vector<Token>, std::vector<Token>> answers_;
};

}  // namespace ds4::eval::test
