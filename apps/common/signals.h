#pragma once
// What a user asks for from outside the program: Ctrl-C, an end, another window size. Handlers only
// set flags and wake whoever waits on signal_fd(); the program looks when it can act.
//
// Process-wide; the functions may be called from one thread, the main one.

namespace ds4::app {

// How a Ctrl-C (or SIGTERM) is taken.
enum class Phase {
  kLoading,  // nothing to keep yet: the program ends at once, exit code 130
  kWorking,  // the first is noted and stops the work; a second, before that is done, ends the
             // program
  kPrompt,   // any number are noted: they clear the line
};

// Handlers for SIGINT, SIGTERM, SIGWINCH and SIGCONT; SIGPIPE is ignored, so that writing to a
// reader that has gone is an error like any other. Starts in kLoading.
void install_signals();
void enter_phase(Phase phase);

// Whether Ctrl-C or SIGTERM came and was not yet taken.
bool interrupted();
// Whether SIGTERM came: the program should end.
bool end_requested();
// Forgets a Ctrl-C that has been answered.
void clear_interrupt();

// Whether the window changed its size, or the program came back from a stop (Ctrl-Z, fg), since
// last asked.
bool take_resized();
bool take_continued();

// Readable after a signal. A wait on it together with the terminal misses none, whichever thread
// took the signal. drain_signal_fd() makes it quiet again.
int signal_fd();
void drain_signal_fd();

}  // namespace ds4::app
