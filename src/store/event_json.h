// Facts as stored: a word (FactWord) and a JSON body. The same form is a row of table `event`, a
// line of `db export` and a line of `run --events FILE` (docs/formats/store.md).
#pragma once

#include <string>
#include <string_view>

#include "attune/base/result.h"
#include "attune/model/event.h"

namespace attune {

// The JSON body. Non-finite numbers are written as "NaN", "Infinity", "-Infinity" where a job may
// have printed them; elsewhere (money, gains, bands) they are refused with kInvalidInput, as is
// text that is not UTF-8 where it has meaning (arguments, paths, ids). Bad bytes in free text
// (causes, log lines, hypotheses) become U+FFFD.
Result<std::string> EncodeFact(const Fact& fact);

// The inverse, strict: an unknown word, a missing, unknown, repeated or ill-typed field is kCorrupt
// with a message naming it. The caller adds campaign and seq.
Result<Fact> DecodeFact(std::string_view word, std::string_view body);

// One line of NDJSON without the newline:
// {"schema":"attune.event/1","campaign":"c-...","seq":7,"at":"<RFC
// 3339>","kind":"...","body":{...}}
std::string EventLine(const CampaignId& campaign, const Event& event, std::string_view body);
Result<std::string> EventLine(const CampaignId& campaign, const Event& event);

}  // namespace attune
