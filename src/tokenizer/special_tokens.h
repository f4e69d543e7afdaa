#pragma once
// Control tokens of DeepSeek-V4 by their spelling. Ids differ between vocabularies (Flash and Pro
// have 129,280 entries, Nano 4,096), so nothing in this project knows an id: everyone looks
// spellings up. The bar is U+FF5C and the low block U+2581.
#include <array>
#include <optional>
#include <string_view>

#include "tokenizer/token.h"

namespace ds4 {

namespace spelling {
inline constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kPad = "<｜▁pad▁｜>";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kThinkOpen = "<think>";
inline constexpr std::string_view kThinkClose = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";  // the `<` or `</` around it is ordinary text
inline constexpr std::string_view kLatestReminder = "<｜latest_reminder｜>";
}  // namespace spelling

// Ids of the tokens without which no prompt can be rendered, and of two that a vocabulary may lack.
struct SpecialTokens {
  Token bos = -1;
  Token eos = -1;
  Token user = -1;
  Token assistant = -1;
  Token think_open = -1;
  Token think_close = -1;
  Token dsml = -1;
  std::optional<Token> pad;
  std::optional<Token> latest_reminder;

  // True for EOS and for the three tokens that cannot follow inside an answer (BOS, user,
  // assistant): a damaged or badly quantized model that samples one of them has left its turn all
  // the same.
  bool ends_turn(Token token) const {
    return token == eos || token == bos || token == user || token == assistant;
  }
};

}  // namespace ds4
