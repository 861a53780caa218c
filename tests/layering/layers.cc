#include "layers.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "attune/base/text.h"

namespace attune::layering {
namespace {

using Words = std::vector<std::string_view>;

struct PartRule {
  std::string_view part;
  Words may_include;  // beside itself and base, which is everybody's
};

// Left may include right, nothing else. Not transitive: report may not include what store may.
const std::vector<PartRule>& Parts() {
  static const std::vector<PartRule> parts = {
      {"base", {}},
      {"model", {}},
      {"stats", {}},
      {"os", {}},
      {"gates", {"stats", "model"}},
      {"store", {"model"}},
      {"logs", {"model"}},
      {"traces", {"model"}},
      {"recipe_io", {"model"}},
      {"skill", {"model"}},
      {"estimate", {"model"}},
      {"launch", {"os", "model"}},
      {"llm", {"os", "model"}},
      {"sim", {"launch", "recipe_io", "model"}},
      {"propose", {"llm", "skill", "estimate", "stats", "model"}},
      {"report", {"store", "skill", "stats", "model"}},
      {"campaign",
       {"propose", "launch", "store", "logs", "traces", "recipe_io", "skill", "estimate", "gates",
        "stats", "model"}},
      {"bench", {"campaign", "sim", "stats", "store", "model"}},
      {"cli", {"*"}},
  };
  return parts;
}

// Same answer on every machine: values in, values out.
const Words kPureParts = {"gates", "model", "stats", "estimate"};

// What of base a pure part may name. The gates get the shortest list; for the others time, files
// and the log are out.
bool MayUseBaseHeader(std::string_view part, std::string_view header) {
  if (part == "gates") {
    static const std::set<std::string_view> kGates = {"units.h", "ids.h", "text.h", "check.h",
                                                      "result.h"};
    return kGates.contains(header);
  }
  const bool pure = std::find(kPureParts.begin(), kPureParts.end(), part) != kPureParts.end();
  return !pure || (header != "clock.h" && header != "log.h");
}

struct ForeignRule {
  std::string_view header;  // a whole name, or a folder when it ends in '/'
  Words allowed;            // path prefixes; none: nowhere. "*" is everywhere but in pure parts
  bool in_headers;          // false: costs seconds a file, so in .cc files only
  std::string_view why;
};

const std::vector<ForeignRule>& ForeignRules() {
  static const std::vector<ForeignRule> rules = {
      {"spdlog/", {"src/base/log.cc"}, false, "the log is base/log.h"},
      {"CLI/", {"src/cli/"}, false, "only cli reads flags"},
      {"yaml-cpp/", {"src/recipe_io/", "src/skill/"}, false, "YAML is recipe_io's and skill's"},
      {"sqlite3.h", {"src/store/", "src/traces/"}, true, "SQL is store's, and a trace format's"},
      {"curl/", {"src/os/"}, false, "HTTP is os's"},
      {"nlohmann/json_fwd.hpp", {"*"}, true, "no JSON in pure parts"},
      {"nlohmann/", {"*"}, false, "JSON crosses parts as our own structs"},
      {"re2/", {"src/logs/", "src/recipe_io/"}, false, "RE2 is for the user's patterns only"},
      {"simdjson.h", {"*"}, false, "JSON crosses parts as our own structs"},
      {"regex", {}, false, "scan with base/text.h"},
      {"random", {}, false, "use base/random.h: the same numbers with every library"},
      {"iostream", {"src/cli/"}, false, "only cli writes to the terminal"},
      {"gtest/", {}, false, "tests live in tests/"},
      {"gmock/", {}, false, "tests live in tests/"},
      {"benchmark/", {}, false, "benchmarks live in tests/bench"},
      // The world outside, for pure parts.
      {"fstream", {"*"}, true, "no files in pure parts"},
      {"filesystem", {"*"}, true, "no files in pure parts"},
      {"cstdio", {"*"}, true, "no files in pure parts"},
      {"stdio.h", {"*"}, true, "no files in pure parts"},
      {"fcntl.h", {"*"}, true, "no files in pure parts"},
      {"unistd.h", {"*"}, true, "no system calls in pure parts"},
      {"sys/", {"*"}, true, "no system calls in pure parts"},
      {"netdb.h", {"*"}, true, "no network in pure parts"},
      {"ctime", {"*"}, true, "no clock in pure parts"},
      {"time.h", {"*"}, true, "no clock in pure parts"},
      {"thread", {"*"}, true, "no threads in pure parts"},
      {"mutex", {"*"}, true, "no threads in pure parts"},
      {"future", {"*"}, true, "no threads in pure parts"},
      {"condition_variable", {"*"}, true, "no threads in pure parts"},
      {"pthread.h", {"*"}, true, "no threads in pure parts"},
  };
  return rules;
}

struct CallRule {
  std::string_view call;
  Words allowed;  // path prefixes; none: nowhere. "*" is everywhere but in pure parts
  std::string_view why;
};

const std::vector<CallRule>& CallRules() {
  static const Words kHoldTime = {"src/base/clock.cc", "src/os/", "src/launch/", "src/cli/"};
  static const std::vector<CallRule> rules = {
      {"_clock::now(", kHoldTime, "time enters as `now` or through base/clock.h"},
      {"clock_gettime(", kHoldTime, "time enters as `now` or through base/clock.h"},
      {"gettimeofday(", kHoldTime, "time enters as `now` or through base/clock.h"},
      {"getenv(", {"*"}, "no environment in pure parts"},
      {"std::system(", {}, "no shell between us and a job"},
      {"popen(", {}, "no shell between us and a job"},
      {"std::cout", {"src/cli/"}, "only cli writes to the terminal"},
      {"std::cerr", {"src/cli/"}, "only cli writes to the terminal"},
      {"fmt::print(", {"src/cli/"}, "only cli writes to the terminal"},
      // What is true of a simulated cluster is found out by launching: cli only hands a world over.
      {"OpenWorld(", {"src/sim/", "include/attune/sim/", "src/bench/", "src/cli/"},
       "only sim and bench read worlds"},
      {"ReadWorld(", {"src/sim/"}, "only sim and bench read worlds"},
  };
  return rules;
}

const PartRule* RuleOf(std::string_view part) {
  for (const PartRule& rule : Parts()) {
    if (rule.part == part) {
      return &rule;
    }
  }
  return nullptr;
}

std::string_view Take(std::string_view& path) {
  const std::size_t slash = path.find('/');
  const std::string_view first = path.substr(0, slash);
  path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  return first;
}

// src/X/..., gates/... and include/attune/X/... belong to part X; nothing else does.
std::optional<std::string> PartOf(std::string_view path) {
  // The rows' generator runs while the library is built and is no part of it.
  if (path.starts_with("gates/rules/")) return std::nullopt;
  std::string_view rest = path;
  const std::string_view top = Take(rest);
  if (top == "gates") {
    return "gates";
  }
  if (top == "include") {
    Take(rest);  // attune
  } else if (top != "src") {
    return std::nullopt;
  }
  std::string part(Take(rest));
  return rest.empty() ? std::nullopt : std::optional(std::move(part));
}

bool IsPure(std::string_view part) {
  return std::find(kPureParts.begin(), kPureParts.end(), part) != kPureParts.end();
}

bool Allows(const Words& allowed, std::string_view path, std::string_view part) {
  return std::any_of(allowed.begin(), allowed.end(), [&](std::string_view prefix) {
    return prefix == "*" ? !IsPure(part) : path.starts_with(prefix);
  });
}

std::string At(std::string_view path, int line, std::string_view what) {
  return std::string(path) + ":" + std::to_string(line) + ": " + std::string(what);
}

// "attune/model/run.h" names the part "model"; another include names none.
std::optional<std::string> PartIncluded(const Include& include) {
  std::string_view rest = include.name;
  if (!include.quoted || Take(rest) != "attune") {
    return std::nullopt;
  }
  return std::string(Take(rest));
}

bool MayInclude(const PartRule& rule, std::string_view other) {
  return other == rule.part || other == "base" ||
         std::any_of(rule.may_include.begin(), rule.may_include.end(),
                     [&](std::string_view may) { return may == "*" || may == other; });
}

// The arguments in a build file, without comments, quotes and brackets; "(" and ")" are words too.
std::vector<std::string> WordsOfBuildFile(std::string_view text) {
  std::vector<std::string> words(1);
  for (const std::string_view line : SplitLines(text)) {
    for (const char c : line.substr(0, line.find('#'))) {
      if (c == '(' || c == ')') {
        words.emplace_back(1, c);
        words.emplace_back();
      } else if (c == ' ' || c == '\t' || c == '"') {
        words.emplace_back();
      } else {
        words.back() += c;
      }
    }
    words.emplace_back();
  }
  std::erase(words, "");
  return words;
}

// The arguments after DEPS of every call in a part's CMakeLists.txt.
std::set<std::string> DeclaredDeps(std::string_view text) {
  static const std::set<std::string_view> kOtherKeywords = {"NAME", "SOURCES", "PRIVATE_LIBS", ")"};
  std::set<std::string> deps;
  bool inside = false;
  for (const std::string& word : WordsOfBuildFile(text)) {
    if (word == "DEPS") {
      inside = true;
    } else if (kOtherKeywords.contains(word)) {
      inside = false;
    } else if (inside) {
      deps.insert(word);
    }
  }
  return deps;
}

std::string BuildFileOf(std::string_view part) {
  return part == "gates" ? "gates/CMakeLists.txt" : "src/" + std::string(part) + "/CMakeLists.txt";
}

// Every source file that some build file names, as a path from the project root.
std::set<std::string> BuiltFiles(const SourceTree& tree) {
  constexpr std::string_view kRoot = "${PROJECT_SOURCE_DIR}/";
  constexpr std::string_view kHere = "${CMAKE_CURRENT_SOURCE_DIR}/";
  std::set<std::string> built;
  for (const auto& [path, text] : tree) {
    if (NameOf(path) != "CMakeLists.txt") {
      continue;
    }
    for (std::string_view word : WordsOfBuildFile(text)) {
      if (!IsSource(word)) {
        continue;
      }
      std::string folder = FolderOf(path) + "/";
      if (word.starts_with(kRoot)) {
        folder.clear();
        word.remove_prefix(kRoot.size());
      } else if (word.starts_with(kHere)) {
        word.remove_prefix(kHere.size());
      }
      built.insert(std::filesystem::path(folder + std::string(word)).lexically_normal().string());
    }
  }
  return built;
}

}  // namespace

Complaints CheckLayers(const SourceTree& tree) {
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    const std::optional<std::string> part = PartOf(path);
    if (!part || !(IsHeader(path) || IsSource(path))) {
      continue;
    }
    const PartRule* const rule = RuleOf(*part);
    if (rule == nullptr) {
      complaints.push_back(path + ": part '" + *part + "' has no row in the table of layers");
      continue;
    }
    for (const Include& include : IncludesOf(text)) {
      const std::optional<std::string> other = PartIncluded(include);
      if (other && !MayInclude(*rule, *other)) {
        complaints.push_back(At(path, include.line, *part + " may not include " + *other));
      } else if (other == "base" && !MayUseBaseHeader(*part, NameOf(include.name))) {
        complaints.push_back(At(path, include.line, *part + " may not include " + include.name));
      } else if (include.name.find("..") != std::string::npos || include.name.ends_with(".cc") ||
                 include.name.starts_with("src/")) {
        complaints.push_back(
            At(path, include.line, "'" + include.name + "' goes around the include paths"));
      }
    }
  }
  return complaints;
}

Complaints CheckForeignHeaders(const SourceTree& tree) {
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    const std::optional<std::string> part = PartOf(path);
    if (!part || !(IsHeader(path) || IsSource(path))) {
      continue;
    }
    for (const Include& include : IncludesOf(text)) {
      for (const ForeignRule& rule : ForeignRules()) {
        const bool folder = rule.header.ends_with('/');
        if (folder ? !include.name.starts_with(rule.header) : include.name != rule.header) {
          continue;
        }
        const bool place = Allows(rule.allowed, path, *part);
        if (!place || (IsHeader(path) && !rule.in_headers)) {
          complaints.push_back(At(path, include.line,
                                  "<" + include.name + "> does not belong here" +
                                      (place ? " (in .cc files only)" : "") + ": " +
                                      std::string(rule.why)));
        }
        break;  // the first rule that names the header decides
      }
    }
  }
  return complaints;
}

Complaints CheckForbiddenCalls(const SourceTree& tree) {
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    const std::optional<std::string> part = PartOf(path);
    if (!part || !(IsHeader(path) || IsSource(path))) {
      continue;
    }
    const std::string code = WithoutLineComments(text);
    int number = 0;
    for (const std::string_view line : SplitLines(code)) {
      ++number;
      for (const CallRule& rule : CallRules()) {
        if (line.find(rule.call) != std::string_view::npos && !Allows(rule.allowed, path, *part)) {
          complaints.push_back(
              At(path, number, std::string(rule.call) + ": " + std::string(rule.why)));
        }
      }
    }
  }
  return complaints;
}

Complaints CheckPublicHeaders(const SourceTree& tree) {
  // From what other parts include, through what those headers include themselves.
  std::vector<std::string> open;
  std::set<std::string> needed;
  const auto need = [&](const std::string& name) {
    if (needed.insert("include/" + name).second) {
      open.push_back("include/" + name);
    }
  };
  for (const auto& [path, text] : tree) {
    const std::optional<std::string> part = PartOf(path);
    for (const Include& include : IncludesOf(text)) {
      const std::optional<std::string> other = PartIncluded(include);
      if (part && other && *other != *part) {
        need(include.name);
      }
    }
  }
  while (!open.empty()) {
    const std::string path = std::move(open.back());
    open.pop_back();
    const auto file = tree.find(path);
    if (file == tree.end()) {
      continue;
    }
    for (const Include& include : IncludesOf(file->second)) {
      if (PartIncluded(include)) {
        need(include.name);
      }
    }
  }
  Complaints complaints;
  for (const auto& [path, text] : tree) {
    if (path.starts_with("include/") && !needed.contains(path)) {
      complaints.push_back(path + ": no other part includes it, so it belongs beside its source");
    }
  }
  return complaints;
}

Complaints CheckBuildFiles(const SourceTree& tree) {
  Complaints complaints;
  const std::set<std::string> built = BuiltFiles(tree);
  for (const auto& [path, text] : tree) {
    const std::optional<std::string> part = PartOf(path);
    const bool test = path.starts_with("tests/");
    if (IsSource(path) && (part || test) && !built.contains(path)) {
      complaints.push_back(path + ": no CMakeLists.txt lists it, so it is never built");
    }
    if (!part || !(IsHeader(path) || IsSource(path)) || RuleOf(*part) == nullptr) {
      continue;
    }
    const auto build = tree.find(BuildFileOf(*part));
    // A part that is only a contract so far has nothing to link.
    if (build == tree.end()) {
      continue;
    }
    const std::set<std::string> deps = DeclaredDeps(build->second);
    for (const Include& include : IncludesOf(text)) {
      const std::optional<std::string> other = PartIncluded(include);
      // base arrives with whatever else is declared; cli is a program and links by hand.
      const bool base_arrives = other == "base" && !deps.empty();
      if (other && *other != *part && *part != "cli" && !base_arrives && !deps.contains(*other)) {
        complaints.push_back(
            At(path, include.line, "'" + *other + "' is missing in DEPS of " + BuildFileOf(*part)));
      }
    }
  }
  for (const PartRule& rule : Parts()) {
    const auto build = tree.find(BuildFileOf(rule.part));
    if (build == tree.end()) {
      continue;
    }
    for (const std::string& dep : DeclaredDeps(build->second)) {
      if (!MayInclude(rule, dep)) {
        complaints.push_back(build->first + ": " + std::string(rule.part) + " may not depend on " +
                             dep);
      }
    }
  }
  return complaints;
}

}  // namespace attune::layering
