#include "file_text.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "attune/base/text.h"

namespace attune {
namespace fs = std::filesystem;
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) {
      close(fd);
    }
  }
};

tl::unexpected<Error> SystemFailure(const std::string& path, int number) {
  return Fail(
      number == ENOENT || number == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kInvalidInput,
      fmt::format("{}: {}", EscapeForDisplay(path), std::strerror(number)));
}

}  // namespace

Result<std::string> ReadText(const std::string& path, std::size_t max_bytes,
                             const std::string& shown) {
  const std::string& name = shown.empty() ? path : shown;
  if (path.find('\0') != std::string::npos) {
    return Fail(ErrorCode::kInvalidInput, "a file name cannot hold NUL");
  }
  Descriptor file;
  file.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file.fd < 0) {
    return SystemFailure(name, errno);
  }
  struct stat status {};
  if (fstat(file.fd, &status) != 0) {
    return SystemFailure(name, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return Fail(ErrorCode::kInvalidInput,
                fmt::format("{}: not a regular file", EscapeForDisplay(name)));
  }
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t n = read(file.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return SystemFailure(name, errno);
    }
    if (n == 0) {
      return text;
    }
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > max_bytes) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{}: more than {} bytes", EscapeForDisplay(name), max_bytes));
    }
  }
}

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string JoinPath(const std::string& folder, const std::string& path) {
  if (folder == "." || folder.empty()) {
    return path;
  }
  return (fs::path(folder) / path).string();
}

std::string Normal(const std::string& path) {
  std::string normal = fs::path(path).lexically_normal().string();
  if (normal.size() > 1 && normal.ends_with('/')) {
    normal.pop_back();
  }
  return normal;
}

std::string AbsolutePath(const std::string& path) {
  if (path.starts_with('/')) {
    return Normal(path);
  }
  std::error_code error;
  const fs::path here = fs::current_path(error);
  return Normal((error ? fs::path("/") : here / path).string());
}

std::string RelativeTo(const std::string& path, const std::string& folder) {
  const fs::path relative = fs::path(path).lexically_relative(folder);
  return relative.empty() ? path : relative.string();
}

}  // namespace attune
