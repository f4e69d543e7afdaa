#pragma once
// One mutable inference timeline over an Engine: its tokens, its KV cache, its last logits.
//
// A session can go back: sync() finds the best point to continue from among its own present state
// and the engine's snapshots (engine/snapshot.h), and leaves new ones behind. What a session holds
// never depends on how it got there, bit for bit.
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
#include "engine/snapshot.h"
#include "tokenizer/token.h"

namespace ds4 {

struct SessionOptions {
  int64_t ctx_tokens = 32768;  // KV cache capacity, in positions
};

// What a sync had to do; the caller times it if it wants to.
struct SyncStats {
  int64_t reused_tokens = 0;     // taken from the present history or from a snapshot
  int64_t evaluated_tokens = 0;  // tokens that went through the model
};

class Session {
 public:
  // Allocates the KV cache; decode() allocates nothing, sync() only snapshots.
  // Errors: kOutOfMemory with the bytes asked for, `engine` stays usable; kInvalidArgument for a
  // context outside 1 .. the model's maximum.
  static Result<Session> create(Engine& engine, const SessionOptions& options);

  // Called between chunks with the tokens done so far and in all.
  using Progress = std::function<void(int64_t done, int64_t total)>;

  // Makes `prompt` the exact token history, evaluating what follows the longest part of it that is
  // at hand. Chunks end at multiples of the chunk size and at snapshot points. Errors:
  // kInvalidArgument for an empty prompt or a token outside the vocabulary, kContextFull, both
  // before anything changed; kCancelled between chunks and kOutOfMemory when other sessions hold
  // all pages, after which the session holds the chunks that were finished; kDevice, after which it
  // can only be destroyed.
  Result<SyncStats> sync(std::span<const Token> prompt, std::stop_token stop = {},
                         const Progress& progress = {});

  // Appends one token. Errors as sync(); the session is unchanged unless kDevice.
  Result<void> decode(Token token);

  // The present state, to restore later in this or another session of the engine, with a context
  // that is large enough. A snapshot that the caller holds keeps its pages from everybody, so steps
  // of sessions that have left it can fail with kOutOfMemory until it is dropped; the engine's own
  // ones give way. Errors of restore: kContextFull; the session is then unchanged.
  Result<Snapshot> snapshot() const;
  Result<void> restore(const Snapshot& snapshot);

  // Another session with the same history; both share pages until they write to them.
  // Errors: those of create().
  Result<Session> fork() const;

  // Next-token logits, f32 [vocab_size]; valid until the next sync, decode or restore. All zero
  // before the first.
  std::span<const float> logits() const { return logits_; }
  std::span<const Token> tokens() const { return tokens_; }
  int64_t ctx_tokens() const { return cache_.capacity(); }

  // Bytes that this session's present state would take in a file: KV rows, history, logits.
  int64_t state_bytes() const;

  // Bytes of the KV cache of a session with this context.
  static int64_t bytes_needed(const Engine& engine, const SessionOptions& options);

  // Forgets everything.
  void reset();

 private:
  friend class Engine;
  Session(Engine& engine, KvCache cache);

  Result<void> check_prompt(std::span<const Token> prompt) const;
  // Continues from the best point; returns its length.
  Result<int64_t> go_to_longest(std::span<const Token> prompt);
  Result<void> keep_snapshot(SnapshotKind kind);

  Engine* engine_;
  KvCache cache_;
  std::vector<Token> tokens_;  // reserved for the whole context
  std::vector<float> logits_;
};

}  // namespace ds4
