// Texts that the real program prints, stored beside the tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "run_attune.h"

namespace attune::cli {

// With ATTUNE_WRITE_GOLDEN=1 the files are written; read the difference before committing it.
inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = ATTUNE_SOURCE_DIR "/tests/cli/" + name + ".golden";
  if (std::getenv("ATTUNE_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
  }
  EXPECT_EQ(text, Slurp(path)) << path;
}

}  // namespace attune::cli
