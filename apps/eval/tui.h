#pragma once
// The full-screen mode: shows a board and takes keys, while a runner works in another thread.
#include "base/result.h"
#include "eval/board.h"

namespace ds4::evaluate {

// Returns once the user asked to quit and the run has ended; a run that came to its end stays on
// the screen until then. SIGINT and SIGTERM count as asking. The terminal is then as it was.
// Requires app::install_signals(). Errors: kIo when the terminal is gone; the board was told to
// quit then, too.
Result<void> show_board(eval::Board& board);

}  // namespace ds4::evaluate
