// One checked statement with the runs that it stands on (skill/lessons). Lessons are written from
// the records of ended campaigns, never by a model and never by hand. Format:
// docs/formats/lessons.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attune/base/result.h"

namespace attune {

struct Lesson {
  struct Pair {
    std::string campaign, run, parent;
    bool operator==(const Pair&) const = default;
  };
  std::string id;  // "L0001": the file's name
  std::string lever;
  std::string condition, direction, scope;  // one line each, ASCII, at most 400 bytes
  double effect_lo = 0, effect_hi = 0;      // relative gain over the parent run, lowest and highest
  std::string status;                       // correct | rewritten
  std::string origin;                       // campaign that it was distilled from
  std::vector<Pair> evidence, counter;      // runs that say so, and runs that say otherwise
};

// One file's text. `name` is its path: the last part is the lesson's id and ".yaml". Strict: an
// unknown key, a missing or repeated one, or a wrong form is an error with file, line and column.
Result<Lesson> ParseLesson(std::string_view text, const std::string& name);

}  // namespace attune
