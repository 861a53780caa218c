// Any bytes as an SQLite database of Nsight Systems: opened read-only from an unnamed place, read
// to its end or refused. The page cache of SQLite reads the file, so each input is written to
// memory that has a path.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "analyse.h"
#include "attune/base/check.h"
#include "event_store.h"
#include "nsys.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune::traces;
  // The two steering bytes of the replay are not needed.
  if (size < 2) return 0;
  const int fd = memfd_create("nsys", MFD_CLOEXEC);
  ATTUNE_CHECK(fd >= 0, "memory for a file");
  ATTUNE_CHECK(write(fd, data + 2, size - 2) == static_cast<ssize_t>(size - 2), "written whole");
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  EventStore store(std::size_t{4} << 20);
  const attune::Status read = ReadNsys(path, {}, store);
  if (read) {
    const attune::RankTrace t = Analyse(store);
    ATTUNE_CHECK(t.whole_file.time.busy <= t.whole_file.time.span, "busy within the span");
  } else {
    ATTUNE_CHECK(!read.error().message.empty(), "a refusal says why");
  }
  close(fd);
  return 0;
}
