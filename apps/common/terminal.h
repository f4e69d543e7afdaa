#pragma once
// What a person sees: the answer on standard output, progress on standard error.
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/printable.h"
#include "base/result.h"
#include "chat/output_splitter.h"

namespace ds4::app {

// What the output channels are.
struct Screen {
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool styles = false;  // the terminal understands escape sequences

  // `term` is the terminal's name from the environment; null, empty and "dumb" know no styles.
  static Screen detect(const char* term);
};

// Writes the answer as it comes. On a terminal reasoning is dim and control characters that a model
// might utter are shown as U+FFFD instead of steering the terminal; into a file or pipe the bytes
// are exact, and reasoning goes to standard error.
class AnswerPrinter {
 public:
  AnswerPrinter(const Screen& screen, bool hide_thinking);
  ~AnswerPrinter();
  AnswerPrinter(const AnswerPrinter&) = delete;
  AnswerPrinter& operator=(const AnswerPrinter&) = delete;

  // Errors: kIo when standard output is gone or full.
  Result<void> print(std::span<const OutputChunk> chunks);
  // Ends the line and restores colours.
  Result<void> finish();

 private:
  Result<void> write(std::string_view text);
  void set_dim(bool dim);

  const Screen screen_;
  const bool hide_thinking_;
  bool dim_ = false;
  bool any_reasoning_ = false;
  bool any_content_ = false;
  bool line_open_ = false;
};

// One line on standard error that is rewritten while tokens are read: percent, tokens, rate, time
// left. Silent when standard error is no terminal with styles or the work takes less than a second.
class PrefillProgress {
 public:
  // `doing` is the text in front: "reading the prompt".
  PrefillProgress(const Screen& screen, const char* doing);
  void update(int64_t done, int64_t total);
  // Removes the line.
  void clear();

 private:
  const bool visible_;
  const char* const doing_;
  const std::chrono::steady_clock::time_point start_;
  bool shown_ = false;
};

// Writes to standard error. That it cannot be written ends nothing: the answer matters more.
void print_error(std::string_view text);

// A line on standard error about the work, dim where that is possible.
void print_note(const Screen& screen, std::string_view text);

double seconds_since(std::chrono::steady_clock::time_point start);

}  // namespace ds4::app
