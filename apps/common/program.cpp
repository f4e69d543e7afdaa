#include "common/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace ds4::app {

void fill_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    // The wrong way round, so that using them fails; errors alone may vanish.
    (void)::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
}

}  // namespace ds4::app
