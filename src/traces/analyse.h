// From the records of one file to its figures.
#pragma once

#include "event_store.h"

namespace attune::traces {

// The store is sorted in place and used up. Path, format, whole and text_bytes are the caller's.
RankTrace Analyse(EventStore& store);

}  // namespace attune::traces
