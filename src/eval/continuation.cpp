#include "eval/continuation.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <unordered_set>

#include "base/mapped_file.h"
#include "chat/render.h"
#include "engine/log_softmax.h"
#include "engine/sampler.h"
#include "eval/table.h"
#include "tokenizer/utf8.h"

namespace ds4::eval {
namespace {

constexpr int64_t kFileBytesMax = int64_t{16} << 20;

Result<std::string> read_text(const std::filesystem::path& path) {
  DS4_TRY(const MappedFile file, MappedFile::open(path.string()));
  const auto bytes = file.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (std::ssize(bytes) > kFileBytesMax) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected at most {} bytes, found {}", path.string(), kFileBytesMax,
                            text.size()));
  }
  if (utf8_repair(text)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: expected UTF-8, found other bytes", path.string()));
  }
  return std::string(text);
}

Result<Continuation> read_entry(const std::vector<std::string_view>& columns,
                                const std::filesystem::path& folder) {
  if (columns.size() != 3 && columns.size() != 4) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("expected 3 or 4 columns with tabs between them (id, prompt file, "
                            "continuation file, response file), found {}",
                            columns.size()));
  }
  Continuation c;
  c.id = columns[0];
  if (c.id.empty()) return fail(ErrorCode::kCorrupt, "id: expected text, found none");
  for (const size_t i : {1, 2}) {
    if (columns[i].empty()) {
      return fail(ErrorCode::kCorrupt, fmt::format("column {}: expected a file name", i + 1));
    }
    const std::filesystem::path path = folder / columns[i];
    DS4_TRY(std::string text, read_text(path));
    if (text.empty()) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: expected text, found none", path.string()));
    }
    (i == 1 ? c.prompt : c.text) = std::move(text);
  }
  return c;
}

}  // namespace

Result<std::vector<Continuation>> load_continuations(const std::string& manifest) {
  DS4_TRY(const std::string text, read_text(manifest));
  const std::filesystem::path folder = std::filesystem::path(manifest).parent_path();
  std::vector<Continuation> entries;
  std::unordered_set<std::string> ids;
  DS4_TRY(const std::vector<TableRow> rows, table_rows(text));
  for (const TableRow& row : rows) {
    const std::string where = fmt::format("{}:{}", manifest, row.line);
    auto entry = read_entry(row.columns, folder);
    if (!entry) return fail_within(where, entry.error());
    if (!ids.insert(entry->id).second) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: id: expected each once, found '{}' again", where, entry->id));
    }
    entries.push_back(std::move(*entry));
  }
  if (entries.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected lines with an id and files, found none", manifest));
  }
  return entries;
}

Result<ContinuationTokens> continuation_tokens(const Continuation& c, const Tokenizer& tokenizer) {
  Conversation conversation;
  conversation.messages.resize(1);
  conversation.messages[0].role = Role::kUser;
  conversation.messages[0].content = c.prompt;
  ContinuationTokens out;
  auto prompt = render_tokens(conversation, {.thinking = {.mode = ThinkingMode::kChat}}, tokenizer);
  if (!prompt) return fail_within(c.id, prompt.error());
  out.tokens = std::move(*prompt);
  out.n_prompt = std::ssize(out.tokens);
  const std::vector<Token> target = tokenizer.encode_text(c.text);
  out.tokens.insert(out.tokens.end(), target.begin(), target.end());
  return out;
}

Result<ContinuationScore> score_continuation(Scorer& scorer, const std::string& id,
                                             const ContinuationTokens& tokens) {
  ContinuationScore score{.id = id,
                          .prompt_tokens = tokens.n_prompt,
                          .target_tokens = std::ssize(tokens.tokens) - tokens.n_prompt};
  bool matches = true;
  const auto on_row = [&](int64_t place, std::span<const float> logits) -> Result<void> {
    if (place + 1 < tokens.n_prompt) return {};
    const Token target = tokens.tokens[static_cast<size_t>(place) + 1];
    const double value = LogSoftmax(logits).of(logits[static_cast<size_t>(target)]);
    if (!std::isfinite(value)) {
      return fail(ErrorCode::kNonFinite,
                  fmt::format("{}: the logits after token {} are not finite", id, place));
    }
    score.nll -= value;
    matches = matches && argmax(logits) == target;
    if (matches) ++score.greedy_prefix;
    return {};
  };
  scorer.restart();
  // The last token is predicted and not evaluated.
  DS4_TRY_VOID(scorer.advance(std::span(tokens.tokens).first(tokens.tokens.size() - 1), on_row));
  score.first_match = score.greedy_prefix > 0;
  return score;
}

ContinuationSummary summarize(std::span<const ContinuationScore> scores) {
  ContinuationSummary s{.cases = std::ssize(scores)};
  double nll = 0;
  int64_t prefix = 0;
  for (const ContinuationScore& score : scores) {
    nll += score.nll;
    s.target_tokens += score.target_tokens;
    s.first_matches += score.first_match;
    prefix += score.greedy_prefix;
  }
  if (s.target_tokens > 0) s.mean_nll = nll / static_cast<double>(s.target_tokens);
  if (s.cases > 0)
    s.mean_greedy_prefix = static_cast<double>(prefix) / static_cast<double>(s.cases);
  return s;
}

std::string score_line(const ContinuationScore& s) {
  return fmt::format(
      "{}: {} + {} tokens, nll {:.4f}, per token {:.4f}, first {}, greedy prefix {}\n", s.id,
      s.prompt_tokens, s.target_tokens, s.nll, s.nll_per_token(),
      s.first_match ? "matches" : "differs", s.greedy_prefix);
}

std::string summary_text(const ContinuationSummary& s) {
  return fmt::format(
      "cases {}  target tokens {}\nmean nll per token   {:.6f}\nfirst-token matches  {}\n"
      "mean greedy prefix   {:.2f}\n",
      s.cases, s.target_tokens, s.mean_nll, s.first_matches, s.mean_greedy_prefix);
}

}  // namespace ds4::eval
