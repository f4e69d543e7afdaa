#include "tui.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "common/exit_codes.h"
#include "common/signals.h"
#include "full_screen.h"
#include "page.h"

namespace ds4::evaluate {
namespace {

// Drawing costs the cores that compute: five pages a second read well.
constexpr int kFrameMs = 200;

class Tui {
 public:
  explicit Tui(eval::Board& board) : board_(board) {}

  Result<void> run() {
    DS4_TRY_VOID(screen_.enter());
    for (;;) {
      if (app::interrupted()) quit();
      DS4_TRY(const bool done, draw());
      if (done) return {};
      DS4_TRY_VOID(wait_and_read());
    }
  }

 private:
  void quit() {
    if (!std::exchange(quitting_, true)) board_.quit();
  }

  // True when there is nothing more to show.
  Result<bool> draw() {
    const auto [columns, rows] = FullScreen::size();
    size_ = {columns, rows};
    eval::BoardSnapshot seen = board_.snapshot(view_.selected, page_text_bytes(view_, size_));
    if (quitting_ && seen.finished) return true;
    if (view_.follow && seen.newest && *seen.newest != view_.selected) {
      view_.selected = *seen.newest;
      view_.scroll = 0;
      seen = board_.snapshot(view_.selected, page_text_bytes(view_, size_));
    }
    const Page page = draw_page(board_.cases(), seen, view_, size_);
    view_.scroll = page.scroll;
    DS4_TRY_VOID(screen_.draw(page.rows));
    return false;
  }

  // Until a key, a signal, or the next frame is due.
  Result<void> wait_and_read() {
    pollfd waits[] = {{STDIN_FILENO, POLLIN, 0}, {app::signal_fd(), POLLIN, 0}};
    if (::poll(waits, 2, kFrameMs) < 0 && errno != EINTR) {
      return fail(ErrorCode::kIo, "terminal: cannot wait for keys");
    }
    if ((waits[1].revents & POLLIN) != 0) app::drain_signal_fd();
    if (app::take_resized()) screen_.forget_drawn();
    if (app::take_continued()) DS4_TRY_VOID(screen_.resume());
    if (waits[0].revents == 0) return {};
    char buffer[256];
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof(buffer));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return {};
    if (n <= 0) return fail(ErrorCode::kIo, "terminal: no more keys");
    for (const Key key : keys_.push(std::string_view(buffer, static_cast<size_t>(n)))) {
      DS4_TRY_VOID(take(key));
    }
    return {};
  }

  void select(int64_t step) {
    const auto last = static_cast<int64_t>(board_.cases().size()) - 1;
    if (last < 0) return;
    view_.follow = false;
    view_.scroll = 0;
    view_.selected = static_cast<size_t>(
        std::clamp<int64_t>(static_cast<int64_t>(view_.selected) + step, 0, last));
  }

  void scroll(int64_t direction) {
    const int64_t step = std::max(size_.rows / 2, 1);
    view_.scroll = std::max<int64_t>(view_.scroll + direction * step, 0);
  }

  Result<void> take(Key key) {
    switch (key) {
      case Key::kUp:
        select(-1);
        break;
      case Key::kDown:
        select(1);
        break;
      case Key::kPageUp:
        scroll(1);
        break;
      case Key::kPageDown:
        scroll(-1);
        break;
      case Key::kEnter:
        board_.run_next(view_.selected);
        break;
      case Key::kPause:
        board_.toggle_paused();
        break;
      case Key::kFollow:
        view_.follow = true;
        view_.scroll = 0;
        break;
      case Key::kQuit:
        quit();
        break;
      case Key::kInterrupt:
        interrupt();
        break;
      case Key::kSuspend:
        return suspend();
      case Key::kRedraw:
        screen_.forget_drawn();
        break;
    }
    return {};
  }

  // As outside the full screen: the first ends the run with its report, the second the program.
  void interrupt() {
    if (quitting_) {
      screen_.leave();
      std::_Exit(app::kExitInterrupted);
    }
    ::raise(SIGINT);
  }

  // The clock of the run stands still with the program.
  Result<void> suspend() {
    const bool was_paused = board_.snapshot(0, 0).paused;
    board_.set_paused(true);
    auto again = screen_.suspend();
    if (!was_paused) board_.set_paused(false);
    return again;
  }

  eval::Board& board_;
  FullScreen screen_;
  KeyReader keys_;
  View view_;
  PageSize size_;
  bool quitting_ = false;
};

}  // namespace

Result<void> show_board(eval::Board& board) {
  app::enter_phase(app::Phase::kPrompt);
  auto shown = Tui(board).run();
  if (!shown) board.quit();
  app::enter_phase(app::Phase::kWorking);
  return shown;
}

}  // namespace ds4::evaluate
