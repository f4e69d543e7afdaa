#pragma once
// One message at a time from a person at a terminal: editing, history, pasting. The only file that
// knows libedit.
//
// Keys are libedit's (emacs style, or what ~/.editrc says), and Ctrl-R searches the history. A line
// that ends in a backslash goes on in the next one. Text pasted into a terminal with bracketed
// paste stays one message, line breaks included; where a terminal lacks that (TERM=dumb), each
// pasted line is a message of its own. The terminal is spoken to in UTF-8 whatever the locale.
//
// Single-thread. At most one at a time: it owns the modes of the terminal while read() runs.
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace ds4::cli {

struct LineEditorOptions {
  std::string prompt = "ds4> ";
  std::string continuation = "...> ";
  bool bracketed_paste = true;
  std::vector<std::string> history;  // oldest first
  int n_history = 1000;              // entries kept
};

struct Line {
  enum class How {
    kText,         // a message, without its last newline
    kInterrupted,  // Ctrl-C: what was typed is dropped
    kEnd,          // Ctrl-D, the terminal has gone, or the program was asked to end
  };
  How how = How::kEnd;
  std::string text;
};

class LineEditor {
 public:
  // Reads standard input; the line is shown on standard output where that is a terminal, else on
  // standard error. Errors: kIo when libedit does not start.
  static Result<std::unique_ptr<LineEditor>> create(LineEditorOptions options);
  ~LineEditor();

  Line read();
  void remember(const std::string& entry);

 private:
  struct Impl;
  explicit LineEditor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ds4::cli
