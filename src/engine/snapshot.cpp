#include "engine/snapshot.h"

#include <algorithm>

namespace ds4 {
namespace {

bool begins_with(std::span<const Token> tokens, std::span<const Token> prefix) {
  return prefix.size() <= tokens.size() && std::ranges::equal(prefix, tokens.first(prefix.size()));
}

}  // namespace

// Turn starts of the last turns, the first one (where the system prompt ends), the start of the
// answer without its thinking mode (which the next prompt may render differently), every_tokens,
// and the end.
std::vector<SnapshotPoint> snapshot_points(std::span<const Token> prompt, int64_t first,
                                           const SnapshotOptions& options) {
  const int64_t total = static_cast<int64_t>(prompt.size());
  if (options.bytes_max <= 0) return {};
  std::vector<SnapshotPoint> points;
  std::vector<int64_t> turns;
  for (int64_t i = 1; i < total; ++i) {
    if (prompt[static_cast<size_t>(i)] == options.turn_marker) turns.push_back(i);
  }
  const size_t n_kept = static_cast<size_t>(options.kept_turns);
  const size_t n_skipped = turns.size() > n_kept ? turns.size() - n_kept : 0;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (i == 0) points.push_back({turns[i], SnapshotKind::kPrefix});
    if (i > 0 && i >= n_skipped) points.push_back({turns[i], SnapshotKind::kTurn});
  }
  for (int64_t i = total - 1; i > 0; --i) {
    if (prompt[static_cast<size_t>(i)] != options.answer_marker) continue;
    if (i + 1 < total) points.push_back({i + 1, SnapshotKind::kPassing});
    break;
  }
  const int64_t every = options.every_tokens;
  for (int64_t at = (first / every + 1) * every; at < total; at += every) {
    points.push_back({at, SnapshotKind::kPassing});
  }
  std::ranges::sort(points, {}, &SnapshotPoint::length);

  std::vector<SnapshotPoint> apart;
  int64_t last = first;
  for (const SnapshotPoint& point : points) {
    if (point.length <= first || point.length - last < options.gap_tokens) continue;
    apart.push_back(point);
    last = point.length;
  }
  apart.push_back({total, SnapshotKind::kPassing});
  return apart;
}

const Snapshot* SnapshotStore::find(std::span<const Token> prompt, int64_t length_max) {
  Entry* best = nullptr;
  for (Entry& entry : entries_) {
    const int64_t length = entry.snapshot.length();
    if (length > length_max || (best != nullptr && length <= best->snapshot.length())) continue;
    if (begins_with(prompt, entry.snapshot.tokens)) best = &entry;
  }
  if (best == nullptr) return nullptr;
  best->used = ++clock_;
  return &best->snapshot;
}

bool SnapshotStore::wants(std::span<const Token> tokens, SnapshotKind kind, int64_t bytes) {
  if (bytes > bytes_kept_max()) return false;
  for (Entry& entry : entries_) {
    if (!std::ranges::equal(entry.snapshot.tokens, tokens)) continue;
    entry.kind = std::max(entry.kind, kind);
    entry.used = ++clock_;
    return false;
  }
  return true;
}

void SnapshotStore::add(SnapshotKind kind, Snapshot snapshot) {
  const int64_t bytes = snapshot.bytes();
  if (bytes > bytes_kept_max()) return;
  while (bytes_ + bytes > bytes_kept_max()) drop_one();
  entries_.push_back({kind, std::move(snapshot), ++clock_});
  bytes_ += bytes;
}

bool SnapshotStore::is_protected(const Entry& entry) const {
  if (entry.kind != SnapshotKind::kTurn) return entry.kind == SnapshotKind::kPrefix;
  const auto n_newer = std::ranges::count_if(entries_, [&](const Entry& other) {
    return other.kind == SnapshotKind::kTurn && other.used > entry.used;
  });
  return n_newer < options_.kept_turns;
}

// What would have to be evaluated again from the next best snapshot.
int64_t SnapshotStore::tokens_after_shorter(const Entry& entry) const {
  const int64_t length = entry.snapshot.length();
  int64_t best = 0;
  for (const Entry& other : entries_) {
    const int64_t shorter = other.snapshot.length();
    if (shorter >= length || shorter <= best) continue;
    if (begins_with(entry.snapshot.tokens, other.snapshot.tokens)) best = shorter;
  }
  return length - best;
}

bool SnapshotStore::drop_one() {
  if (entries_.empty()) return false;
  auto least = entries_.end();
  bool least_protected = true;
  double least_value = 0;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const bool guarded = is_protected(*it);
    const double value =
        static_cast<double>(tokens_after_shorter(*it)) / static_cast<double>(1 + clock_ - it->used);
    const bool less = guarded != least_protected ? least_protected : value < least_value;
    if (least == entries_.end() || less) {
      least = it;
      least_protected = guarded;
      least_value = value;
    }
  }
  bytes_ -= least->snapshot.bytes();
  entries_.erase(least);
  return true;
}

void SnapshotStore::clear() {
  entries_.clear();
  bytes_ = 0;
}

}  // namespace ds4
