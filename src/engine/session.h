#pragma once
// One mutable inference timeline over an Engine: its tokens, its KV cache, its last logits.
//
// Single-thread, with its Engine, which must outlive it. Example: docs/examples/generate.cpp, built
// and run by ctest.
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "tokenizer/token.h"

namespace ds4 {

struct SessionOptions {
  int64_t ctx_tokens = 32768;  // KV cache capacity, in positions
};

// What a sync had to do; the caller times it if it wants to.
struct SyncStats {
  int64_t reused_tokens = 0;     // history kept
  int64_t evaluated_tokens = 0;  // tokens that went through the model
};

class Session {
 public:
  // Allocates the KV cache; sync() and decode() allocate nothing.
  // Errors: kOutOfMemory with the bytes asked for, `engine` stays usable; kInvalidArgument for a
  // context outside 1 .. the model's maximum.
  static Result<Session> create(Engine& engine, const SessionOptions& options);

  // Called between chunks with the tokens done so far and in all.
  using Progress = std::function<void(int64_t done, int64_t total)>;

  // Makes `prompt` the exact token history. When it continues the present history only the new
  // tokens are evaluated; otherwise the session starts over. At least the last token is always
  // evaluated, so logits() are those after `prompt`. Errors: kInvalidArgument for an empty prompt,
  // kContextFull, both before anything changed; kCancelled between chunks, after which the session
  // holds the chunks that were finished; kDevice, after which it can only be destroyed.
  Result<SyncStats> sync(std::span<const Token> prompt, std::stop_token stop = {},
                         const Progress& progress = {});

  // Appends one token. Errors as sync(); the session is unchanged unless kDevice.
  Result<void> decode(Token token);

  // Next-token logits, f32 [vocab_size]; valid until the next sync or decode. All zero before the
  // first.
  std::span<const float> logits() const { return logits_; }
  std::span<const Token> tokens() const { return tokens_; }
  int64_t ctx_tokens() const { return cache_.capacity(); }

  // Bytes of the KV cache of a session with this context.
  static int64_t bytes_needed(const Engine& engine, const SessionOptions& options);

  // Forgets everything.
  void reset();

 private:
  friend class Engine;
  Session(Engine& engine, KvCache cache);

  Engine* engine_;
  KvCache cache_;
  std::vector<Token> tokens_;  // reserved for the whole context
  std::vector<float> logits_;
};

}  // namespace ds4
