#include "tokenizer/utf8.h"

#include "base/check.h"

namespace ds4 {
namespace {

// What may follow a lead byte. The second byte has its own range: it is what rules out overlong
// forms, surrogates and values above U+10FFFF.
struct LeadByte {
  int n_bytes = 0;  // 0: cannot start a character
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

LeadByte classify(uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text, int64_t pos) {
  const int64_t n_left = static_cast<int64_t>(text.size()) - pos;
  DS4_DCHECK(pos >= 0 && n_left > 0);
  const LeadByte lead = classify(static_cast<uint8_t>(text[pos]));
  if (lead.n_bytes == 0) return {Utf8Status::kInvalid, 1};
  for (int64_t i = 1; i < lead.n_bytes; ++i) {
    if (i == n_left) return {Utf8Status::kIncomplete, i};
    const uint8_t byte = static_cast<uint8_t>(text[pos + i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Status::kInvalid, i};
  }
  return {Utf8Status::kValid, lead.n_bytes};
}

std::optional<std::string> utf8_repair(std::string_view text) {
  const int64_t n = static_cast<int64_t>(text.size());
  int64_t pos = 0;
  while (pos < n) {
    const Utf8Step step = utf8_step(text, pos);
    if (step.status != Utf8Status::kValid) break;
    pos += step.n_bytes;
  }
  if (pos == n) return std::nullopt;

  std::string repaired(text.substr(0, pos));
  while (pos < n) {
    const Utf8Step step = utf8_step(text, pos);
    const bool valid = step.status == Utf8Status::kValid;
    repaired += valid ? text.substr(pos, step.n_bytes) : kReplacementChar;
    pos += step.n_bytes;
  }
  return repaired;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  const std::string_view text = pending_;
  std::string out;
  int64_t pos = 0;
  while (pos < static_cast<int64_t>(text.size())) {
    const Utf8Step step = utf8_step(text, pos);
    if (step.status == Utf8Status::kIncomplete) break;
    out += step.status == Utf8Status::kValid ? text.substr(pos, step.n_bytes) : kReplacementChar;
    pos += step.n_bytes;
  }
  pending_.erase(0, pos);
  return out;
}

std::string Utf8Stream::flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementChar);
}

}  // namespace ds4
