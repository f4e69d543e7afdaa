#pragma once
// JSON that the dumps and the trace write, piece by piece: the files can be large and their layout
// is fixed, so no tree is built.
#include <string>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace ds4::cli {

// A string with its quotes; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

// The shortest text that reads back as the same value; null when it is not finite, for which JSON
// has no number.
std::string json_number(float value);
std::string json_number(double value);

// [1,2,3]
std::string json_ids(std::span<const Token> tokens);

// "id":7,"text":"…","bytes":[…] without braces: text is lossy UTF-8, bytes are exact.
std::string json_token(const Tokenizer& tokenizer, Token token);

}  // namespace ds4::cli
