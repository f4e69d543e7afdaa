#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ds4::cli {
namespace {

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

}  // namespace

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      out += "\uFFFD";
    } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {  // C1 controls, U+0080 .. U+009F
      out += "\uFFFD";
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

AnswerPrinter::AnswerPrinter(bool hide_thinking)
    : terminal_(isatty(STDOUT_FILENO) == 1),
      error_terminal_(isatty(STDERR_FILENO) == 1),
      hide_thinking_(hide_thinking) {}

AnswerPrinter::~AnswerPrinter() { set_dim(false); }

void AnswerPrinter::set_dim(bool dim) {
  if (dim == dim_) return;
  dim_ = dim;
  FILE* stream = terminal_ ? stdout : stderr;
  fmt::print(stream, "{}", dim ? kDim : kPlain);
  std::fflush(stream);
}

Result<void> AnswerPrinter::write(std::string_view text) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!whole || std::fflush(stdout) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot write the answer: {}", std::strerror(errno)));
  }
  if (!text.empty()) line_open_ = text.back() != '\n';
  return {};
}

Result<void> AnswerPrinter::print(std::span<const OutputChunk> chunks) {
  for (const OutputChunk& chunk : chunks) {
    const bool reasoning = chunk.channel == Channel::kReasoning;
    if (reasoning && hide_thinking_) continue;
    if (reasoning) {
      any_reasoning_ = true;
      if (terminal_ || error_terminal_) set_dim(true);
      if (terminal_) {
        DS4_TRY_VOID(write(without_controls(chunk.text)));
      } else {
        fmt::print(stderr, "{}", error_terminal_ ? without_controls(chunk.text) : chunk.text);
      }
      continue;
    }
    set_dim(false);
    if (!any_content_ && any_reasoning_) {
      if (terminal_) {
        DS4_TRY_VOID(write("\n\n"));
      } else {
        fmt::print(stderr, "\n");
      }
    }
    any_content_ = true;
    DS4_TRY_VOID(write(terminal_ ? without_controls(chunk.text) : chunk.text));
  }
  return {};
}

Result<void> AnswerPrinter::finish() {
  set_dim(false);
  if (any_reasoning_ && !any_content_ && !terminal_) fmt::print(stderr, "\n");
  if (line_open_) return write("\n");
  return {};
}

PrefillProgress::PrefillProgress()
    : terminal_(isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

void PrefillProgress::update(int64_t done, int64_t total) {
  const double seconds = seconds_since(start_);
  if (!terminal_ || (seconds < 1 && !shown_)) return;
  shown_ = true;
  const double rate = static_cast<double>(done) / seconds;
  fmt::print(stderr, "\rreading the prompt: {}% ({} of {} tokens, {:.0f} t/s, {:.0f} s left)\x1b[K",
             done * 100 / total, done, total, rate, static_cast<double>(total - done) / rate);
  std::fflush(stderr);
}

void PrefillProgress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace ds4::cli
