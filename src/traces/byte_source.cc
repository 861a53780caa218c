#include "byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace attune::traces {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class FileSource final : public ByteSource {
 public:
  FileSource(Descriptor fd, const struct stat& at_open) : fd_(std::move(fd)), at_open_(at_open) {}

  Result<std::size_t> Read(char* to, std::size_t n) override {
    for (;;) {
      const ssize_t got = read(fd_.get(), to, n);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno == EINTR) continue;
      return Fail(ErrorCode::kUnavailable, std::string("cannot read: ") + std::strerror(errno));
    }
  }

  bool Changed() const override {
    struct stat now {};
    if (fstat(fd_.get(), &now) != 0) return true;
    return now.st_size != at_open_.st_size || now.st_mtim.tv_sec != at_open_.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != at_open_.st_mtim.tv_nsec;
  }

 private:
  Descriptor fd_;
  struct stat at_open_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string_view bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}

  Result<std::size_t> Read(char* to, std::size_t n) override {
    n = std::min(n, bytes_.size());
    if (piece_ != 0) n = std::min(n, piece_);
    std::copy_n(bytes_.data(), n, to);
    bytes_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view bytes_;
  std::size_t piece_;
};

class LimitedSource final : public ByteSource {
 public:
  LimitedSource(std::unique_ptr<ByteSource> source, std::int64_t most, bool* cut)
      : source_(std::move(source)), left_(most), cut_(cut) {}

  Result<std::size_t> Read(char* to, std::size_t n) override {
    if (left_ <= 0) {
      char more = 0;
      const auto got = source_->Read(&more, 1);
      *cut_ = *cut_ || (got && *got > 0);
      return std::size_t{0};
    }
    n = static_cast<std::size_t>(std::min<std::uint64_t>(n, static_cast<std::uint64_t>(left_)));
    ATTUNE_TRY(const std::size_t got, source_->Read(to, n));
    left_ -= static_cast<std::int64_t>(got);
    return got;
  }
  bool EndedEarly() const override { return source_->EndedEarly(); }
  bool Changed() const override { return source_->Changed(); }
  bool HadTrailingBytes() const override { return source_->HadTrailingBytes(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::int64_t left_;
  bool* cut_;
};

Error OpenError(const std::string& path, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound
                         : error == EACCES || error == EPERM ? ErrorCode::kDenied
                                                             : ErrorCode::kUnavailable;
  return {code, path + ": " + std::strerror(error), {}};
}

}  // namespace

Result<OpenedFile> OpenFile(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0) return Fail(OpenError(path, errno));
  struct stat at_open {};
  if (fstat(fd.get(), &at_open) != 0) return Fail(OpenError(path, errno));
  if (!S_ISREG(at_open.st_mode)) {
    return Fail(ErrorCode::kInvalidInput,
                path + (S_ISDIR(at_open.st_mode) ? ": is a folder, not a trace file"
                                                 : ": is no regular file"));
  }
  char head[16] = {};
  const ssize_t got = pread(fd.get(), head, sizeof head, 0);
  if (got < 0) return Fail(OpenError(path, errno));
  const std::string_view start(head, static_cast<std::size_t>(got));

  OpenedFile file;
  file.identity = {static_cast<std::uint64_t>(at_open.st_dev),
                   static_cast<std::uint64_t>(at_open.st_ino), at_open.st_size};
  file.sqlite = start.size() == 16 && start == std::string_view("SQLite format 3\0", 16);
  file.compressed = start.size() >= 2 && start[0] == '\x1f' && start[1] == '\x8b';
  file.source = std::make_unique<FileSource>(std::move(fd), at_open);
  if (file.compressed) file.source = Inflate(std::move(file.source));
  return file;
}

std::unique_ptr<ByteSource> Limit(std::unique_ptr<ByteSource> source, std::int64_t most,
                                  bool* cut) {
  return std::make_unique<LimitedSource>(std::move(source), most, cut);
}

std::unique_ptr<ByteSource> FromMemory(std::string_view bytes, std::size_t piece) {
  return std::make_unique<MemorySource>(bytes, piece);
}

}  // namespace attune::traces
