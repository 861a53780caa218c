// Runs a fuzz target's entry without libFuzzer: over the seed files as they are, then over seeded
// mutations of them. `NAME_replay MUTATIONS SEED FOLDER...`; the entry aborts on a fault, and the
// number printed last names the input.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "attune/base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kLargest = 64 << 10;

std::vector<std::string> ReadSeeds(int argc, char** argv) {
  std::vector<std::string> paths, seeds;
  for (int i = 3; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// One to four edits: change, drop, repeat or copy bytes in from another seed.
std::string Mutate(std::string s, const std::vector<std::string>& seeds, attune::Random& random) {
  for (std::uint64_t edits = 1 + random.Below(4); edits > 0; --edits) {
    const std::size_t at = random.Below(s.size() + 1);
    const std::size_t n = std::min<std::size_t>(1 + random.Below(40), s.size() - at);
    switch (random.Below(5)) {
      case 0:
        if (at < s.size()) s[at] = static_cast<char>(random.Below(256));
        break;
      case 1:
        s.erase(at, n);
        break;
      case 2:
        s.insert(at, s.substr(at, n));
        break;
      case 3:
        s.insert(at, 1 + random.Below(8), "\n\r\x1b|:\0 0"[random.Below(8)]);
        break;
      default: {
        const std::string& other = seeds[random.Below(seeds.size())];
        const std::size_t from = random.Below(other.size() + 1);
        s.insert(at, other.substr(from, random.Below(200)));
      }
    }
  }
  s.resize(std::min(s.size(), kLargest));
  return s;
}

void Run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s MUTATIONS SEED FOLDER...\n", argv[0]);
    return 2;
  }
  const int mutations = std::atoi(argv[1]);
  const std::vector<std::string> seeds = ReadSeeds(argc, argv);
  if (seeds.empty()) {
    std::fprintf(stderr, "no seeds\n");
    return 2;
  }
  for (const std::string& seed : seeds) Run(seed);
  attune::Random random(std::strtoull(argv[2], nullptr, 10));
  for (int i = 0; i < mutations; ++i) {
    // The first two bytes steer the target, whatever the seed's text starts with.
    std::string input = {static_cast<char>(random.Below(256)),
                         static_cast<char>(random.Below(256))};
    input += Mutate(seeds[random.Below(seeds.size())], seeds, random);
    if (i % 100 == 0) std::fprintf(stderr, "\rmutation %d", i);
    Run(input);
  }
  std::fprintf(stderr, "\r%zu seeds, %d mutations\n", seeds.size(), mutations);
  return 0;
}
