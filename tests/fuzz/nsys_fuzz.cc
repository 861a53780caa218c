// Any bytes as an SQLite database of Nsight Systems: read to its end or refused. SQLite wants a
// path, so each input is written over one file.
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "analyse.h"
#include "attune/base/check.h"
#include "event_store.h"
#include "nsys.h"

namespace {

class OneFile {
 public:
  OneFile() : path_(std::filesystem::temp_directory_path() / "nsys_fuzz.XXXXXX") {
    fd_ = mkstemp(path_.data());
    ATTUNE_CHECK(fd_ >= 0, "a temporary file");
  }
  ~OneFile() {
    close(fd_);
    unlink(path_.c_str());
  }
  const std::string& Write(const std::uint8_t* data, std::size_t size) {
    ATTUNE_CHECK(ftruncate(fd_, 0) == 0, "emptied");
    ATTUNE_CHECK(pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size), "written whole");
    return path_;
  }

 private:
  std::string path_;
  int fd_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune::traces;
  static OneFile file;
  // The replay puts two steering bytes before a mutated file.
  if (size < 2) return 0;
  if (data[0] != 'S') {
    data += 2;
    size -= 2;
  }
  EventStore store(std::size_t{4} << 20);
  const attune::Status read = ReadNsys(file.Write(data, size), {}, store);
  if (read) {
    const attune::RankTrace t = Analyse(store);
    ATTUNE_CHECK(t.whole_file.time.busy <= t.whole_file.time.span, "busy within the span");
  } else {
    ATTUNE_CHECK(!read.error().message.empty(), "a refusal says why");
  }
  return 0;
}
