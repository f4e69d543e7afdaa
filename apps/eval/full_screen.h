#pragma once
// The terminal as a page of rows: its mode, what is drawn on it, and the keys that come from it.
//
// The terminal is given back as it was on every way out: leave(), a signal that stops the program
// for a while (Ctrl-Z), and a crash.
//
// One at a time, used by one thread.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ds4::evaluate {

enum class Key {
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kEnter,
  kPause,
  kFollow,
  kQuit,
  kInterrupt,  // Ctrl-C
  kSuspend,    // Ctrl-Z
  kRedraw,     // Ctrl-L
};

// Keys from the bytes a terminal sends. An escape sequence may come in several pieces.
class KeyReader {
 public:
  std::vector<Key> push(std::string_view bytes);

 private:
  std::string pending_;
};

// Standard input and output must be terminals.
class FullScreen {
 public:
  FullScreen() = default;
  ~FullScreen() { leave(); }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // Takes the terminal: single keys without echo (Ctrl-C and Ctrl-Z among them), the other page, no
  // cursor. What is written to a standard error that is a terminal waits until leave(). Errors:
  // kIo.
  Result<void> enter();
  // Gives it back, and shows what was held. Harmless when not entered.
  void leave();
  // Ctrl-Z: gives it back, stops the program, and takes it again once it goes on.
  Result<void> suspend();
  // Takes it again after the program was stopped by someone else.
  Result<void> resume();

  // Writes the rows that differ from those drawn last. Errors: kIo when the terminal is gone.
  Result<void> draw(std::span<const std::string> rows);
  // Everything is drawn anew next time.
  void forget_drawn() { drawn_.clear(); }

  // Columns and rows of the terminal; 80x24 when it does not say.
  static std::pair<int, int> size();

 private:
  std::vector<std::string> drawn_;
};

}  // namespace ds4::evaluate
