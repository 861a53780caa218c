// doctor --llm: is there a model, and does it do what a campaign will ask of it? Costs a few cents
// at most, before any GPU-hour is spent.
#pragma once

#include <vector>

#include "check_row.h"
#include "llm_setup.h"
#include "wire.h"

namespace attune::cli {

struct ModelExamination {
  std::vector<CheckRow> rows;
  int code = 0;  // exit code of the first failure
};
// Of every model in the list: is it named by its server, does one tiny forced call come back as
// one, and does a prompt of the size of a campaign's arrive whole?
ModelExamination ExamineModels(Wire& wire, const LlmFlags& flags, const LlmSpec& recipe);

}  // namespace attune::cli
