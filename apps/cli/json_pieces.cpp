#include "json_pieces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "chat/json_text.h"

namespace ds4::cli {

std::string json_string(std::string_view text) {
  return write_json(nlohmann::ordered_json(std::string(text)));
}

std::string json_number(float value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string json_ids(std::span<const Token> tokens) {
  return fmt::format("[{}]", fmt::join(tokens, ","));
}

std::string json_token(const Tokenizer& tokenizer, Token token) {
  const std::string_view bytes = tokenizer.bytes_of(token);
  std::string list;
  for (const char c : bytes) {
    if (!list.empty()) list += ',';
    list += fmt::format("{}", static_cast<unsigned char>(c));
  }
  return fmt::format("\"id\":{},\"text\":{},\"bytes\":[{}]", token, json_string(bytes), list);
}

}  // namespace ds4::cli
