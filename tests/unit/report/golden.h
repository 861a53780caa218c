// Stored answers beside the tests. With ATTUNE_WRITE_GOLDEN=1 the files are written; read the
// difference before committing it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace attune {

inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = ATTUNE_SOURCE_DIR "/tests/unit/report/" + name + ".golden";
  if (std::getenv("ATTUNE_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::ifstream in(path, std::ios::binary);
  std::stringstream stored;
  stored << in.rdbuf();
  EXPECT_EQ(text, stored.str()) << path;
}

// Every way that a log or a model could try to get out of a report.
inline const std::string kHostile =
    "</td><script>alert(1)</script><img src=x onerror=\"alert('2')\">|x| `y` **z**\n# heading\r"
    "[a](javascript:alert(3)) https://evil.example www.evil.example @everyone &amp; \\| "
    "\x1b[31mred\x07\xe2\x80\xae"
    "gnp.exe \xff\xfe {{7*7}} ${HOME}";

}  // namespace attune
