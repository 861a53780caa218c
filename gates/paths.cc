// What a tuning run reads, caches and writes, judged by name and text alone: no file is looked at.
#include <algorithm>

#include "attune/base/text.h"
#include "attune/gates/instrument.h"
#include "check_parts.h"

namespace attune {
namespace {

using gates::Refusal;

// Absolute and without "." and "..": "a/../b" under /w is /w/b. A text that climbs above the root
// stays at the root.
std::string Normal(std::string_view path, std::string_view folder) {
  std::string whole(path);
  if (!path.starts_with('/')) whole = std::string(folder) + "/" + whole;
  std::vector<std::string_view> kept;
  for (const std::string_view part : Split(whole, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!kept.empty()) kept.pop_back();
      continue;
    }
    kept.push_back(part);
  }
  std::string out;
  for (const std::string_view part : kept) out += "/" + std::string(part);
  return out.empty() ? "/" : out;
}

bool Below(const std::string& path, const std::string& folder) {
  if (folder == "/") return true;
  return path == folder || path.starts_with(folder + "/");
}

bool BelowAny(const std::string& path, const std::vector<std::string>& folders,
              std::string_view base) {
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& f) { return Below(path, Normal(f, base)); });
}

const PathRow* RowOf(const Rules& rules, std::string_view name) {
  for (const PathRow& row : rules.paths) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool IsNumber(std::string_view s) { return ParseDouble(s).has_value(); }

class Finder {
 public:
  Finder(const Recipe& recipe, const Rules& rules) : recipe_(recipe), rules_(rules) {}

  void Look(const std::string& name, const std::string& value) {
    const PathRow* row = RowOf(rules_, name);
    if (row != nullptr) {
      if (!value.empty() && !IsNumber(value)) found.push_back({name, value, row->use});
      return;
    }
    if (value.find('/') == std::string::npos) return;
    const std::string path = Normal(value, recipe_.folder);
    PathUse use = PathUse::kUnknown;
    if (BelowAny(path, recipe_.workload.caches, recipe_.folder)) {
      use = PathUse::kCache;
    } else if (BelowAny(path, recipe_.workload.reads, recipe_.folder)) {
      use = PathUse::kRead;
    }
    found.push_back({name, value, use});
  }

  std::vector<PathFound> found;

 private:
  const Recipe& recipe_;
  const Rules& rules_;
};

}  // namespace

std::vector<PathFound> FindPaths(const Recipe& recipe, const Effective& e, const Rules& rules) {
  Finder finder(recipe, rules);
  for (const Argument& a : e.args.items()) {
    for (const std::string& v : a.values) finder.Look(a.flag, v);
  }
  for (const auto& [name, value] : e.env) finder.Look(name, value);
  return std::move(finder.found);
}

std::vector<Finding> CheckPaths(const Recipe& recipe, const Effective& measured,
                                std::string_view run_dir, const Rules& rules) {
  std::vector<Finding> out;
  const std::string run = Normal(run_dir, recipe.folder);
  for (const PathFound& p : FindPaths(recipe, measured, rules)) {
    const std::string path = Normal(p.path, recipe.folder);
    const bool inside = !run_dir.empty() && (Below(path, run) || p.path == run_dir ||
                                             p.path.starts_with(std::string(run_dir) + "/"));
    const bool cached = BelowAny(path, recipe.workload.caches, recipe.folder);
    switch (p.use) {
      case PathUse::kRead:
        break;
      case PathUse::kWrite:
        if (!inside && !cached) {
          out.push_back(Refusal("paths.write", p.name, "", EscapeForDisplay(p.path, 200),
                                "a tuning run would write outside its run folder: remove or "
                                "redirect it under measure.instrument, or declare a cache"));
        }
        break;
      case PathUse::kCache:
        if (!inside && !cached) {
          out.push_back(Refusal("paths.cache", p.name, "", EscapeForDisplay(p.path, 200),
                                "runs would write a cache that is not declared: add it to "
                                "workload.caches"));
        }
        break;
      case PathUse::kUnknown:
        if (inside) break;
        out.push_back(Refusal("paths.unknown", p.name, "", EscapeForDisplay(p.path, 200),
                              "whether it is read or written is not known: add it to "
                              "workload.reads or workload.caches"));
        break;
    }
  }
  return out;
}

}  // namespace attune
