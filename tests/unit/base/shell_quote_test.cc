// ShellQuote is checked by the shell itself: what comes out of /bin/sh must be what went in.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "attune/base/random.h"
#include "attune/base/text.h"

namespace attune {
namespace {

// Runs `shell` on a script that prints every word followed by NUL, and splits what it printed.
std::vector<std::string> ThroughShell(const std::string& shell,
                                      const std::vector<std::string>& words) {
  std::string path = testing::TempDir() + "/attune-quote-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0) {
    ADD_FAILURE() << "no temporary file";
    return {};
  }
  FILE* script = fdopen(fd, "wb");
  for (const std::string& word : words) {
    const std::string line = "printf '%s\\0' " + ShellQuote(word) + "\n";
    std::fwrite(line.data(), 1, line.size(), script);
  }
  std::fclose(script);

  FILE* out = popen((shell + " " + path).c_str(), "r");
  if (out == nullptr) {
    ADD_FAILURE() << shell << " does not start";
    return {};
  }
  std::string printed;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, out)) > 0;) {
    printed.append(buffer, n);
  }
  EXPECT_EQ(pclose(out), 0);
  unlink(path.c_str());

  std::vector<std::string> back;
  for (const std::string_view word : Split(printed, '\0')) {
    back.emplace_back(word);
  }
  back.pop_back();  // after the last NUL
  return back;
}

std::vector<std::string> HardWords() {
  std::vector<std::string> words = {
      "",      "'",     "''",    "it's",    "\"",         "\\",       "\\'",
      "$HOME", "$(id)", "`id`",  "${x:-y}", "*",          "~",        "a b",
      "a\nb",  "\n",    "\n\n",  "a\r\nb",  "\t",         "#x",       "!!",
      "-n",    "--",    "%s",    "a=b",     ";",          "&&",       "|",
      "<(x)",  ">f",    "{a,b}", "[a]",     "\x01\x7f",   "\xff\xfe", "naïve 漢字 🙂",
      "'\\''", "\\",    "\\\\n", "EOF",     "trailing\\", "'\n'",     std::string(5000, '\'')};
  // Every byte but NUL, alone and between quotes.
  for (int byte = 1; byte < 256; ++byte) {
    words.emplace_back(1, static_cast<char>(byte));
    words.push_back("'" + std::string(1, static_cast<char>(byte)) + "'");
  }
  return words;
}

std::vector<std::string> RandomWords(std::uint64_t seed, int count) {
  static const std::string kNasty = "'\"\\$`\n \t!*?[]{}()<>|&;#~=%-";
  Random random(seed);
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) {
    std::string word;
    const std::uint64_t length = random.Below(40);
    while (word.size() < length) {
      switch (random.Below(4)) {
        case 0:
          word += kNasty[random.Below(kNasty.size())];
          break;
        case 1:
          word += static_cast<char>('a' + random.Below(26));
          break;
        case 2:
          word += "é漢🙂";
          break;
        default:
          word += static_cast<char>(1 + random.Below(255));
      }
    }
    words.push_back(word);
  }
  return words;
}

void ExpectUnchanged(const std::vector<std::string>& words) {
  std::vector<std::string> shells = {"/bin/sh"};
  // Also the shell that most job scripts name: it treats the bytes 1 and 127 in its own way inside.
  if (access("/bin/bash", X_OK) == 0) {
    shells.emplace_back("/bin/bash");
  }
  for (const std::string& shell : shells) {
    const std::vector<std::string> back = ThroughShell(shell, words);
    ASSERT_EQ(back.size(), words.size()) << shell;
    for (std::size_t i = 0; i < words.size(); ++i) {
      EXPECT_EQ(back[i], words[i])
          << shell << ", word " << i << ", quoted " << EscapeForDisplay(ShellQuote(words[i]));
    }
  }
}

TEST(ShellQuote, HardWordsComeThroughARealShell) { ExpectUnchanged(HardWords()); }

TEST(ShellQuote, RandomWordsComeThroughARealShell) {
  constexpr std::uint64_t kSeed = 424242;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  ExpectUnchanged(RandomWords(kSeed, 3000));
}

TEST(ShellQuote, AlwaysQuotes) {
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("plain"), "'plain'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
}

TEST(ShellQuote, NulIsABugOfTheCaller) {
  EXPECT_DEATH(ShellQuote(std::string_view("a\0b", 3)), "cannot hold NUL");
}

}  // namespace
}  // namespace attune
