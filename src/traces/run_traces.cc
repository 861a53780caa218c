// The trace files of one run. The job may have put anything into its folder, links included, while
// we look: every step down is opened relative to the one above and follows no link.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "attune/base/text.h"
#include "attune/traces/trace_reader.h"

namespace attune {
namespace {

constexpr int kDepth = 3;

class Folder {
 public:
  explicit Folder(int fd) : fd_(fd) {}
  Folder(Folder&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Folder& operator=(Folder&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Folder() {
    if (fd_ >= 0) close(fd_);
  }
  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  Folder Below(const std::string& name) const {
    return Folder(openat(fd_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }

 private:
  int fd_;
};

// `root` itself is ours and may be reached through a link; what is below it may not.
Folder Open(const std::string& root, std::string_view below) {
  Folder folder(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const std::string_view part : Split(below, '/')) {
    if (!folder.ok() || part.empty()) continue;
    folder = folder.Below(std::string(part));
  }
  return folder;
}

struct Entries {
  std::vector<std::string> files, folders;
};

Entries List(const Folder& folder) {
  Entries entries;
  const int copy = openat(folder.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = copy >= 0 ? fdopendir(copy) : nullptr;
  if (dir == nullptr) {
    if (copy >= 0) close(copy);
    return entries;
  }
  while (const dirent* entry = readdir(dir)) {
    struct stat st {};
    if (entry->d_name[0] == '.' ||
        fstatat(folder.fd(), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (S_ISDIR(st.st_mode)) entries.folders.emplace_back(entry->d_name);
    if (S_ISREG(st.st_mode) && LooksLikeTrace(entry->d_name)) {
      entries.files.emplace_back(entry->d_name);
    }
  }
  closedir(dir);
  std::sort(entries.files.begin(), entries.files.end());
  std::sort(entries.folders.begin(), entries.folders.end());
  return entries;
}

class Finder {
 public:
  Finder(const std::vector<int>& ranks, RunTraces& found) : ranks_(ranks), found_(found) {}

  void Look(const Folder& folder, const std::string& path, int depth) {
    const Entries entries = List(folder);
    for (const std::string& name : entries.files) Take(folder, path, name);
    if (depth == 0) return;
    for (const std::string& name : entries.folders) {
      const Folder below = folder.Below(name);
      if (below.ok()) Look(below, path + "/" + name, depth - 1);
    }
  }

  void Sum() {
    if (others_ > 0) {
      found_.notes.push_back(fmt::format(
          "{} trace files of ranks that profile.ranks does not name: removed", others_));
    }
    if (beyond_ > 0) {
      found_.notes.push_back(
          fmt::format("{} trace files beyond the first {}: not read", beyond_, kMaxRunTraces));
    }
  }

 private:
  void Take(const Folder& folder, const std::string& path, const std::string& name) {
    const std::int64_t rank = RankFromName(name);
    if (rank >= 0 && std::find(ranks_.begin(), ranks_.end(), rank) == ranks_.end()) {
      if (unlinkat(folder.fd(), name.c_str(), 0) == 0) ++others_;
      return;
    }
    if (found_.files.size() == kMaxRunTraces) {
      ++beyond_;
      return;
    }
    found_.files.push_back(path + "/" + name);
  }

  const std::vector<int>& ranks_;
  RunTraces& found_;
  int others_ = 0, beyond_ = 0;
};

}  // namespace

RunTraces FindRunTraces(const std::string& root, const std::string& below,
                        const std::vector<int>& ranks) {
  RunTraces found;
  found.folder = root + "/" + below;
  const Folder folder = Open(root, below);
  if (!folder.ok()) return found;
  Finder finder(ranks, found);
  finder.Look(folder, found.folder, kDepth);
  finder.Sum();
  return found;
}

void CapRunTraces(RunTraces& traces, const std::string& root, std::int64_t max_bytes) {
  struct Sized {
    std::string path;
    std::int64_t bytes;
  };
  std::vector<Sized> sized;
  std::int64_t sum = 0;
  for (const std::string& path : traces.files) {
    struct stat st {};
    if (lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    sized.push_back({path, st.st_size});
    sum += st.st_size;
  }
  std::sort(sized.begin(), sized.end(),
            [](const Sized& a, const Sized& b) { return a.bytes > b.bytes; });
  for (const Sized& file : sized) {
    if (sum <= max_bytes) return;
    const std::size_t slash = file.path.rfind('/');
    const std::string name = file.path.substr(slash + 1);
    const Folder folder =
        Open(root, std::string_view(file.path).substr(root.size(), slash - root.size()));
    if (!folder.ok() || unlinkat(folder.fd(), name.c_str(), 0) != 0) continue;
    sum -= file.bytes;
    std::erase(traces.files, file.path);
    traces.notes.push_back(fmt::format("{} of {} MB was read and removed: profile.max_mb is {}",
                                       EscapeForDisplay(name), (file.bytes + 999'999) / 1'000'000,
                                       max_bytes / 1'000'000));
  }
}

}  // namespace attune
