#include "common/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ds4::app {
namespace {

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

}  // namespace

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Screen Screen::detect(const char* term) {
  const std::string_view name = term == nullptr ? "" : term;
  return {.out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
          .err_is_terminal = ::isatty(STDERR_FILENO) == 1,
          .styles = !name.empty() && name != "dumb"};
}

void print_error(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void print_note(const Screen& screen, std::string_view text) {
  const bool dim = screen.err_is_terminal && screen.styles;
  print_error(fmt::format("{}{}{}\n", dim ? kDim : "", without_controls(text), dim ? kPlain : ""));
}

AnswerPrinter::AnswerPrinter(const Screen& screen, bool hide_thinking)
    : screen_(screen), hide_thinking_(hide_thinking) {}

AnswerPrinter::~AnswerPrinter() { set_dim(false); }

void AnswerPrinter::set_dim(bool dim) {
  if (dim == dim_ || !screen_.styles) return;
  dim_ = dim;
  FILE* stream = screen_.out_is_terminal ? stdout : stderr;
  const std::string_view style = dim ? kDim : kPlain;
  (void)std::fwrite(style.data(), 1, style.size(), stream);
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
      if (screen_.out_is_terminal || screen_.err_is_terminal) set_dim(true);
      if (screen_.out_is_terminal) {
        DS4_TRY_VOID(write(without_controls(chunk.text)));
      } else {
        print_error(screen_.err_is_terminal ? without_controls(chunk.text) : chunk.text);
      }
      continue;
    }
    set_dim(false);
    if (!any_content_ && any_reasoning_) {
      if (screen_.out_is_terminal) {
        DS4_TRY_VOID(write("\n\n"));
      } else {
        print_error("\n");
      }
    }
    any_content_ = true;
    DS4_TRY_VOID(write(screen_.out_is_terminal ? without_controls(chunk.text) : chunk.text));
  }
  return {};
}

Result<void> AnswerPrinter::finish() {
  set_dim(false);
  if (any_reasoning_ && !any_content_ && !screen_.out_is_terminal) print_error("\n");
  if (line_open_) return write("\n");
  return {};
}

PrefillProgress::PrefillProgress(const Screen& screen, const char* doing)
    : visible_(screen.err_is_terminal && screen.styles),
      doing_(doing),
      start_(std::chrono::steady_clock::now()) {}

void PrefillProgress::update(int64_t done, int64_t total) {
  const double seconds = seconds_since(start_);
  if (!visible_ || (seconds < 1 && !shown_)) return;
  shown_ = true;
  const double rate = static_cast<double>(done) / seconds;
  std::string line =
      fmt::format("{}: {}% ({} of {} tokens, {:.0f} t/s, {:.0f} s left)", doing_,
                  done * 100 / total, done, total, rate, static_cast<double>(total - done) / rate);
  // A line that wraps could not be taken back.
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) {
    line.resize(std::min(line.size(), size_t{size.ws_col} - 1));
  }
  print_error("\r" + line + "\x1b[K");
}

void PrefillProgress::clear() {
  if (shown_) print_error("\r\x1b[K");
  shown_ = false;
}

}  // namespace ds4::app
