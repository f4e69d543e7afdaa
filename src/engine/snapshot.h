#pragma once
// Points in time that a session can go back to.
//
// A compressed cache cannot be cut at any position: rings and frontiers describe one length only.
// So sessions leave snapshots behind while they read a prompt, and going back means restoring the
// nearest one and evaluating what follows it. Compressed rows never change and are shared by page;
// a snapshot itself is some megabytes (13 to 23 MiB for Flash).
//
// The store belongs to the engine, and every session of it may restore every snapshot: two
// conversations with the same system prompt read it once, and a conversation that was left for
// another one is found again.
//
// Single-thread, with the engine, which must outlive snapshots.
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/kv_cache.h"
#include "tokenizer/token.h"

namespace ds4 {

// A session's whole state at one length. Immutable.
struct Snapshot {
  KvPoint kv;
  std::vector<Token> tokens;  // the history
  std::vector<float> logits;  // after its last token, [vocab_size]

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  // What it takes beyond the pages.
  int64_t bytes() const {
    return kv.state.size_bytes() + static_cast<int64_t>(tokens.size() * sizeof(Token)) +
           static_cast<int64_t>(logits.size() * sizeof(float));
  }
};

struct SnapshotOptions {
  // Memory for snapshots, half for their own state and half for pages that no session uses any
  // more. 0: none are kept.
  int64_t bytes_max = int64_t{2} << 30;
  int64_t every_tokens = 4096;  // while a prompt is read, at multiples of this position
  int64_t gap_tokens = 64;      // no two points of a prompt closer than this, its end excepted
  int64_t kept_turns = 8;       // turn starts that are kept while others can be dropped
  // Control tokens that open a user's turn and the answer; -1: the model has no turns.
  Token turn_marker = -1;
  Token answer_marker = -1;
};

// Why a snapshot is there.
enum class SnapshotKind {
  kPassing,  // every_tokens, start of an answer, end of a prompt, where a session was when it left
  kTurn,     // before a user's turn
  kPrefix,   // before the first user's turn: system prompt and tools
};

// Lengths at which sync() leaves a snapshot on its way through `prompt`, ascending, each in
// (first, prompt.size()].
struct SnapshotPoint {
  int64_t length = 0;
  SnapshotKind kind = SnapshotKind::kPassing;
};
std::vector<SnapshotPoint> snapshot_points(std::span<const Token> prompt, int64_t first,
                                           const SnapshotOptions& options);

// What the store holds, for status lines.
struct SnapshotUse {
  int64_t n_snapshots = 0;
  int64_t bytes = 0;  // without pages
};

class SnapshotStore {
 public:
  explicit SnapshotStore(const SnapshotOptions& options) : options_(options) {}

  const SnapshotOptions& options() const { return options_; }
  SnapshotUse use() const { return {static_cast<int64_t>(entries_.size()), bytes_}; }

  // The longest snapshot that `prompt` begins with, at most `length_max` long; null if there is
  // none. Valid until the next add, drop_one or clear.
  const Snapshot* find(std::span<const Token> prompt, int64_t length_max);

  // True if a snapshot of `bytes` would be kept, and these tokens have none yet. One that is there
  // counts as used and rises to `kind`.
  bool wants(std::span<const Token> tokens, SnapshotKind kind, int64_t bytes);
  // Keeps it and drops others until all of them fit.
  void add(SnapshotKind kind, Snapshot snapshot);

  // Drops the snapshot that will be missed least: not the start of a system prompt's or a recent
  // turn's while there are others; among those, the one that is quickest to make again for the time
  // it was not used. False when there is none.
  bool drop_one();
  void clear();

 private:
  struct Entry {
    SnapshotKind kind = SnapshotKind::kPassing;
    Snapshot snapshot;
    int64_t used = 0;  // clock_ of the last add or find
  };
  int64_t bytes_kept_max() const { return options_.bytes_max / 2; }
  bool is_protected(const Entry& entry) const;
  int64_t tokens_after_shorter(const Entry& entry) const;

  const SnapshotOptions options_;
  std::list<Entry> entries_;
  int64_t bytes_ = 0;
  int64_t clock_ = 0;
};

}  // namespace ds4
