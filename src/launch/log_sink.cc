#include "log_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "attune/os/files.h"
#include "run_folder.h"

namespace attune::launch {
namespace {

constexpr std::size_t kTail = 64 << 10;

Result<os::Fd> Create(const std::string& path) {
  os::Fd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return os::FailErrno("creating " + path, errno);
  }
  return fd;
}

std::size_t WriteSome(int fd, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

Result<LogSink> LogSink::Open(const std::string& folder, int rank, std::int64_t cap) {
  LogSink sink;
  ATTUNE_TRY(sink.out_, Create(folder + "/" + RankFile("out", rank)));
  ATTUNE_TRY(sink.stamps_, Create(folder + "/" + RankFile("stamps", rank)));
  ATTUNE_TRY(sink.errs_, Create(folder + "/" + RankFile("errs", rank)));
  sink.cap_ = cap;
  return sink;
}

std::size_t LogSink::Append(std::string_view bytes, Stream stream) {
  const std::size_t n = WriteSome(out_.get(), bytes);
  const ErrRange range{bytes_, bytes_ + static_cast<std::int64_t>(n)};
  bytes_ = range.end;
  if (stream == Stream::kErr && n > 0 && errs_.valid() &&
      WriteSome(errs_.get(), Encode(range)) != kErrRangeBytes) {
    errs_.Close();  // half an entry, as below
  }
  return n;
}

void LogSink::StampUpTo(Millis since_start) {
  if (bytes_ == stamped_) {
    return;
  }
  // Written after the bytes it speaks of: a stamp never promises what is not there.
  last_ms_ = std::max(last_ms_, since_start.count());
  stamped_ = bytes_;
  if (stamps_.valid() && WriteSome(stamps_.get(), Encode(Stamp{bytes_, last_ms_})) != kStampBytes) {
    stamps_.Close();  // half an entry: what would follow it could not be read
  }
}

void LogSink::Take(std::string_view bytes, Stream stream, Millis since_start) {
  if (bytes.empty()) {
    return;
  }
  last_ = stream;
  open_ = bytes.back() != '\n' && bytes.back() != '\r';
  std::size_t taken = 0;
  // Once something is dropped nothing behind it is appended: the log has one gap, not many.
  if (dropped_ == 0 && bytes_ < cap_) {
    taken = Append(bytes.substr(0, static_cast<std::size_t>(cap_ - bytes_)), stream);
    StampUpTo(since_start);
  }
  bytes.remove_prefix(taken);
  if (bytes.empty()) {
    return;
  }
  dropped_ += static_cast<std::int64_t>(bytes.size());
  tail_.append(bytes);
  if (tail_.size() > 2 * kTail) {
    tail_.erase(0, tail_.size() - kTail);
  }
}

void LogSink::Release(Millis since_start) {
  const std::string held = std::exchange(held_, {});
  Take(held, last_ == Stream::kOut ? Stream::kErr : Stream::kOut, since_start);
}

void LogSink::Write(std::string_view bytes, Stream stream, Millis since_start) {
  if (open_ && stream != last_) {
    if (held_.empty()) {
      held_since_ = since_start;
    }
    held_.append(bytes);
    if (held_.size() > kHoldBytes) {
      Release(since_start);
    }
    return;
  }
  if (held_.empty()) {
    Take(bytes, stream, since_start);
    return;
  }
  // The line that the other stream waits for, to its end.
  const std::size_t end = bytes.find_last_of("\n\r") + 1;
  if (end == 0) {
    Take(bytes, stream, since_start);
    return;
  }
  Take(bytes.substr(0, end), stream, since_start);
  Release(since_start);
  Write(bytes.substr(end), stream, since_start);
}

void LogSink::Tick(Millis since_start) {
  if (!held_.empty() && since_start - held_since_ >= kHoldTime) {
    Release(since_start);
  }
}

void LogSink::Finish(Millis since_start) {
  if (!held_.empty()) {
    Release(since_start);
  }
  if (dropped_ > 0) {
    if (tail_.size() > kTail) {
      tail_.erase(0, tail_.size() - kTail);
    }
    dropped_ -= static_cast<std::int64_t>(tail_.size());
    if (dropped_ > 0) {
      Append("\n[attune: " + std::to_string(dropped_) + " bytes of output left out here]\n",
             Stream::kOut);
    }
    dropped_ += static_cast<std::int64_t>(tail_.size() - Append(tail_, Stream::kOut));
    StampUpTo(since_start);
  }
  for (const os::Fd* fd : {&out_, &stamps_, &errs_}) {
    if (fd->valid()) {
      fsync(fd->get());
    }
  }
}

}  // namespace attune::launch
