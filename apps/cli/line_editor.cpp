#include "line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "signals.h"
#include "tokenizer/utf8.h"

namespace ds4::cli {
namespace {

// wchar_t is a code point here.
static_assert(sizeof(wchar_t) == 4);

std::wstring widen(std::string_view text) {
  std::wstring wide;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, static_cast<int64_t>(pos));
    const size_t n = static_cast<size_t>(step.n_bytes);
    if (step.status != Utf8Status::kValid) {
      wide += L'\uFFFD';
    } else {
      const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[pos + i]); };
      wchar_t code = n == 1 ? byte(0) : byte(0) & (0x7f >> n);
      for (size_t i = 1; i < n; ++i) code = (code << 6) | (byte(i) & 0x3f);
      wide += code;
    }
    pos += n;
  }
  return wide;
}

std::string narrow(std::wstring_view wide) {
  std::string text;
  const auto tail = [&](uint32_t code, int shift) {
    text += static_cast<char>(0x80 | ((code >> shift) & 0x3f));
  };
  for (const wchar_t c : wide) {
    const uint32_t code = static_cast<uint32_t>(c);
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xc0 | (code >> 6));
      tail(code, 0);
    } else if (code < 0x10000) {
      text += static_cast<char>(0xe0 | (code >> 12));
      tail(code, 6), tail(code, 0);
    } else {
      text += static_cast<char>(0xf0 | (code >> 18));
      tail(code, 12), tail(code, 6), tail(code, 0);
    }
  }
  return text;
}

// libedit writes through the locale's encoding. Terminals of today speak UTF-8 even where the
// locale is C or an old one.
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) == "UTF-8") return;
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "C");
}

constexpr std::wstring_view kPasteEnd = L"\x1b[201~";
constexpr size_t kPasteCharsMax = size_t{8} << 20;

}  // namespace

struct LineEditor::Impl {
  LineEditorOptions options;
  std::wstring prompt, continuation;
  bool continuing = false;
  FILE* screen = stdout;
  EditLine* edit = nullptr;
  HistoryW* history = nullptr;
  std::string pending;  // bytes of a character that has not arrived whole
  Line::How stopped = Line::How::kText;

  ~Impl() {
    if (edit != nullptr) ::el_end(edit);
    if (history != nullptr) ::history_wend(history);
  }

  static Impl& of(EditLine* edit) {
    void* data = nullptr;
    ::el_wget(edit, EL_CLIENTDATA, &data);
    return *static_cast<Impl*>(data);
  }

  static wchar_t* show_prompt(EditLine* edit) {
    Impl& self = of(edit);
    return (self.continuing ? self.continuation : self.prompt).data();
  }

  // Waits for input or a signal. False: the line ends as `stopped` says.
  bool wait_for_input() {
    while (true) {
      drain_signal_fd();
      if (end_requested()) {
        stopped = Line::How::kEnd;
        return false;
      }
      if (interrupted()) {
        clear_interrupt();
        stopped = Line::How::kInterrupted;
        return false;
      }
      if (take_resized()) ::el_resize(edit);
      if (take_continued()) {  // the shell has put the terminal into its own modes meanwhile
        ::el_wset(edit, EL_PREP_TERM, 0);
        ::el_wset(edit, EL_PREP_TERM, 1);
        ::el_wset(edit, EL_REFRESH);
      }
      pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {signal_fd(), POLLIN, 0}};
      const int n = ::poll(fds, 2, -1);
      if (n < 0 && errno != EINTR) return true;  // read() will say what is wrong
      if (n > 0 && fds[0].revents != 0) return true;
    }
  }

  // One character from the terminal. 1, or 0 at the end.
  int read_char(wchar_t* out) {
    while (true) {
      if (!wait_for_input()) return 0;
      char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) {
        stopped = Line::How::kEnd;
        return 0;
      }
      pending += byte;
      if (utf8_step(pending, 0).status == Utf8Status::kIncomplete) continue;
      *out = widen(pending).front();
      pending.clear();
      return 1;
    }
  }

  static int read_char_hook(EditLine* edit, wchar_t* out) { return of(edit).read_char(out); }

  // Takes everything up to the end mark as text: a pasted newline does not send the message.
  static unsigned char paste(EditLine* edit, wint_t) {
    std::wstring text;
    wchar_t c = 0;
    while (!text.ends_with(kPasteEnd)) {
      if (::el_wgetc(edit, &c) != 1) return CC_EOF;
      if (text.size() < kPasteCharsMax) text += c;
    }
    text.resize(text.size() - kPasteEnd.size());
    std::wstring clean;
    for (const wchar_t ch : text) {
      if (ch == L'\r') {  // what most terminals send for a line break
        clean += L'\n';
      } else if (ch == L'\n' || ch == L'\t' || ch >= 0x20) {
        clean += ch;
      }
    }
    if (!clean.empty() && ::el_winsertstr(edit, clean.c_str()) != 0) return CC_ERROR;
    return CC_REFRESH;
  }

  void bind_keys() {
    ::el_wset(edit, EL_ADDFN, L"ds4-paste", L"Insert pasted text", paste);
    const wchar_t* const keys[][2] = {
        {L"\\e[200~", L"ds4-paste"},         {L"^R", L"em-inc-search-prev"},
        {L"\\e[H", L"ed-move-to-beg"},       {L"\\e[F", L"ed-move-to-end"},
        {L"\\e[1~", L"ed-move-to-beg"},      {L"\\e[4~", L"ed-move-to-end"},
        {L"\\e[3~", L"ed-delete-next-char"}, {L"\\e[1;5C", L"em-next-word"},
        {L"\\e[1;5D", L"ed-prev-word"},
    };
    for (const auto& [key, function] : keys) ::el_wset(edit, EL_BIND, key, function, nullptr);
  }

  Line read_line() {
    stopped = Line::How::kEnd;
    pending.clear();
    ::el_wset(edit, EL_PROMPT, show_prompt);
    if (take_resized()) ::el_resize(edit);
    // By itself libedit shows the prompt first: a Ctrl-D that is faster would be lost.
    ::el_wset(edit, EL_PREP_TERM, 1);
    int n = 0;
    const wchar_t* wide = ::el_wgets(edit, &n);
    if (wide == nullptr || n <= 0) {
      std::fputs(stopped == Line::How::kInterrupted ? "^C\n" : "\n", screen);
      std::fflush(screen);
      return {stopped, {}};
    }
    std::string text = narrow(std::wstring_view(wide, static_cast<size_t>(n)));
    if (text.ends_with('\n')) text.pop_back();
    return {Line::How::kText, std::move(text)};
  }

  void set_paste_marks(bool on) const {
    if (!options.bracketed_paste) return;
    std::fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", screen);
    std::fflush(screen);
  }
};

LineEditor::LineEditor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LineEditor::~LineEditor() = default;

Result<std::unique_ptr<LineEditor>> LineEditor::create(LineEditorOptions options) {
  use_utf8_locale();
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->prompt = widen(impl->options.prompt);
  impl->continuation = widen(impl->options.continuation);
  impl->screen = ::isatty(STDOUT_FILENO) == 1 ? stdout : stderr;
  impl->edit = ::el_init("ds4", stdin, impl->screen, stderr);
  impl->history = ::history_winit();
  if (impl->edit == nullptr || impl->history == nullptr) {
    return fail(ErrorCode::kIo, "cannot start the line editor: out of memory");
  }
  EditLine* edit = impl->edit;
  ::el_wset(edit, EL_CLIENTDATA, static_cast<void*>(impl.get()));
  ::el_wset(edit, EL_EDITOR, L"emacs");
  ::el_wset(edit, EL_GETCFN, &Impl::read_char_hook);
  HistEventW event = {};
  ::history_w(impl->history, &event, H_SETSIZE, impl->options.n_history);
  ::history_w(impl->history, &event, H_SETUNIQUE, 1);
  ::el_wset(edit, EL_HIST, history_w, impl->history);
  impl->bind_keys();
  ::el_source(edit, nullptr);  // ~/.editrc, if there is one
  std::unique_ptr<LineEditor> editor(new LineEditor(std::move(impl)));
  for (const std::string& entry : editor->impl_->options.history) editor->remember(entry);
  return editor;
}

Line LineEditor::read() {
  impl_->set_paste_marks(true);
  std::string text;
  impl_->continuing = false;
  Line line;
  while (true) {
    line = impl_->read_line();
    if (line.how != Line::How::kText) break;
    text += line.text;
    if (!text.ends_with('\\')) break;
    text.back() = '\n';
    impl_->continuing = true;
  }
  impl_->set_paste_marks(false);
  if (line.how == Line::How::kText) line.text = std::move(text);
  return line;
}

void LineEditor::remember(const std::string& entry) {
  HistEventW event = {};
  ::history_w(impl_->history, &event, H_ENTER, widen(entry).c_str());
}

}  // namespace ds4::cli
