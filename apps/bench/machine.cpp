// --machine: the limits that rates are judged by.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/signals.h"
#include "machine/limits.h"
#include "run.h"

namespace ds4::bench {

Result<int> show_machine(const Options& o) {
  machine::Options options{.n_threads = o.n_threads};
  options.before = [&](const char* what) {
    if (o.screen.err_is_terminal) app::print_error(fmt::format("\rmeasuring {}\x1b[K", what));
    return app::interrupted();
  };
  app::enter_phase(app::Phase::kWorking);
  const auto limits = machine::measure(options);
  if (o.screen.err_is_terminal) app::print_error("\r\x1b[K");
  if (!limits && limits.error().code == ErrorCode::kCancelled) return app::kExitInterrupted;
  if (!limits) return tl::unexpected(limits.error());

  std::string text;
  const auto line = [&](const std::string& name, const std::string& one, const std::string& all) {
    text += fmt::format("{:<32}{:>22}", name, one);
    if (limits->n_threads > 1) text += fmt::format("{:>22}", all);
    text += '\n';
  };
  const auto rates = [&](const std::string& name, const machine::Limit& limit) {
    const auto cell = [](const machine::Rate& rate) {
      return fmt::format("{:.1f} ({:.1f})", rate.best, rate.median);
    };
    line(name, cell(limit.one), cell(limit.all));
  };
  line(limits->target, "1 thread", fmt::format("{} threads", limits->n_threads));
  rates("memory read, GB/s", limits->memory_read);
  rates("  in large pages", limits->memory_read_large);
  rates(fmt::format("cache read ({} KiB), GB/s", options.cache_bytes >> 10), limits->cache_read);
  rates("int8 multiply-adds, 10^9/s", limits->int8);
  rates("f32 multiply-adds, 10^9/s", limits->f32);
  text += fmt::format("best of {} measurements (median)\n", options.repeat);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return fail(ErrorCode::kIo,
                fmt::format("standard output: cannot write: {}", std::strerror(errno)));
  }
  return 0;
}

}  // namespace ds4::bench
