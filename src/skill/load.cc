// The skill as a whole: the built-in one, or a folder's.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "attune/base/check.h"
#include "attune/base/text.h"
#include "attune/skill/skill.h"
#include "built_in.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFiles = 1'000;
constexpr std::uintmax_t kMaxBytes = 64 * 1024;

struct Text {
  std::string name, text;
};
struct Texts {
  Text rules;
  std::vector<Text> levers, lessons;
};

std::string HashOf(const std::vector<Text>& files) {
  std::string all;
  for (const Text& file : files) {
    all += file.text;
    all += '\0';
  }
  return Sha256Hex(all);
}

Result<Catalog> CatalogOf(const std::vector<Text>& files) {
  Catalog catalog;
  catalog.framework = "megatron-lm";
  for (const Text& file : files) {
    ATTUNE_TRY(CatalogLever lever, ParseLever(file.text, file.name));
    if (catalog.Find(lever.lever) != nullptr) {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{}: lever '{}' stands in an earlier file too", file.name,
                              EscapeForDisplay(lever.lever, 60)));
    }
    catalog.levers.push_back(std::move(lever));
  }
  catalog.hash = HashOf(files);
  return catalog;
}

// Plain text for a request: lines of ASCII.
Status CheckRulesText(const Text& rules) {
  int line = 1;
  for (const char c : rules.text) {
    if (c == '\n') {
      ++line;
    } else if (c < ' ' || c > '~') {
      return Fail(ErrorCode::kInvalidInput,
                  fmt::format("{}:{}: not plain ASCII text", rules.name, line));
    }
  }
  if (!Trim(rules.text).empty()) return {};
  return Fail(ErrorCode::kInvalidInput, rules.name + ": is empty");
}

Result<Skill> SkillOf(const Texts& texts) {
  Skill skill;
  ATTUNE_RETURN_IF_ERROR(CheckRulesText(texts.rules));
  skill.rules = texts.rules.text;
  ATTUNE_TRY(skill.catalog, CatalogOf(texts.levers));
  std::string lessons;
  for (const Text& file : texts.lessons) {
    ATTUNE_TRY(Lesson lesson, ParseLesson(file.text, file.name));
    skill.lessons.push_back(std::move(lesson));
  }
  // A lesson's id is its file's name, so the order of the files is part of what is hashed.
  std::string all = "attune/skill/2\n" + Sha256Hex(skill.rules) + skill.catalog.hash;
  for (const Text& file : texts.lessons) all += "\n" + fs::path(file.name).filename().string();
  skill.version = Sha256Hex(all + "\n" + HashOf(texts.lessons)).substr(0, 16);
  return skill;
}

Result<Text> ReadText(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || !fs::is_regular_file(path, error) || size > kMaxBytes) {
    return Fail(ErrorCode::kInvalidInput,
                path.string() + ": must be a regular file of at most 64 KiB");
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return Fail(ErrorCode::kDenied, path.string() + ": could not be read");
  return Text{path.string(), text.str()};
}

// *.yaml of a folder, in order of name. A folder that is not there is empty.
Result<std::vector<Text>> ReadFolder(const fs::path& folder) {
  std::vector<Text> files;
  std::error_code error;
  if (!fs::exists(folder, error)) return files;
  std::vector<fs::path> paths;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().extension() == ".yaml") paths.push_back(it->path());
    if (paths.size() > kMaxFiles) {
      return Fail(ErrorCode::kInvalidInput, folder.string() + ": too many files");
    }
  }
  if (error) return Fail(ErrorCode::kDenied, folder.string() + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    ATTUNE_TRY(Text text, ReadText(path));
    files.push_back(std::move(text));
  }
  return files;
}

std::vector<Text> TextsOf(std::span<const skill::BuiltInFile> files) {
  std::vector<Text> texts;
  for (const skill::BuiltInFile& file : files) {
    texts.push_back({std::string(file.name), std::string(file.text)});
  }
  return texts;
}

}  // namespace

const Skill& BuiltInSkill() {
  // Read once: the texts are part of the program, and a test parses them all.
  static const Skill skill = [] {
    Result<Skill> read = SkillOf({{"skill/SKILL.md", std::string(skill::BuiltInRulesText())},
                                  TextsOf(skill::BuiltInLevers()),
                                  TextsOf(skill::BuiltInLessons())});
    ATTUNE_CHECK(read.has_value(), "the built-in skill is well formed");
    return std::move(*read);
  }();
  return skill;
}

const Catalog& BuiltInCatalog() { return BuiltInSkill().catalog; }

Result<Skill> LoadSkill(const std::string& folder) {
  const fs::path root(folder);
  std::error_code error;
  if (!fs::is_directory(root, error) || !fs::exists(root / "SKILL.md", error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: no skill folder", EscapeForDisplay(folder)),
                "a skill folder holds SKILL.md, levers/*.yaml and lessons/*.yaml");
  }
  Texts texts;
  ATTUNE_TRY(texts.rules, ReadText(root / "SKILL.md"));
  ATTUNE_TRY(texts.levers, ReadFolder(root / "levers"));
  ATTUNE_TRY(texts.lessons, ReadFolder(root / "lessons"));
  if (texts.levers.empty()) {
    return Fail(ErrorCode::kNotFound, (root / "levers").string() + ": no *.yaml file",
                "a skill folder holds SKILL.md, levers/*.yaml and lessons/*.yaml");
  }
  return SkillOf(texts);
}

}  // namespace attune
